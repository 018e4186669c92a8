# SPDX-License-Identifier: MIT
"""xcl predict: the best labels of rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from xcl.cli.options import Threads, complete_run, open_run, say
from xcl.errors import UserError

if TYPE_CHECKING:
    from xcl.checkpoint import Card
    from xcl.dataset.vectorizer import Vectorizer
    from xcl.rundir import Run


def predict(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] FILE", help="A run (default: the latest); rows, - is stdin.", autocompletion=complete_run
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, max=100_000, help="Labels a row.")] = 5,
    text: Annotated[bool, typer.Option("--text", help="Rows are texts, one a line; answers are label names.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Print label names (labels.txt of the run), not ids.")] = False,
    lsh: Annotated[
        bool, typer.Option("--lsh/--exact", help="Score the tables' candidates only, or all labels.")
    ] = False,
    format: Annotated[
        Literal["libsvm", "json", "tsv"] | None,
        typer.Option("--format", metavar="libsvm|json|tsv", help="Default: libsvm, with names tsv."),
    ] = None,
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
    Formats: libsvm  3:0.91 17:0.4
             tsv     3<TAB>0.91<TAB>17<TAB>0.4
             json    {"labels": [3, 17], "scores": [0.91, 0.4]}
    Examples:
      xcl predict test.txt -k 3
      cat rows.txt | xcl predict runs/quickstart-1 - --format tsv
      echo "a cat sat" | xcl predict --text -
    """
    from xcl import machine
    from xcl.dataset.stream import RowStream
    from xcl.native import Engine
    from xcl.predict import Style, TextStream
    from xcl.predict import predict as write

    if len(arguments) > 2:
        raise UserError(f"{len(arguments)} arguments: expected [RUN] FILE")
    run = arguments[0] if len(arguments) == 2 else None
    file = arguments[-1]
    engine = Engine(machine.threads(threads).count)
    opened, model, card, _ = open_run(run, engine, lsh)
    found = _names(opened, card) if names or (text and opened.label_names.exists()) else None
    style = Style(_format(format, found), card.label_base, card.options.loss == "bce", found)
    if k > card.options.n_labels:
        say(f"note: -k {k} is above the {card.options.n_labels:,} labels of the model: all of them are given")
    if text:
        texts = TextStream(file, _vectorizer(opened))
        write(model, texts, k, lsh, style, sys.stdout, flush=texts.live)
        return
    rows = RowStream(file, engine, card.ids, on_error)
    unknown = write(model, (x for x, _ in rows), k, lsh, style, sys.stdout, flush=rows.live)
    for note in rows.notices:
        say(f"note: {note}")
    if unknown:
        say(f"note: {unknown:,} unknown features were ignored")


def _format(wanted: str | None, names: list[str] | None) -> str:
    if wanted == "libsvm" and names is not None:
        raise UserError("--format libsvm: names may hold blanks and colons: take tsv or json")
    return wanted or ("libsvm" if names is None else "tsv")


def _names(run: Run, card: Card) -> list[str]:
    """Label names by id. Raises: UserError if there are none or too few."""
    from xcl.dataset import lines

    if not run.label_names.exists():
        raise UserError(f"{run}: no label names; put a file with one name a line there as {run.label_names.name}")
    names = lines.read(run.label_names)
    if len(names) != card.options.n_labels:
        raise UserError(f"{run.label_names}: {len(names):,} names for {card.options.n_labels:,} labels")
    return names


def _vectorizer(run: Run) -> Vectorizer:
    from xcl.dataset.vectorizer import Vectorizer

    if not run.words.exists():
        raise UserError(f"{run}: not trained on texts: no {run.words.name} there (see xcl data vectorize --help)")
    return Vectorizer.load(run.words)
