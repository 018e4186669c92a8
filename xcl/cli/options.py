# SPDX-License-Identifier: MIT
"""Arguments that several commands share, and what the shell completes for them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xcl.errors import UserError

if TYPE_CHECKING:
    from xcl.checkpoint import Card, Counts
    from xcl.model import Model
    from xcl.native import Engine
    from xcl.rundir import Run


def complete_run(incomplete: str) -> list[str]:
    """Run directories under runs/."""
    return sorted(str(p) for p in Path("runs").glob("*") if p.is_dir() and str(p).startswith(incomplete))


def complete_key(incomplete: str) -> list[str]:
    """Config keys, as KEY=."""
    from xcl.config.schema import KEYS

    return [f"{path}=" for path in KEYS if path.startswith(incomplete)]


Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, max=1024, help="Threads; default: what affinity, cgroup and OMP_NUM_THREADS allow."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts on stdout.")]


def cutoffs(option: str, text: str | None) -> tuple[int, ...]:
    """ "1,3,5" as numbers. Raises: UserError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 1000 for part in parts):
        raise UserError(f"{option} {text}: expected whole numbers from 1 to 1000 joined by commas, such as 1,3,5")
    return tuple(sorted({int(part) for part in parts}))


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr)


def open_run(text: str | None, engine: Engine, lsh: bool) -> tuple[Run, Model, Card, Counts]:
    """The model of a run (None: the latest, which one is said); of its checkpoint if the run has not finished."""
    from xcl import rundir
    from xcl.checkpoint import load_model

    run = rundir.find(text)
    if text is None:
        say(f"run: {run} (the latest)")
    path = run.model
    if not path.exists() and run.checkpoint.exists():
        say(f"note: {run} has not finished: using the weights of its last checkpoint")
        path = run.checkpoint
    return run, *load_model(path, engine, lsh)


@contextmanager
def cache_folder() -> Iterator[Path]:
    """The folder of binary copies here; a temporary one where that cannot be written."""
    from xcl.inputs import CACHE

    if os.access(CACHE if CACHE.exists() else ".", os.W_OK):
        yield CACHE
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
