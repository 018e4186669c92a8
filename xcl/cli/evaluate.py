# SPDX-License-Identifier: MIT
"""xcl eval: metrics of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xcl.cli.options import Json, Threads, cache_folder, complete_run, cutoffs, open_run, say
from xcl.errors import UserError

if TYPE_CHECKING:
    from xcl.metrics import Metric
    from xcl.rundir import Run


def evaluate(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run; default: the latest.", autocompletion=complete_run)
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Rows; default: the run's data.test.")
    ] = None,
    p_at: Annotated[
        str | None, typer.Option("--p-at", metavar="K,..", help="Precision; alone the default: 1,3,5.")
    ] = None,
    ndcg_at: Annotated[str | None, typer.Option("--ndcg-at", metavar="K,..", help="nDCG.")] = None,
    recall_at: Annotated[str | None, typer.Option("--recall-at", metavar="K,..", help="Recall.")] = None,
    psp_at: Annotated[str | None, typer.Option("--psp-at", metavar="K,..", help="Propensity-scored precision.")] = None,
    psndcg_at: Annotated[
        str | None, typer.Option("--psndcg-at", metavar="K,..", help="Propensity-scored nDCG.")
    ] = None,
    psp_a: Annotated[
        float, typer.Option("--psp-a", help="Propensity constant A (Amazon sets 0.6, Wikipedia 0.5).")
    ] = 0.55,
    psp_b: Annotated[
        float, typer.Option("--psp-b", help="Propensity constant B (Amazon sets 2.6, Wikipedia 0.4).")
    ] = 1.5,
    lsh: Annotated[bool, typer.Option("--lsh", help="Score only the candidates of the hash tables.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure a run on test rows: all of them, rows without labels count as misses, equal scores by label id.

    p@k always divides by k. Propensities follow from the label counts of the training file.

    \b
    Example:
      xcl eval --p-at 1,3,5 --psp-at 1,3,5
      xcl eval runs/quickstart-1 --data test.txt --ndcg-at 5 --json
    """
    import json

    from xcl import machine
    from xcl.dataset.load import load
    from xcl.evaluate import Propensity
    from xcl.evaluate import evaluate as measure
    from xcl.inputs import part_of
    from xcl.native import Engine

    options = {"p": p_at, "ndcg": ndcg_at, "recall": recall_at, "psp": psp_at, "psndcg": psndcg_at}
    wanted = _wanted(options)
    engine = Engine(machine.threads(threads).count)
    opened, model, card, counts = open_run(run, engine, lsh)
    with cache_folder() as cache:
        dataset = load(data or _test_file(opened), engine, cache, card.ids)
    for text in dataset.notices:
        say(f"note: {text}")
    part = part_of(dataset)
    propensity = Propensity(counts, card.n_train_rows, psp_a, psp_b)
    result = measure(model, part.x, part.y, part.rows, wanted, propensity, part.name, lsh)
    for text in result.notices():
        say(f"note: {text}")
    if as_json:
        print(json.dumps({"run": str(opened), "trained": card.trained, **result.record()}, allow_nan=False))
    else:
        print("\n".join(result.lines()))


def _wanted(options: dict[str, str | None]) -> list[Metric]:
    """The metrics asked for; precision at 1, 3 and 5 if none is."""
    from xcl.metrics import Metric

    found = [Metric(kind, k) for kind, text in options.items() for k in cutoffs(f"--{kind}-at", text)]
    return found or [Metric("p", k) for k in (1, 3, 5)]


def _test_file(run: Run) -> Path:
    """The test file that a run's config names. Raises: UserError if there is none any more."""
    from xcl.config import load

    test = load(run.config).config.data.test if run.config.exists() else None
    if test is None:
        raise UserError(f"{run}: no test rows: give them with --data FILE, or set data.test before training")
    if not test.exists():
        raise UserError(f"{run}: its test file {test} is not there: give one with --data FILE")
    return test
