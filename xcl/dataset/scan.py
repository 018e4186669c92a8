# SPDX-License-Identifier: MIT
"""Look a file over, row by row, without keeping it: what `xcl data info` and `check` print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xcl.dataset import npz
from xcl.dataset.csr import Csr
from xcl.dataset.load import IdSpace, id_space, is_archive, notices_of
from xcl.dataset.read import blocks, display_name, open_file
from xcl.dataset.text import OnError, Parser, TextStats
from xcl.errors import UserError
from xcl.native import Engine

RARE = 5  # rows
_MOST_LABELS = 1 << 26  # beyond, rows are not counted by label


@dataclass(frozen=True)
class Spread:
    """Least, middle, mean and most of a count."""

    least: int = 0
    median: float = 0.0
    mean: float = 0.0
    most: int = 0

    @classmethod
    def of(cls, histogram: npt.NDArray[np.int64]) -> Spread:
        """histogram: how often each count 0, 1, 2 ... occurs."""
        n = int(histogram.sum())
        if n == 0:
            return cls()
        sums = np.cumsum(histogram)
        middle = [int(np.searchsorted(sums, place, "right")) for place in ((n - 1) // 2, n // 2)]
        present = np.flatnonzero(histogram)
        mean = float(histogram @ np.arange(len(histogram))) / n
        return cls(int(present[0]), sum(middle) / 2, mean, int(present[-1]))


@dataclass(frozen=True)
class Summary:
    """What a file holds. rows_a_label: over the labels that occur; None if ids are too large to count."""

    name: str
    stats: TextStats
    ids: IdSpace
    notices: tuple[str, ...]
    features_a_row: Spread
    labels_a_row: Spread
    rows_a_label: Spread | None
    n_labels_used: int
    n_labels_rare: int

    def record(self) -> dict[str, Any]:
        """One JSON object."""
        out: dict[str, Any] = {"file": self.name, "rows": self.stats.n_rows, **_public(asdict(self.ids))}
        out["header"] = self.stats.declared_rows >= 0
        out |= _public({key: value for key, value in asdict(self.stats).items() if key.startswith("n_rows_")})
        for key in ("n_unsorted_rows", "n_duplicate_features", "n_duplicate_labels", "n_qid", "n_malformed_rows"):
            out[key.removeprefix("n_")] = getattr(self.stats, key)
        out["malformed"] = list(self.stats.malformed)
        out["features_a_row"] = asdict(self.features_a_row)
        out["labels_a_row"] = asdict(self.labels_a_row)
        out["rows_a_label"] = self.rows_a_label and asdict(self.rows_a_label)
        return out | {"labels_used": self.n_labels_used, f"labels_under_{RARE}_rows": self.n_labels_rare}


def scan(path: str | Path, engine: Engine, on_error: OnError = "stop") -> Summary:
    """Read all rows of a file or pipe once. Raises: UserError as `load` does."""
    name = display_name(path)
    counter = _Counter()
    if npz.pair_of(path):
        stats = counter.add_archive(path)
    else:
        with open_file(path) as file:
            if is_archive(file):
                stats = counter.add_archive(path)
            else:
                parser = Parser(engine, name, on_error=on_error)
                counter.add(parser.parse(blocks(file, name)))
                stats = parser.stats
    if stats.n_rows == 0:
        raise UserError(f"{name}: no rows; expected lines such as `3,7 12:0.5 40:1`")
    used = counter.labels[counter.labels > 0] if stats.max_label < _MOST_LABELS else counter.labels[:0]
    return Summary(
        name,
        stats,
        id_space(stats),
        notices_of(name, stats),
        Spread.of(counter.row_features),
        Spread.of(counter.row_labels),
        Spread.of(np.bincount(used)) if len(used) else None,
        len(used),
        int(np.count_nonzero(used < RARE)),
    )


class _Counter:
    """Histograms of row lengths, and rows of each label."""

    def __init__(self) -> None:
        self.row_features = self.row_labels = self.labels = np.zeros(0, np.int64)

    def add(self, rows: Iterable[tuple[Csr, Csr]]) -> None:
        for x, y in rows:
            self.row_features = _sum(self.row_features, np.bincount(np.diff(x.indptr)))
            self.row_labels = _sum(self.row_labels, np.bincount(np.diff(y.indptr)))
            self.labels = _sum(self.labels, np.bincount(y.indices[y.indices < _MOST_LABELS]))

    def add_archive(self, path: str | Path) -> TextStats:
        x, y, stats = npz.load(path)
        self.add([(x, y)])
        return stats


def _sum(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sum, in the memory of the longer one."""
    short, long = sorted((a, b), key=len)
    long[: len(short)] += short
    return long


def _public(values: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix("n_"): value for key, value in values.items()}
