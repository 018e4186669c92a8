# SPDX-License-Identifier: MIT
"""The training loop: epochs over shuffled rows, looks at validation rows, checkpoints, and a clean end when stopped.

All randomness is a function of (seed, epoch, row), and `State` with the model's tensors says where training is, so a
resumed run goes on to the same bytes. What depends on the clock (log lines, checkpoints, looks within an epoch)
never touches the weights.
"""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from xcl import checkpoint, machine, native
from xcl.checkpoint import Card
from xcl.config import Config, OptimizerConfig
from xcl.errors import Interrupted, WorkError, XclError
from xcl.evaluate import Propensity, Result, evaluate
from xcl.inputs import Part, Rows
from xcl.journal import Journal
from xcl.metrics import Metric
from xcl.model import Model, Step
from xcl.report import Pace, Progress, Reporter
from xcl.rundir import Run

LOOK_SECONDS = 0.2
QUICK_ROWS = 2000
VALIDATION = ("p@1", "p@5")
TEST = ("p@1", "p@3", "p@5")


@dataclass
class State:
    """Where training is; stored in checkpoints. epoch counts finished epochs, position the rows done in this one."""

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int = 0
    stale_epochs: int = 0
    stopped_early: bool = False
    metrics_bytes: int = 0
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises: TypeError for a stored state that is none of ours."""
        counts = (self.epoch, self.position, self.step, self.best_epoch, self.stale_epochs, self.metrics_bytes)
        numbers = (self.best or 0.0, self.seconds, *dict(self.sums).values())
        if not all(type(n) is int and n >= 0 for n in counts) or not all(math.isfinite(n) for n in numbers):
            raise TypeError("a number is missing or out of range")


class Signals:
    """Ctrl-C and SIGTERM as a flag. The second one ends the process at once."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.signum = 0
        self._notice = notice
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum

    def check(self) -> None:
        """Raises: _Stopped once a signal has come."""
        if self.signum:
            self._notice("stopping after this step; once more to stop at once")
            raise _Stopped


class _Stopped(Exception):
    """A signal came; the state is consistent."""


def learning_rate(optimizer: OptimizerConfig, rows_seen: int, n_rows: int, total: int) -> float:
    """The rate of a step on n_rows rows after rows_seen of total rows; optimizer: without `auto`."""
    assert optimizer.learning_rate != "auto"
    warm = optimizer.warmup * total
    if rows_seen < warm:
        return optimizer.learning_rate * min(1.0, (rows_seen + n_rows) / warm)
    share = (rows_seen - warm) / max(1.0, total - warm)
    if optimizer.schedule == "linear":
        return optimizer.learning_rate * (1 - share)
    if optimizer.schedule == "cosine":
        return optimizer.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
    return optimizer.learning_rate


