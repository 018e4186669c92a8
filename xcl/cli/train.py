# SPDX-License-Identifier: MIT
"""xcl train: train as a config says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xcl.cli.options import Json, Quiet, Threads, complete_key


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A config, or a run directory to repeat.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Config keys to set.", autocompletion=complete_key),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name the run runs/NAME-<n>.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest unfinished run of CONFIG or NAME.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved config and the plan, and stop.")
    ] = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model as CONFIG says; the result is a run directory runs/<name>-<n>.

    The config's keys: xcl init -. Ctrl-C saves a checkpoint first. With --resume only epochs, the test file, the
    cache and intervals may differ from before.

    \b
    Examples:
      xcl train quickstart.yaml train.epochs=3 model.hidden=[256]
      xcl train quickstart.yaml --resume
      xcl train runs/quickstart-1 --resume
    """
    from xcl.launch import Request, launch

    launch(Request(config, tuple(overrides or ()), name, threads, quiet, as_json, resume, dry_run))
