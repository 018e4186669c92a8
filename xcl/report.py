# SPDX-License-Identifier: MIT
"""What a training run shows: a live display, plain lines, JSON lines or nothing. The only file that imports rich.

Results go to stdout, all else to stderr. A record is a dict with a `type`: config, plan, step, epoch, eval, notice,
end; its fields are the same in metrics.jsonl and in --json.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from xcl.machine import gib, resident_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

Record = dict[str, Any]
MINUTE = 60.0


@dataclass(frozen=True)
class Progress:
    """Where training is. loss: mean over the rows since the last one shown. rows: done in this epoch, of n_rows."""

    epoch: int
    epochs: int
    rows: int
    n_rows: int
    step: int
    loss: float
    learning_rate: float
    rows_per_second: float
    active: float
    seconds: float

    @property
    def seconds_left(self) -> float:
        rows = (self.epochs - self.epoch) * self.n_rows + self.n_rows - self.rows
        return rows / self.rows_per_second if self.rows_per_second > 0 else 0.0

    def record(self) -> Record:
        return {
            "type": "step",
            "epoch": self.epoch,
            "step": self.step,
            "rows": self.rows,
            "loss": self.loss,
            "learning_rate": self.learning_rate,
            "rows_per_second": round(self.rows_per_second, 1),
            "active": round(self.active, 1),
            "seconds": round(self.seconds, 3),
        }

    def line(self) -> str:
        share = 100 * self.rows // max(1, self.n_rows)
        return (
            f"epoch {self.epoch}/{self.epochs} {share:3d} %  loss {self.loss:.4g}  {self.rows_per_second:,.0f} rows/s  "
            f"left {duration(self.seconds_left)}  memory {gib(resident_bytes())}"
        )


class Pace:
    """When a line is due: after 1, 2, 4, 8, ... seconds, then once a minute."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.last = self.start
        self._next = self.start + 1

    def due(self, now: float) -> bool:
        if now < self._next:
            return False
        self._next = now + min(MINUTE, max(1.0, now - self.start))
        self.last = now
        return True

    def epoch_due(self, now: float, epochs: int) -> bool:
        """Whether an epoch's line is due: every one of a few, else ever rarer as the run goes on."""
        if epochs > 50 and now - self.last < min(MINUTE, max(1.0, (now - self.start) / 10)):
            return False
        self.last = now
        return True


class Reporter:
    """Shows nothing. The others override what they show; every method may be called at any time."""

    def notice(self, text: str) -> None:
        """Something the user should know."""

    def show(self, record: Record, lines: Iterable[str]) -> None:
        """A record, and the same in lines for people."""

    def step(self, progress: Progress) -> None:
        """Called several times a second."""

    def close(self) -> None:
        """The end of the display; also after an error."""


class Several(Reporter):
    """Passes everything on to several reporters."""

    def __init__(self, *reporters: Reporter) -> None:
        self.reporters = reporters

    def notice(self, text: str) -> None:
        for reporter in self.reporters:
            reporter.notice(text)

    def show(self, record: Record, lines: Iterable[str]) -> None:
        lines = list(lines)
        for reporter in self.reporters:
            reporter.show(record, lines)

    def step(self, progress: Progress) -> None:
        for reporter in self.reporters:
            reporter.step(progress)

    def close(self) -> None:
        for reporter in self.reporters:
            reporter.close()


class Plain(Reporter):
    """Complete lines, few of them. A stream whose reader went away is written to no more; training goes on."""

    def __init__(self, stream: TextIO) -> None:
        self.stream: TextIO | None = stream
        self.pace = Pace()

    def notice(self, text: str) -> None:
        self._print(f"note: {text}")

    def show(self, record: Record, lines: Iterable[str]) -> None:
        for line in lines:
            self._print(line)

    def step(self, progress: Progress) -> None:
        if self.pace.due(time.monotonic()):
            self._print(progress.line())

    def _print(self, line: str) -> None:
        if self.stream is None:
            return
        try:
            print(line, file=self.stream, flush=True)
        except BrokenPipeError:
            self.stream = None


class Log(Plain):
    """Plain lines in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(open(path, "a", encoding="utf-8"))  # noqa: SIM115 (closed by close)

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None


class JsonLines(Reporter):
    """One JSON object a line on stdout."""

    def __init__(self) -> None:
        self.pace = Pace()

    def notice(self, text: str) -> None:
        self.show({"type": "notice", "text": text}, ())

    def show(self, record: Record, lines: Iterable[str]) -> None:
        print(json.dumps(record, allow_nan=False), flush=True)

    def step(self, progress: Progress) -> None:
        if self.pace.due(time.monotonic()):
            self.show(progress.record(), ())


class Live(Reporter):
    """A display that stays in place at the foot of the terminal; lines scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = Console(stderr=True, highlight=False)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._validation = ""

    def notice(self, text: str) -> None:
        self._console.print(f"note: {text}", markup=False, style="yellow")

    def show(self, record: Record, lines: Iterable[str]) -> None:
        for line in lines:
            self._console.print(line, markup=False)
        if record["type"] == "eval":
            self._validation = "  ".join(
                f"{name.upper()} {100 * value:.2f}" for name, value in metrics_of(record).items()
            )

    def step(self, progress: Progress) -> None:
        self._live.update(self._render(progress), refresh=True)

    def _render(self, p: Progress) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        done = (p.epoch - 1) * p.n_rows + p.rows
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(f"epoch {p.epoch}/{p.epochs}", style="bold"),
            ProgressBar(total=max(1, p.epochs * p.n_rows), completed=done, width=24),
            Text(f"{100 * done / max(1, p.epochs * p.n_rows):.0f} %"),
            Text(f"left {duration(p.seconds_left)}"),
        )
        facts = f"loss {p.loss:.4g}  {p.rows_per_second:,.0f} rows/s  memory {gib(resident_bytes())}"
        out = Table.grid()
        out.add_row(bar)
        out.add_row(Text(facts))
        if self._validation:
            out.add_row(Text(f"validation {self._validation}"))
        return out

    def close(self) -> None:
        self._live.stop()


def for_terminal(quiet: bool, as_json: bool) -> Reporter:
    """The display for this stderr and these options."""
    if as_json:
        return JsonLines()
    if quiet:
        return Reporter()
    dumb = os.environ.get("TERM") == "dumb" or any(os.environ.get(name) for name in ("CI", "NO_LIVE"))
    return Live() if sys.stderr.isatty() and not dumb else Plain(sys.stderr)


def metrics_of(record: Record) -> dict[str, float]:
    """The metrics in a record, by their names such as p@1."""
    return {name: value for name, value in record.items() if "@" in name}


def duration(seconds: float) -> str:
    """90 as 1:30, 4000 as 1:06:40."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
