# SPDX-License-Identifier: MIT
"""Ranking metrics over the top k labels of each row, as fractions, summed chunk by chunk.

For a row with true labels Y and predictions l_1, l_2, ..., hit_r = 1 if l_r is in Y, d_r = 1 / log2(r + 1):

    p@k       sum of hit_r over r <= k, divided by k
    recall@k  the same sum divided by |Y|
    ndcg@k    sum of hit_r d_r over r <= k, divided by the sum of d_r over r <= min(k, |Y|)
    psp@k     sum of hit_r q(l_r), over all rows, divided by the largest such sum that any ranking reaches
    psndcg@k  the same with d_r and ndcg's divisor in every row

q(l) = 1 / propensity = 1 + C (n_l + B)^-A with C = (ln N - 1) (1 + B)^A, n_l the training rows of label l of N.
Means are over all rows. A row without true labels counts as zero in every metric; how many there are is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xcl.dataset.csr import Csr
from xcl.errors import UserError

KINDS = ("p", "recall", "ndcg", "psp", "psndcg")
A, B = 0.55, 1.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Metric:
    """A metric and its cutoff: p@5."""

    kind: str
    k: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.k}"

    @classmethod
    def parse(cls, text: str) -> Metric:
        kind, _, k = text.partition("@")
        return cls(kind, int(k))


def inverse_propensities(counts: npt.NDArray[np.integer], n_rows: int, a: float = A, b: float = B) -> Floats:
    """q(l) for every label. counts: (n_labels) training rows of each label, of n_rows in all.

    Raises: UserError if a or b is not a positive number.
    """
    if not (0 < a < math.inf and 0 < b < math.inf):
        raise UserError(f"propensity constants A = {a:g}, B = {b:g}: both must be positive numbers")
    c = max(0.0, math.log(max(1, n_rows)) - 1) * (1 + b) ** a
    return np.asarray(1 + c * (counts + b) ** -a, np.float64)


class Meter:
    """Sums of the wanted metrics over chunks of rows.

    inverse: (n_labels) from `inverse_propensities`, needed for psp and psndcg. A true label beyond it has never been
    trained: it cannot be hit, and weighs as much as a label without training rows, `untrained`.
    """

    def __init__(self, wanted: Iterable[Metric], inverse: Floats | None = None, untrained: float = 1.0) -> None:
        self.wanted = sorted(set(wanted))
        self.inverse = inverse
        self.untrained = untrained
        self.n_rows = 0
        self.n_without_labels = 0
        self._sums = dict.fromkeys(self.wanted, 0.0)
        self._bests = dict.fromkeys(self.wanted, 0.0)

    @property
    def k(self) -> int:
        """The longest ranking needed."""
        return max((metric.k for metric in self.wanted), default=1)

    def update(self, truth: Csr, rows: npt.NDArray[np.int64], label_ids: npt.NDArray[np.int32]) -> None:
        """Add rows of truth and their predictions. label_ids: (len(rows), any), best first, -1 where there is none."""
        sizes, owner, rank, labels = pairs(truth, rows)
        ids = _widen(label_ids, self.k)
        hits = _hits(owner, labels, ids)
        self.n_rows += len(rows)
        self.n_without_labels += int(np.count_nonzero(sizes == 0))
        discounts = 1 / np.log2(np.arange(self.k) + 2)
        for metric in self.wanted:
            within = slice(0, metric.k)
            gains = hits[:, within].astype(np.float64)
            scaled = np.ones(metric.k)
            divisor = np.full(len(rows), float(metric.k))
            if metric.kind == "recall":
                divisor = np.maximum(sizes, 1).astype(np.float64)
            if metric.kind in ("ndcg", "psndcg"):
                scaled = discounts[within]
                divisor = np.cumsum(scaled)[np.clip(np.minimum(sizes, metric.k) - 1, 0, None)]
            if metric.kind in ("psp", "psndcg"):
                gains *= self._weights(np.maximum(ids[:, within], 0))
                self._bests[metric] += self._best(owner, labels, rank, scaled, divisor)
            self._sums[metric] += float(((gains * scaled).sum(axis=1) / divisor).sum())

    def _weights(self, labels: npt.NDArray[np.integer]) -> Floats:
        assert self.inverse is not None, "psp needs propensities"
        known = labels < len(self.inverse)
        return np.where(known, self.inverse[np.where(known, labels, 0)], self.untrained)

    def _best(
        self,
        owner: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int64],
        rank: npt.NDArray[np.int64],
        scaled: Floats,
        divisor: Floats,
    ) -> float:
        """The largest sum over rows: each row's true labels by falling weight. rank: 0, 1, ... within each owner."""
        weights = self._weights(labels)
        weights = weights[np.lexsort((-weights, owner))]
        top = rank < len(scaled)
        return float((weights[top] * scaled[rank[top]] / divisor[owner[top]]).sum())

    def result(self) -> dict[str, float]:
        """Every wanted metric by its name. Raises: UserError if no row has a label."""
        if self.n_rows == self.n_without_labels:
            raise UserError(f"none of {self.n_rows:,} rows has a label: nothing to measure")
        out = {}
        for metric in self.wanted:
            propensity = metric.kind in ("psp", "psndcg")
            out[str(metric)] = self._sums[metric] / (self._bests[metric] if propensity else self.n_rows)
        return out


def pairs(
    csr: Csr, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The ids in the given rows: sizes (len(rows)); for each id its place in rows, its rank in the row, and itself."""
    starts = csr.indptr[rows]
    sizes = csr.indptr[rows + 1] - starts
    owner = np.repeat(np.arange(len(rows)), sizes)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return sizes, owner, rank, csr.indices[np.repeat(starts, sizes) + rank].astype(np.int64)


def _widen(label_ids: npt.NDArray[np.int32], k: int) -> npt.NDArray[np.int64]:
    """The first k columns, filled up with -1."""
    ids = np.full((len(label_ids), k), -1, np.int64)
    width = min(k, label_ids.shape[1])
    ids[:, :width] = label_ids[:, :width]
    return ids


def _hits(
    owner: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which ids are among their row's labels. owner, labels: pairs in ascending order. ids, result: (n_rows, k)."""
    if len(labels) == 0:
        return np.zeros(ids.shape, np.bool_)
    span = int(max(labels.max(), ids.max(), 0)) + 1
    pairs = owner * span + labels
    queries = np.arange(len(ids))[:, None] * span + ids
    places = np.minimum(np.searchsorted(pairs, queries), len(pairs) - 1)
    found: npt.NDArray[np.bool_] = (pairs[places] == queries) & (ids >= 0)
    return found
