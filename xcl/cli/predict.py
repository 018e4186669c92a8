# SPDX-License-Identifier: MIT
"""xcl predict: the best labels of rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from xcl.cli.options import Threads, complete_run, open_run, say
from xcl.errors import UserError


def predict(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] FILE", help="A run (default: the latest); rows, - is stdin.", autocompletion=complete_run
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, max=100_000, help="Labels a row.")] = 5,
    lsh: Annotated[
        bool, typer.Option("--lsh/--exact", help="Score the tables' candidates only, or all labels.")
    ] = False,
    format: Annotated[
        Literal["libsvm", "json", "tsv"],
        typer.Option("--format", metavar="libsvm|json|tsv", help="One line a row in each."),
    ] = "libsvm",
    on_error: Annotated[
        Literal["stop", "blank"],
        typer.Option("--on-error", metavar="stop|blank", help="A malformed row stops, or is a row of nothing."),
    ] = "stop",
    threads: Threads = None,
) -> None:
    """Print the k best labels of every row and their scores, best first: one line out for each row in.

    Rows look as in training; labels in front are ignored. Scores: loss bce prints probabilities, the sigmoid of the
    logit; loss softmax prints logits. Equal logits are ordered by label id. Rows from a pipe are answered at once.

    \b
    Formats: libsvm  3:0.91 17:0.4    tsv  3<TAB>0.91<TAB>17<TAB>0.4    json  {"labels": [3, 17], "scores": [0.91, 0.4]}
    Examples:
      xcl predict test.txt -k 3
      cat rows.txt | xcl predict runs/quickstart-1 - --format tsv
    """
    from xcl import machine
    from xcl.dataset.stream import RowStream
    from xcl.native import Engine
    from xcl.predict import Style
    from xcl.predict import predict as write

    if len(arguments) > 2:
        raise UserError(f"{len(arguments)} arguments: expected [RUN] FILE")
    run = arguments[0] if len(arguments) == 2 else None
    file = arguments[-1]
    if file != "-" and not Path(file).is_file():
        raise UserError(f"{file}: no such file of rows")
    engine = Engine(machine.threads(threads).count)
    _, model, card, _ = open_run(run, engine, lsh)
    if k > card.options.n_labels:
        say(f"note: -k {k} is above the {card.options.n_labels:,} labels of the model: all of them are given")
    style = Style(format, card.label_base, sigmoid=card.options.loss == "bce")
    rows = RowStream(file, engine, card.ids, on_error)
    unknown = write(model, (x for x, _ in rows), k, lsh, style, sys.stdout, flush=rows.live)
    for text in rows.notices:
        say(f"note: {text}")
    if unknown:
        say(f"note: {unknown:,} unknown features were ignored")
