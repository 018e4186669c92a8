# SPDX-License-Identifier: MIT
"""Metrics of a model on labelled rows, with what defines them: rows, divisor, ties, propensities, scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xcl import metrics
from xcl.dataset.csr import Csr
from xcl.metrics import Meter, Metric, pairs
from xcl.model import Model

CHUNK_ROWS = 1024


@dataclass(frozen=True)
class Propensity:
    """Constants A, B and the training counts that propensities follow from. counts: (n_labels)."""

    counts: npt.NDArray[np.int64]
    n_rows: int
    a: float = metrics.A
    b: float = metrics.B

    def meter(self, wanted: Sequence[Metric]) -> Meter:
        """Raises: UserError if A or B is not a positive number."""
        inverse = metrics.inverse_propensities(self.counts, self.n_rows, self.a, self.b)
        untrained = metrics.inverse_propensities(np.zeros(1, np.int64), self.n_rows, self.a, self.b)
        return Meter(wanted, inverse, float(untrained[0]))


@dataclass(frozen=True)
class Result:
    """Metrics as fractions, and what they are of."""

    data: str
    values: dict[str, float]
    n_rows: int
    n_without_labels: int
    n_untrained_labels: int
    n_unknown_features: int
    n_labels: int
    propensity: Propensity
    lsh: bool

    def record(self) -> dict[str, Any]:
        """One JSON object."""
        out: dict[str, Any] = {
            "type": "eval",
            "data": self.data,
            **self.values,
            "rows": self.n_rows,
            "rows_without_labels": self.n_without_labels,
            "labels_without_training_rows": self.n_untrained_labels,
            "unknown_features": self.n_unknown_features,
            "divisor": "k",
            "ties": "label id",
            "scoring": "lsh" if self.lsh else "exact",
        }
        if any(name.startswith("ps") for name in self.values):
            p = self.propensity
            out["propensity"] = {"A": p.a, "B": p.b, "label_counts": "training file", "training_rows": p.n_rows}
        return out

    def notices(self) -> list[str]:
        """What a reader of the numbers should know."""
        out = []
        if self.n_without_labels:
            out.append(f"{self.n_without_labels:,} of {self.n_rows:,} rows have no label and count as misses")
        if self.n_untrained_labels:
            out.append(f"{self.n_untrained_labels:,} labels have no training row and cannot be right")
        if self.n_unknown_features:
            out.append(f"{self.n_unknown_features:,} unknown features were ignored")
        deepest = max((Metric.parse(name).k for name in self.values), default=0)
        if deepest > self.n_labels:
            out.append(f"k = {deepest} is above the {self.n_labels:,} labels of the model: p@k still divides by k")
        return out

    def lines(self) -> list[str]:
        """A table in percent, a row for each kind of metric."""
        kinds: dict[str, dict[int, float]] = {}
        for name, value in self.values.items():
            metric = Metric.parse(name)
            kinds.setdefault(metric.kind, {})[metric.k] = value
        scoring = "candidates of the hash tables" if self.lsh else "exact scores"
        out = [f"{self.data}: {self.n_rows:,} rows, {scoring}, percent"]
        for kind, values in kinds.items():
            out.append("".join(f"{_TITLES[kind] + '@' + str(k):>10}" for k in values))
            out.append("".join(f"{100 * value:>10.2f}" for value in values.values()))
        if any(kind.startswith("ps") for kind in kinds):
            p = self.propensity
            out.append(f"propensities: A = {p.a:g}, B = {p.b:g}, label counts of the {p.n_rows:,} training rows")
        return out


_TITLES = {"p": "P", "recall": "R", "ndcg": "nDCG", "psp": "PSP", "psndcg": "PSnDCG"}


def evaluate(
    model: Model,
    x: Csr,
    y: Csr,
    rows: npt.NDArray[np.int64],
    wanted: Sequence[Metric],
    propensity: Propensity,
    data: str,
    lsh: bool = False,
    between: Callable[[], None] = lambda: None,
) -> Result:
    """Metrics of rows of x with labels y. between: called between chunks, may raise to stop.

    Raises: UserError if no row has a label, or A or B is not positive.
    """
    meter = propensity.meter(wanted)
    n_unknown = 0
    used = np.zeros(max(y.n_cols, len(propensity.counts)), np.bool_)
    for start in range(0, len(rows), CHUNK_ROWS):
        between()
        chunk = rows[start : start + CHUNK_ROWS]
        ids, _, unknown = model.predict(x, min(meter.k, model.options.n_labels), chunk, lsh)
        meter.update(y, chunk, ids)
        n_unknown += unknown
        used[pairs(y, chunk)[3]] = True
    used[: len(propensity.counts)] &= propensity.counts == 0
    return Result(
        data=data,
        values=meter.result(),
        n_rows=meter.n_rows,
        n_without_labels=meter.n_without_labels,
        n_untrained_labels=int(np.count_nonzero(used)),
        n_unknown_features=n_unknown,
        n_labels=model.options.n_labels,
        propensity=propensity,
        lsh=lsh,
    )
