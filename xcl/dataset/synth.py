# SPDX-License-Identifier: MIT
"""Made-up data shaped like a large set of products: learnable, of any size, the same for the same seed.

labels    in clusters of 32; popularity (rank + 2.7)^-0.8, ranks at random
features  popularity (rank + 2.7)^-0.9, ranks at random; each label has 12 of its own, each cluster 40, drawn by
          the square root of popularity, so that rarer and more telling ones prevail
a row     a first label by popularity, 1 + Poisson(3) labels in all, at most 10, all of one cluster; 75 draws of a
          feature: 35 % from a label of the row, 25 % from the cluster, the others by popularity; value
          ln(1 + count) * -ln(popularity) * lognormal(0, 0.2), the row scaled to length 1
noise     then each label is replaced by another one of its cluster with this probability
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xcl.dataset.csr import Csr

CLUSTER = 32
OWN, SHARED = 12, 40  # features of a label, of a cluster
DRAWS = 75
MOST_LABELS = 10
CHUNK_ROWS = 8192
DECIMALS = 4

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Sizes of a made-up set, and what else it follows from."""

    n_features: int
    n_labels: int
    noise: float = 0.2
    seed: int = 1


class World:
    """Which features tell which labels. Files made from one world belong together."""

    def __init__(self, shape: Shape) -> None:
        rng = np.random.default_rng([shape.seed, 0])
        d, n = shape.n_features, shape.n_labels
        self.shape = shape
        self._order = rng.permutation(n)  # cluster c is _order[32 c : 32 c + 32]
        self._place = np.argsort(self._order)
        label_weight = _popularity(rng, n, 0.8)
        self._label_steps = np.cumsum(label_weight)
        n_clusters = -(-n // CLUSTER)
        self._weight = np.full((n_clusters, CLUSTER), -np.inf)  # log popularity of a cluster's members
        self._weight.flat[:n] = np.log(label_weight[self._order])
        feature_weight = _popularity(rng, d, 0.9)
        self._feature_steps = np.cumsum(feature_weight)
        self._rarity = -np.log(feature_weight)
        telling = np.cumsum(np.sqrt(feature_weight))
        self._own = _draw(rng, telling, (n, OWN)).astype(np.int32)
        self._shared = _draw(rng, telling, (n_clusters, SHARED)).astype(np.int32)

    def rows(self, n_rows: int, part: int) -> Iterator[tuple[Csr, Csr]]:
        """Blocks of rows, n_rows in all; x: (*, n_features), y: (*, n_labels). part: 0 for training, 1 for test."""
        for chunk, first in enumerate(range(0, n_rows, CHUNK_ROWS)):
            rng = np.random.default_rng([self.shape.seed, 1 + part, chunk])
            yield self._block(rng, min(CHUNK_ROWS, n_rows - first))

    def _block(self, rng: np.random.Generator, n_rows: int) -> tuple[Csr, Csr]:
        first = self._place[_draw(rng, self._label_steps, (n_rows,))]
        clusters = first // CLUSTER
        places, taken = self._labels(rng, clusters, first % CLUSTER)
        x = self._features(rng, clusters, places, taken)
        # noise comes last: it moves labels, not what tells them
        n_members = np.isfinite(self._weight[clusters]).sum(1)
        moved = (rng.random(places.shape) < self.shape.noise) & (n_members > 1)[:, None]
        step = 1 + (rng.random(places.shape) * (n_members - 1)[:, None]).astype(np.int64)
        places = np.where(moved, (places + step) % n_members[:, None], places)
        labels = self._order[(clusters[:, None] * CLUSTER + places)[taken]]
        cells = np.unique(np.repeat(np.arange(n_rows), taken.sum(1)) * self.shape.n_labels + labels)
        return x, _csr(cells, None, n_rows, self.shape.n_labels)

    def _labels(self, rng: np.random.Generator, clusters: Ints, first: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Places within the cluster of up to MOST_LABELS labels a row, the first one first; which of them count."""
        n_rows = len(clusters)
        keys = self._weight[clusters] + rng.gumbel(size=(n_rows, CLUSTER))  # the largest are draws without replacement
        n_members = np.isfinite(self._weight[clusters]).sum(1)
        keys[np.arange(n_rows), first] = np.inf
        places = np.argsort(-keys, axis=1, kind="stable")[:, :MOST_LABELS]
        counts = np.minimum(np.clip(1 + rng.poisson(3, n_rows), 1, MOST_LABELS), n_members)
        return places, np.arange(MOST_LABELS) < counts[:, None]

    def _features(self, rng: np.random.Generator, clusters: Ints, places: Ints, taken: npt.NDArray[np.bool_]) -> Csr:
        n_rows = len(clusters)
        shape = (n_rows, DRAWS)
        kind = rng.random(shape)
        which = (rng.random(shape) * taken.sum(1)[:, None]).astype(np.int64)
        labels = self._order[np.minimum(clusters[:, None] * CLUSTER + places, self.shape.n_labels - 1)]
        own = self._own[np.take_along_axis(labels, which, 1), rng.integers(0, OWN, shape)]
        shared = self._shared[clusters[:, None], rng.integers(0, SHARED, shape)]
        anything = _draw(rng, self._feature_steps, shape)
        drawn = np.where(kind < 0.35, own, np.where(kind < 0.6, shared, anything))
        d = self.shape.n_features
        cells, counts = np.unique(np.arange(n_rows)[:, None] * d + drawn, return_counts=True)
        values = np.log1p(counts) * self._rarity[cells % d] * rng.lognormal(0, 0.2, len(cells))
        lengths = np.sqrt(np.bincount(cells // d, values * values, minlength=n_rows))
        scaled = np.maximum(np.round(values / np.maximum(lengths[cells // d], 1e-30), DECIMALS), 10.0**-DECIMALS)
        return _csr(cells, scaled.astype(np.float32), n_rows, d)


def _popularity(rng: np.random.Generator, n: int, exponent: float) -> Floats:
    weight: Floats = np.asarray((rng.permutation(n) + 2.7) ** -exponent, np.float64)
    weight /= weight.sum()
    return weight


def _draw(rng: np.random.Generator, steps: Floats, shape: tuple[int, ...]) -> Ints:
    """Numbers below len(steps), by the steps of their cumulative weights."""
    places: Ints = np.searchsorted(steps, rng.random(shape) * steps[-1], "right").astype(np.int64)
    return np.minimum(places, len(steps) - 1)


def _csr(cells: Ints, values: npt.NDArray[np.float32] | None, n_rows: int, n_cols: int) -> Csr:
    """Rows from sorted cell numbers row * n_cols + column."""
    rows, ids = np.divmod(cells, n_cols)
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return Csr(indptr, ids.astype(np.int32), values, n_cols)
