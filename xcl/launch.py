# SPDX-License-Identifier: MIT
"""From a config to a finished run: data, plan, run directory, resume, the loop, the last words."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xcl
from xcl import auto, checkpoint, inputs, machine, plan, report, rundir
from xcl.checkpoint import Card
from xcl.config import Config, Loaded, load, resolved_yaml
from xcl.config.schema import flatten
from xcl.dataset.load import IdSpace
from xcl.dataset.vectorize import labels_file, words_file
from xcl.errors import ResourceError, UserError, XclError
from xcl.evaluate import Propensity
from xcl.facts import machine_facts
from xcl.files import atomic, free_bytes, write_text
from xcl.inputs import Inputs
from xcl.journal import last_record
from xcl.model import Model
from xcl.native import Engine
from xcl.offsets import score_offsets
from xcl.plan import MemoryPlan
from xcl.report import Log, Reporter, Several, duration
from xcl.rundir import Run
from xcl.train import Signals, State, Trainer

RESUME_MAY_CHANGE = {
    "data.cache",
    "data.test",
    "train.epochs",
    "train.checkpoint_minutes",
    "train.evaluate_minutes",
}


@dataclass(frozen=True)
class Request:
    """What the command line asks for. config: a file, or a run directory to repeat or resume."""

    config: Path
    overrides: Sequence[str] = ()
    name: str | None = None
    threads: int | None = None
    quiet: bool = False
    as_json: bool = False
    resume: bool = False
    dry_run: bool = False


def launch(request: Request) -> None:
    """Train as asked. Raises: XclError of every kind; Interrupted after a signal."""
    repeats = request.config.is_dir()
    if repeats and not Run(request.config).config.exists():
        raise UserError(f"{request.config}: a folder without config.yaml: not a run directory")
    loaded = load(Run(request.config).config if repeats else request.config, request.overrides)
    run = _run_to_resume(request, loaded) if request.resume else None
    display = report.for_terminal(request.quiet, request.as_json)
    try:
        if run is not None and _is_finished(run, loaded):
            display.show({"type": "end", "run": str(run)}, [f"{run} is finished: nothing to resume"])
            return
        _train(request, loaded, run, display)
    finally:
        display.close()


def _train(request: Request, loaded: Loaded, run: Run | None, display: Reporter) -> None:
    threads = machine.threads(request.threads)
    engine = Engine(threads.count)
    data = inputs.load_all(loaded.config, engine, loaded.config.data.cache or inputs.CACHE)
    resolved = auto.resolve(loaded.config, data.sizes.n_rows, data.sizes.n_labels)
    chosen = auto.line(loaded.config, resolved)
    memory = plan.make_plan(resolved, data.sizes, threads.count)
    if request.dry_run:
        _dry_run(request, loaded, memory, chosen)
        return
    memory.check()
    _check_disk(run.path if run else rundir.RUNS, memory)
    if run is None:
        run = rundir.create(rundir.check_stem(request.name) if request.name else rundir.stem_of(request.config))
    with rundir.lock(run, display.notice):
        log = Log(run.log)
        reporter = Several(display, log)
        try:
            _announce(reporter, request, run, data, memory, f"{threads.count} ({threads.reason})", engine, loaded)
            if chosen:
                reporter.notice(chosen)
            _write_descriptions(run, loaded, data, request)
            _work(request, resolved, run, data, memory, engine, reporter)
        except XclError as e:
            log.notice(str(e))
            raise
        finally:
            log.close()


def _work(
    request: Request, config: Config, run: Run, data: Inputs, memory: MemoryPlan, engine: Engine, reporter: Several
) -> None:
    _copy_names(run, config.data.train, data.ids, reporter)
    card = Card(memory.options, data.ids.feature_base, data.ids.label_base, len(data.train.rows))
    n_rows = len(data.train.rows)
    counts = data.label_counts()
    propensity = Propensity(counts, n_rows)
    batch_size = min(config.train.batch_size, n_rows)
    with Signals(reporter.notice) as signals, Model(engine, memory.options) as model:
        model.set_offsets(score_offsets(memory.options, config.sampler.correction, counts, n_rows, batch_size))
        trainer = Trainer(config, card, data.train, data.validation, propensity, model, run, reporter, signals)
        if run.checkpoint.exists():
            trainer.state = _stored_state(run)
            checkpoint.restore(run.checkpoint, model)
            reporter.notice(f"{run}: going on after step {trainer.state.step:,}")
        result = trainer.fit(data.test)
        if result is not None:
            for text in result.notices():
                reporter.notice(text)
            display, log = reporter.reporters
            log.show(result.record(), result.lines())
            display.show(result.record(), ())
            if not request.as_json:
                print("\n".join(result.lines()))
        end = trainer.end_record()
        reporter.show({**end, "run": str(run)}, [_last_words(run, config.train.monitor, end)])


def _stored_state(run: Run) -> State:
    found = checkpoint.read_state(run.checkpoint)
    try:
        return State(**found)
    except (TypeError, ValueError) as e:
        raise UserError(f"{run.checkpoint}: its state is not one that this xcl can go on from ({e})") from None


def _last_words(run: Run, monitor: str, end: dict[str, Any]) -> str:
    choice = (
        f"that of epoch {end['best_epoch']}, best by validation {monitor}" if end["choice"] == "best" else "the last"
    )
    early = " (stopped early)" if end["stopped_early"] else ""
    return (
        f"{run}: {end['epochs']} epochs{early} in {duration(end['seconds'])}; model.safetensors is {choice}; "
        f"peak memory {machine.gib(end['peak_memory_bytes'])}"
    )


def _announce(
    reporter: Reporter,
    request: Request,
    run: Run,
    data: Inputs,
    memory: MemoryPlan,
    threads: str,
    engine: Engine,
    loaded: Loaded,
) -> None:
    values = {path: list(v) if isinstance(v, tuple) else v for path, v in flatten(loaded.config).items()}
    values = {path: str(v) if isinstance(v, Path) else v for path, v in values.items()}
    reporter.show({"type": "config", "run": str(run), "config": values}, [f"run: {run}"])
    lines = [*memory.lines(), f"threads: {threads}, kernels: {engine.isa}"]
    reporter.show({"type": "plan", **memory.as_dict(), "threads": engine.threads, "isa": engine.isa}, lines)
    for dataset in data.datasets:
        for text in dataset.notices:
            reporter.notice(text)
    for text in plan.caps(loaded.config, data.sizes):
        reporter.notice(text)


def _dry_run(request: Request, loaded: Loaded, memory: MemoryPlan, chosen: str | None) -> None:
    """The resolved config on stdout and the plan on stderr; both in one object with --json."""
    text = resolved_yaml(loaded)
    if request.as_json:
        print(json.dumps({"config": text, "plan": memory.as_dict()}))
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
        print("\n".join([*memory.lines(), *([chosen] if chosen else [])]), file=sys.stderr)
    memory.check()


def _check_disk(folder: Path, memory: MemoryPlan) -> None:
    """Raises: ResourceError if the model, the checkpoint and its successor do not fit on the disk."""
    p = memory.parts
    needed = int(2 * p.weights + 2 * (p.weights + p.optimizer + p.tables))
    free = free_bytes(folder if folder.exists() else Path())
    if needed > free:
        need = f"model and checkpoints take up to {machine.gib(needed)}"
        raise ResourceError(f"not enough disk space in {folder}: {need}, {machine.gib(free)} are free")


def _write_descriptions(run: Run, loaded: Loaded, data: Inputs, request: Request) -> None:
    write_text(run.config, resolved_yaml(loaded))
    environment = {
        **machine_facts(request.threads),
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "version": xcl.__version__,
        "data": {d.name: d.checksum for d in data.datasets},
    }
    if run.environment.exists():
        _same_data(run, environment["data"])
    write_text(run.environment, json.dumps(environment, indent=2) + "\n")


def _copy_names(run: Run, train: Path, ids: IdSpace, reporter: Reporter) -> None:
    """Take what `xcl data vectorize` wrote beside the training file into the run, if it fits the data."""
    for source, target, n, what in (
        (words_file(train), run.words, ids.n_features, "words"),
        (labels_file(train), run.label_names, ids.n_labels, "label names"),
    ):
        if not source.is_file():
            continue
        raw = source.read_bytes()
        n_found = raw.count(b"\n") - (source == words_file(train))  # a word list has a line in front
        if n_found != n:
            reporter.notice(f"{source}: {n_found:,} {what} where the data have {n:,}: not used")
            continue
        with atomic(target) as file:
            file.write(raw)


def _same_data(run: Run, found: Any) -> None:
    """Raises: UserError if a file has changed since the run began."""
    try:
        before = json.loads(run.environment.read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError):
        return
    for path, checksum in found.items():
        if before.get(path, checksum) != checksum:
            raise UserError(f"{path}: changed since {run} began: it cannot be resumed; train anew without --resume")


def _run_to_resume(request: Request, loaded: Loaded) -> Run:
    """The newest unfinished run of a name or config, else the newest finished one, with the same settings.

    Raises: UserError if there is none, or if a setting differs that cannot.
    """
    if request.config.is_dir():
        runs = [Run(request.config)]
    else:
        stem = rundir.check_stem(request.name) if request.name else rundir.stem_of(request.config)
        runs = [run for run in rundir.of_name(stem) if run.config.exists()]
        if not runs:
            raise UserError(f"no run {stem}-<n> under {rundir.RUNS}/ to resume: start one without --resume")
    run = next((run for run in runs if last_record(run.metrics).get("type") != "end"), runs[0])
    before, now = flatten(load(run.config).config), flatten(loaded.config)
    differs = [key for key in now if now[key] != before[key] and key not in RESUME_MAY_CHANGE]
    if differs:
        lines = [f"{run}: {key} was {before[key]} and is now {now[key]}: a resumed run must keep it" for key in differs]
        raise UserError("\n".join(lines))
    return run


def _is_finished(run: Run, loaded: Loaded) -> bool:
    """Whether there is nothing left to do; more epochs than before are something."""
    end = last_record(run.metrics)
    return end.get("type") == "end" and (end.get("stopped_early") or end.get("epochs", 0) >= loaded.config.train.epochs)
