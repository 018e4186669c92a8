# SPDX-License-Identifier: MIT
"""xcl data: look at, check, turn, split, make data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xcl.cli.options import Json, Threads, say
from xcl.errors import UserError

if TYPE_CHECKING:
    from xcl.dataset.load import Dataset
    from xcl.dataset.scan import Spread, Summary
    from xcl.dataset.text import OnError
    from xcl.native import Engine

app = typer.Typer(help="Look at, check, turn, split and make data sets.", no_args_is_help=True, rich_markup_mode=None)

InFile = Annotated[str, typer.Argument(metavar="FILE", help="libsvm text, plain or packed, or .npz; - is stdin.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that are there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Every random choice follows from it.")]
Malformed = Annotated[
    str,
    typer.Option("--on-error", metavar="stop|skip", help="What to do with a malformed row; skipped ones are counted."),
]


@app.command("info")
def info(file: InFile, on_error: Malformed = "stop", as_json: Json = False, threads: Threads = None) -> None:
    """Print sizes and statistics of a file.

    \b
    Example:
      xcl data info train.txt.gz
    """
    from xcl.dataset.scan import scan

    _print_summary(scan(file, _engine(threads), _on_error(on_error)), as_json, _info_lines)


@app.command("check")
def check(file: InFile, on_error: Malformed = "stop", as_json: Json = False, threads: Threads = None) -> None:
    """Verify a file, and say where it is wrong.

    The first malformed row ends it with file:line:column: what, and exit code 2. What is tolerated is counted:
    unsorted and duplicate features, duplicate labels, qid fields.

    \b
    Example:
      xcl data check train.txt
    """
    from xcl.dataset.scan import scan

    _print_summary(scan(file, _engine(threads), _on_error(on_error)), as_json, _check_lines)


@app.command("convert")
def convert(
    source: InFile,
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="NAME.npz or text: NAME, NAME.gz, .bz2, .zst; - is stdout.")
    ],
    on_error: Malformed = "stop",
    force: Force = False,
    threads: Threads = None,
) -> None:
    """Write a file in another form: text or .npz.

    Nothing is lost: ids, values and sizes stay, and text gets a header. FILE may be a pair X.npz,Y.npz of scipy
    sparse matrices.

    \b
    Examples:
      xcl data convert train.txt.gz train.npz
      xcl data convert X.npz,Y.npz train.txt
    """
    from xcl.dataset.write import refuse_existing, write

    refuse_existing(out, force)
    with _loaded(source, out, on_error, threads) as data:
        write(out, data.x, data.y, (data.ids.feature_base, data.ids.label_base))
        _say_written(out, data.x.n_rows)


@app.command("split")
def split(
    source: InFile,
    first: Annotated[str, typer.Argument(metavar="TRAIN", help="The file for most rows.")],
    second: Annotated[str, typer.Argument(metavar="TEST", help="The file for the rows held out.")],
    share: Annotated[float, typer.Option("--share", help="Share of rows held out, above 0 and below 1.")] = 0.2,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Number of rows held out, in place of --share.")
    ] = None,
    seed: Seed = 1,
    on_error: Malformed = "stop",
    force: Force = False,
    threads: Threads = None,
) -> None:
    """Hold out rows at random.

    Both files keep the order of FILE and have its sizes in their headers. Ids count from 0 in them.

    \b
    Example:
      xcl data split all.txt train.txt test.txt --share 0.1 --seed 7
    """
    from xcl.dataset.split import split as write_parts
    from xcl.dataset.write import refuse_existing

    for path in (first, second):
        refuse_existing(path, force)
    if Path(first).absolute() == Path(second).absolute():
        raise UserError(f"{first}: TRAIN and TEST are the same file")
    if not 0 < share < 1:
        raise UserError(f"--share {share:g}: expected a number above 0 and below 1")
    with _loaded(source, first, on_error, threads) as data:
        if 1 in (data.ids.feature_base, data.ids.label_base):
            say("note: ids counted from 1; in the new files they count from 0")
        n_held = write_parts(data, Path(first), Path(second), rows or share, seed)
        _say_written(first, data.x.n_rows - n_held)
        _say_written(second, n_held)


@app.command("vectorize")
def vectorize(
    source: Annotated[Path, typer.Argument(metavar="TEXTS", help="UTF-8 text, one row a line, plain or packed.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The libsvm file to write; .gz, .bz2, .zst pack it.")],
    like: Annotated[
        Path | None, typer.Option("--like", metavar="TRAIN", help="Use words and names of this set, written before.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="A libsvm file with the labels of each line.")
    ] = None,
    min_rows: Annotated[int, typer.Option("--min-rows", min=1, help="Leave out words of fewer rows.")] = 2,
    force: Force = False,
) -> None:
    """Turn texts with label names into rows: tf-idf of words.

    A line is a text, a tab, and label names joined by commas, so a name has none: a cat sat<TAB>animals,pets
    A line without a tab is a row without labels. Beside train.txt stand then train.words.tsv (words and how many
    rows have them) and train.labels.txt (names by label id). --like gives a test file the same ids.

    \b
    From texts to named predictions:
      xcl data vectorize train.tsv train.txt
      xcl data vectorize test.tsv test.txt --like train.txt
      xcl init --data train.txt && xcl train xcl.yaml
      echo "my cat" | xcl predict --text -
    """
    from xcl.dataset import vectorize as texts
    from xcl.dataset.write import refuse_existing

    if str(out).endswith(".npz"):
        raise UserError(f"{out}: text is written here; turn it afterwards with `xcl data convert`")
    for path in (out,) if like else (out, texts.words_file(out), texts.labels_file(out)):
        refuse_existing(path, force)
    done = texts.vectorize(source, out, _engine(1), like, labels, min_rows)
    print(f"{out}: {done.n_rows:,} rows, {done.n_features:,} features (words), {done.n_labels:,} labels")
    if done.n_new_labels:
        say(f"note: label names that are not in {like}, which its models cannot predict: {done.n_new_labels:,}")
    for count, what in ((done.n_rows_without_labels, "label"), (done.n_rows_without_features, "known word")):
        if count:
            say(f"note: rows without a {what}: {count:,}")


@app.command("synth")
def synth(
    out: Annotated[str, typer.Argument(metavar="OUT", help="Training rows: text, packed by its ending, or .npz.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="Training rows.")] = 16_000,
    features: Annotated[int, typer.Option("--features", min=64, max=2**31 - 1, help="Features.")] = 8_000,
    labels: Annotated[int, typer.Option("--labels", min=2, max=2**31 - 1, help="Labels.")] = 4_000,
    test: Annotated[str | None, typer.Option("--test", metavar="OUT2", help="Also write test rows.")] = None,
    test_rows: Annotated[int, typer.Option("--test-rows", min=1, help="Test rows.")] = 4_000,
    noise: Annotated[
        float, typer.Option("--noise", min=0, max=1, help="Share of labels replaced by similar ones.")
    ] = 0.2,
    seed: Seed = 1,
    force: Force = False,
) -> None:
    """Make learnable data up, shaped like Amazon-670K.

    \b
    Examples:
      xcl data synth train.txt --test test.txt
      xcl data synth a670k.txt --rows 490449 --features 135909 --labels 670091
    """
    from xcl.dataset.synth import Shape, World
    from xcl.dataset.write import open_rows, refuse_existing

    files = [(out, rows, 0), *([(test, test_rows, 1)] if test else [])]
    for path, _, _ in files:
        refuse_existing(path, force)
    world = World(Shape(features, labels, noise, seed))
    for path, n_rows, part in files:
        with open_rows(path, (n_rows, features, labels)) as append:
            for x, y in world.rows(n_rows, part):
                append(x, y)
        _say_written(path, n_rows)


@contextmanager
def _loaded(source: str, out: str, on_error: str, threads: int | None) -> Iterator[Dataset]:
    """A data set whose binary copy lies beside the output for as long as it is needed."""
    import tempfile

    from xcl.dataset.load import load

    with tempfile.TemporaryDirectory(prefix=".xcl-", dir=None if out == "-" else Path(out).parent) as folder:
        data = load(source, _engine(threads), Path(folder), on_error=_on_error(on_error))
        for notice in data.notices:
            say(f"note: {notice}")
        yield data


def _engine(threads: int | None) -> Engine:
    from xcl import machine
    from xcl.native import Engine

    return Engine(machine.threads(threads).count)


def _on_error(text: str) -> OnError:
    choices: tuple[OnError, ...] = ("stop", "skip")
    for choice in choices:
        if text == choice:
            return choice
    raise UserError(f"--on-error {text}: not one of stop, skip")


def _say_written(path: str, n_rows: int) -> None:
    if path != "-":
        print(f"{path}: {n_rows:,} rows")


def _print_summary(summary: Summary, as_json: bool, lines: Callable[[Summary], list[str]]) -> None:
    import json

    print(json.dumps(summary.record()) if as_json else "\n".join(lines(summary)))


def _check_lines(summary: Summary) -> list[str]:
    stats, ids = summary.stats, summary.ids
    sizes = f"{stats.n_rows:,} rows, {ids.n_features:,} features, {ids.n_labels:,} labels"
    out = [f"{summary.name}: {'all right' if not stats.n_malformed_rows else 'readable'}: {sizes}"]
    for count, what in ((stats.n_rows_without_labels, "label"), (stats.n_rows_without_features, "feature")):
        out += [f"{summary.name}: rows without a {what}: {count:,}"] if count else []
    return out + list(summary.notices)


def _info_lines(summary: Summary) -> list[str]:
    from xcl.dataset.scan import RARE

    stats, ids = summary.stats, summary.ids
    declared = (stats.declared_rows, stats.declared_features, stats.declared_labels)
    header = "header " + " ".join(map(str, declared)) if declared[0] >= 0 else "no header: sizes are those found"
    table = [
        ("rows", f"{stats.n_rows:,}", header),
        ("  without labels", f"{stats.n_rows_without_labels:,}", ""),
        ("  without features", f"{stats.n_rows_without_features:,}", ""),
        ("features", f"{ids.n_features:,}", f"ids count from {ids.feature_base}"),
        ("labels", f"{ids.n_labels:,}", f"ids count from {ids.label_base}; {summary.n_labels_used:,} occur"),
        ("features a row", f"{summary.features_a_row.mean:.2f}", _spread(summary.features_a_row)),
        ("labels a row", f"{summary.labels_a_row.mean:.2f}", _spread(summary.labels_a_row)),
    ]
    if summary.rows_a_label:
        share = f"{summary.n_labels_rare / summary.n_labels_used:.1%} of the labels that occur"
        table.append(("rows a label", f"{summary.rows_a_label.mean:.2f}", _spread(summary.rows_a_label)))
        table.append((f"  under {RARE} rows", f"{summary.n_labels_rare:,}", share))
    lines = [f"{name:<18}{value:>14}  {text}".rstrip() for name, value, text in table]
    return [summary.name, *lines, *summary.notices]


def _spread(spread: Spread) -> str:
    return f"least {spread.least:,}, median {spread.median:,g}, most {spread.most:,}"
