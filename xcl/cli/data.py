# SPDX-License-Identifier: MIT
"""xcl data: look at, check, turn, split, make."""

from __future__ import annotations

import typer

app = typer.Typer(help="Look at, check, turn, split and make data sets.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def data() -> None:
    """Look at, check, turn, split and make data sets."""
