# SPDX-License-Identifier: MIT
"""xcl init: a commented starter config, or the JSON schema of configs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from xcl.errors import UserError


def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The config to write; - is stdout.")] = "xcl.yaml",
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Training rows to put into it.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema for editors instead.")] = False,
) -> None:
    """Write a config with every key, its default and one line of help.

    An existing file is never overwritten. A file of test rows beside train.txt is found by its name.

    \b
    Examples:
      xcl init --data train.txt xcl.yaml
      xcl init --schema > xcl.schema.json
    """
    from xcl.config import json_schema, starter_yaml

    if schema:
        sys.stdout.write(json_schema())
        return
    values, note = _from_data(data, file) if data else ({}, "")
    text = f"# A config of xcl. Train with: xcl train {file if file != '-' else 'FILE'}\n{note}\n{starter_yaml(values)}"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        with open(file, "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise UserError(f"{file}: exists already; name another file, or remove it first") from None
    print(f"wrote {file}; next: xcl train {file}", file=sys.stderr)


def _from_data(data: Path, file: str) -> tuple[dict[str, Any], str]:
    """Keys that follow from a data file, and a comment with its sizes."""
    import numpy as np

    from xcl import machine
    from xcl.dataset.load import load
    from xcl.inputs import CACHE
    from xcl.native import Engine

    found = load(data, Engine(machine.threads().count), CACHE)
    base = Path(file).absolute().parent if file != "-" else Path.cwd()
    values: dict[str, Any] = {"data.train": _relative(data, base)}
    test = data.with_name(data.name.replace("train", "test"))
    if test != data and test.is_file():
        values["data.test"] = _relative(test, base)
    if max(np.diff(found.y.indptr)) <= 1:
        values["loss"] = "softmax"
    sizes = f"{found.x.n_rows:,} rows, {found.x.n_cols:,} features, {found.y.n_cols:,} labels"
    return values, f"# {data.name}: {sizes}, {found.y.nnz / found.x.n_rows:.1f} labels a row\n"


def _relative(path: Path, base: Path) -> str:
    absolute = path.absolute()
    return str(absolute.relative_to(base)) if absolute.is_relative_to(base) else str(absolute)