class Trainer:
    """Trains a model on one part, choosing by another."""

    def __init__(
        self,
        config: Config,
        card: Card,
        train: Part,
        validation: Part | None,
        propensity: Propensity,
        model: Model,
        run: Run,
        reporter: Reporter,
        signals: Signals,
    ) -> None:
        self.config = config
        self.card = card
        self.part = train
        self.validation = validation
        self.propensity = propensity
        self.model = model
        self.run = run
        self.reporter = reporter
        self.signals = signals
        self.state = State()
        self.batch_size = min(config.train.batch_size, len(train.rows))
        stride = max(1, len(validation.rows) // QUICK_ROWS) if validation else 1
        self.quick_rows = np.ascontiguousarray(validation.rows[::stride]) if validation else None
        self.wanted = [Metric.parse(name) for name in {*VALIDATION, config.train.monitor}]

    def fit(self, test: Part | None) -> Result | None:
        """Train from the current state to the end, write model.safetensors and evaluate it on test rows.

        Raises: Interrupted after a signal, with a checkpoint written; WorkError if the loss is not finite.
        """
        now = time.monotonic()
        self.pace, self.started = Pace(), now - self.state.seconds
        self.next_look, self.next_checkpoint = now, now + 60 * self.config.train.checkpoint_minutes
        self.next_quick = now + 60 * self.config.train.evaluate_minutes
        self.busy = self.busy_rows = 0.0
        self.window_loss = self.window_rows = 0.0
        with Journal(self.run.metrics, self.state.metrics_bytes) as self.journal:
            try:
                if self.state.step == 0 and self.config.model.init == "prototypes":
                    self._prototypes()
                while self.state.epoch < self.config.train.epochs and not self.state.stopped_early:
                    self._epoch()
                    self._end_epoch()
                if self.validation is None:
                    self._save_model({"choice": "last", "epoch": self.state.epoch})
                self._checkpoint()
                result = self._test(test) if test is not None else None
            except _Stopped:
                raise self._interrupted() from None
            self.state.seconds = time.monotonic() - self.started
            self.journal.add(self.end_record())
            return result

    def _prototypes(self) -> None:
        for start in range(0, len(self.part.rows), self.batch_size):
            self.signals.check()
            self.model.add_prototypes(self.part.x, self.part.y, self.part.rows[start : start + self.batch_size])
        self.model.finish_prototypes(self.config.model.output_scale)

    def _epoch(self) -> None:
        state, part, batch_size = self.state, self.part, self.batch_size
        n_rows = len(part.rows)
        total = n_rows * self.config.train.epochs
        order = part.rows[native.shuffle(self.config.train.seed, state.epoch, n_rows)]
        while state.position < n_rows:
            self.signals.check()
            rows = order[state.position : state.position + batch_size]
            seen = state.epoch * n_rows + state.position
            rate = learning_rate(self.config.optimizer, seen, len(rows), total)
            before = time.monotonic()
            step = self._step(rows, rate)
            state.position += len(rows)
            state.step += 1
            now = time.monotonic()
            self.busy += now - before
            self._count(step)
            if now >= self.next_look:
                self._look(now, rate)

    def _step(self, rows: Rows, rate: float) -> Step:
        where = f"step {self.state.step + 1} in epoch {self.state.epoch + 1}"
        try:
            step = self.model.train_step(self.part.x, self.part.y, rows, rate)
        except WorkError:
            raise self._diverged(where, "not finite", rate) from None
        if not math.isfinite(step.loss):
            raise self._diverged(where, str(step.loss), rate)
        return step

    def _diverged(self, where: str, loss: str, rate: float) -> WorkError:
        kept = f"; the last checkpoint is kept in {self.run}" if self.run.checkpoint.exists() else ""
        return WorkError(
            f"training diverged: the loss is {loss} at {where} with learning rate {rate:g}. "
            f"Most likely optimizer.learning_rate={self.config.optimizer.learning_rate:g} is too high{kept}"
        )

    def _count(self, step: Step) -> None:
        sums = self.state.sums
        for name, value in (
            ("rows", step.n_rows),
            ("loss", step.loss * step.n_rows),
            ("active", step.n_active),
            ("labels", step.n_labels),
            ("found", step.n_labels_found),
            ("candidates", step.n_candidates),
        ):
            sums[name] = sums.get(name, 0.0) + value
        self.busy_rows += step.n_rows
        self.window_loss += step.loss * step.n_rows
        self.window_rows += step.n_rows

    # ---- the end ----

    def end_record(self) -> dict[str, Any]:
        """The last line of metrics.jsonl; a run that has it is finished."""
        state = self.state
        return {
            "type": "end",
            "epochs": state.epoch,
            "stopped_early": state.stopped_early,
            "choice": "best" if self.validation is not None else "last",
            "best_epoch": state.best_epoch if self.validation is not None else state.epoch,
            self.config.train.monitor: state.best,
            "seconds": round(state.seconds, 3),
            "peak_memory_bytes": machine.peak_bytes(),
        }

    def _test(self, test: Part) -> Result:
        """Metrics of the written model on test rows."""
        model, wanted = self.model, [Metric.parse(name) for name in TEST]
        if self.validation is not None and self.state.best_epoch != self.state.epoch:
            model, _, _ = checkpoint.load_model(self.run.model, self.model.engine)
        result = evaluate(
            model, test.x, test.y, test.rows, wanted, self.propensity, test.name, between=self.signals.check
        )
        self.journal.add({**result.record(), "epoch": self.state.epoch, "step": self.state.step})
        return result

    # ---- what depends on the clock ----

    def _look(self, now: float, rate: float) -> None:
        self.next_look = now + LOOK_SECONDS
        self.state.seconds = now - self.started
        progress = Progress(
            epoch=self.state.epoch + 1,
            epochs=self.config.train.epochs,
            rows=self.state.position,
            n_rows=len(self.part.rows),
            step=self.state.step,
            loss=self.window_loss / max(1.0, self.window_rows),
            learning_rate=rate,
            rows_per_second=self.busy_rows / max(1e-9, self.busy),
            active=self.state.sums["active"] / self.state.sums["rows"],
            seconds=self.state.seconds,
        )
        self.reporter.step(progress)
        if self.pace.due(now):
            self.journal.add(progress.record())
            self.window_loss = self.window_rows = 0.0
        if now >= self.next_quick and self.quick_rows is not None and self.state.position < len(self.part.rows):
            self._show(self._measure(self.quick_rows), due=True, quick=True)
            self.next_quick = time.monotonic() + 60 * self.config.train.evaluate_minutes
        if now >= self.next_checkpoint:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self.state.metrics_bytes = self.journal.sync()
        state = dataclasses.asdict(self.state)
        checkpoint.save_checkpoint(self.run.checkpoint, self.model, self.card, self.propensity.counts, state)
        self.next_checkpoint = time.monotonic() + 60 * self.config.train.checkpoint_minutes

    def _interrupted(self) -> XclError:
        signum = self.signals.signum
        name = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
        if self.state.step:
            self.state.seconds = time.monotonic() - self.started
            self._checkpoint()
            where = f"step {self.state.step:,} of epoch {self.state.epoch + 1}, checkpoint written"
        else:
            where = "before the first step"
        return Interrupted(f"stopped by {name} after {where}; go on with: xcl train {self.run} --resume", signum)

    # ---- the end of an epoch ----

    def _end_epoch(self) -> None:
        state, epochs = self.state, self.config.train.epochs
        result = self._measure(self.validation.rows) if self.validation is not None else None
        now = time.monotonic()
        state.seconds = now - self.started
        due = self.pace.epoch_due(now, epochs) or state.epoch + 1 == epochs
        if due or result is not None:
            record, lines = self._epoch_record()
            self.journal.add(record)
            self.reporter.show(record, lines if due else ())
        if result is not None:
            self._show(result, due, quick=False)
            self._choose(result.values[self.config.train.monitor])
        state.epoch += 1
        state.position = 0
        state.sums = {}
        if time.monotonic() >= self.next_checkpoint:
            self._checkpoint()

    def _epoch_record(self) -> tuple[dict[str, Any], list[str]]:
        state, sums = self.state, self.state.sums
        rows = max(1.0, sums.get("rows", 0.0))
        record: dict[str, Any] = {
            "type": "epoch",
            "epoch": state.epoch + 1,
            "step": state.step,
            "loss": sums.get("loss", 0.0) / rows,
            "active": sums.get("active", 0.0) / rows,
            "rows_per_second": round(self.busy_rows / max(1e-9, self.busy), 1),
            "seconds": round(state.seconds, 3),
        }
        lines = [
            f"epoch {state.epoch + 1}/{self.config.train.epochs} done  loss {record['loss']:.4g}  "
            f"{record['rows_per_second']:,.0f} rows/s  {record['active']:,.0f} labels scored a row"
        ]
        if self.model.options.uses_tables:
            stats = self.model.index_stats(reset=True)
            record["ids_per_bucket"] = stats.ids_per_used_bucket
            record["largest_bucket"] = stats.largest_bucket
            record["empty_probes"] = stats.empty_probes
            record["candidates"] = sums.get("candidates", 0.0) / rows
            record["label_recall"] = sums.get("found", 0.0) / max(1.0, sums.get("labels", 0.0))
            lines.append(
                f"  tables: {stats.ids_per_used_bucket:.1f} ids a used bucket, {stats.empty_probes:.0%} empty probes, "
                f"{record['candidates']:,.0f} candidates a row, {record['label_recall']:.0%} of true labels among them"
            )
        return record, lines

    def _measure(self, rows: Rows) -> Result:
        assert self.validation is not None
        part = self.validation
        return evaluate(
            self.model, part.x, part.y, rows, self.wanted, self.propensity, "validation", between=self.signals.check
        )

    def _show(self, result: Result, due: bool, quick: bool) -> None:
        """Log metrics of validation rows, and show them if due."""
        record = {**result.record(), "epoch": self.state.epoch + 1, "step": self.state.step, "quick": quick}
        self.journal.add(record)
        values = "  ".join(f"{name.upper()} {100 * value:.2f}" for name, value in result.values.items())
        self.reporter.show(record, [f"  validation {values}{' (some rows)' if quick else ''}"] if due else ())

    def _choose(self, score: float) -> None:
        """Keep the model if it is the best so far; count epochs without a better one."""
        state, monitor = self.state, self.config.train.monitor
        if state.best is None or score > state.best:
            state.best, state.best_epoch, state.stale_epochs = score, state.epoch + 1, 0
            self._save_model({"choice": "best", "epoch": state.best_epoch, monitor: score})
        else:
            state.stale_epochs += 1
            state.stopped_early = 0 < self.config.train.patience <= state.stale_epochs

    def _save_model(self, trained: dict[str, Any]) -> None:
        card = dataclasses.replace(self.card, trained=trained)
        checkpoint.save_model(self.run.model, self.model, card, self.propensity.counts)
