# SPDX-License-Identifier: MIT
"""Data sets as training and evaluation want them: parts of rows, label counts, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xcl import native
from xcl.config import Config
from xcl.dataset.csr import Csr
from xcl.dataset.load import Dataset, IdSpace, load
from xcl.errors import UserError
from xcl.metrics import pairs
from xcl.native import Engine
from xcl.plan import Sizes

Rows = npt.NDArray[np.int64]
CACHE = Path(".xcl-cache")  # where binary copies of parsed files go by default
HOLD_OUT_EPOCH = -1  # the shuffle that chooses held-out rows; training uses 0 and up


@dataclass(frozen=True)
class Part:
    """Rows of a data set: all of x and y, of which `rows` belong to this part. name: for tables."""

    name: str
    x: Csr
    y: Csr
    rows: Rows


@dataclass(frozen=True)
class Inputs:
    """All data of a training run."""

    ids: IdSpace
    train: Part
    validation: Part | None
    test: Part | None
    datasets: tuple[Dataset, ...]

    @property
    def sizes(self) -> Sizes:
        x, y, n_rows = self.train.x, self.train.y, len(self.train.rows)
        return Sizes(
            n_rows=n_rows,
            n_features=x.n_cols,
            n_labels=y.n_cols,
            row_features=x.nnz / x.n_rows,
            row_labels=y.nnz / y.n_rows,
            data_bytes=16 * n_rows + sum(_held_bytes(part) for d in self.datasets for part in (d.x, d.y)),
        )

    def label_counts(self) -> npt.NDArray[np.int64]:
        """(n_labels) training rows of each label. Takes memory by the number of labels: plan before."""
        return np.bincount(pairs(self.train.y, self.train.rows)[3], minlength=self.train.y.n_cols)


def load_all(config: Config, engine: Engine, cache: Path) -> Inputs:
    """Read the training, validation and test files of a config.

    Raises: UserError if a file is malformed, or if there is nothing to learn or to measure in it.
    """
    data = config.data
    source = load(data.train, engine, cache, None, data.on_error)
    for what, part in (("feature", source.x), ("label", source.y)):
        if part.nnz == 0:
            raise UserError(f"{data.train}: no row has a {what}; expected lines such as `3,7 12:0.5 40:1`")
    datasets, rows, validation = [source], _all_rows(source), None
    if isinstance(data.validation, Path):
        datasets.append(load(data.validation, engine, cache, source.ids, data.on_error))
        validation = part_of(datasets[-1])
    elif data.validation:
        rows, held_out = _hold_out(source, data.validation, config.train.seed)
        validation = part_of(source, held_out)
    test = None
    if data.test is not None:
        datasets.append(load(data.test, engine, cache, source.ids, data.on_error))
        test = part_of(datasets[-1])
    train = Part(Path(source.name).name, source.x, source.y, rows)
    return Inputs(source.ids, train, validation, test, tuple(datasets))


def part_of(dataset: Dataset, rows: Rows | None = None) -> Part:
    """Rows (None: all) of a data set for evaluation. Raises: UserError if none has a label."""
    rows = _all_rows(dataset) if rows is None else rows
    if not (dataset.y.indptr[rows + 1] > dataset.y.indptr[rows]).any():
        raise UserError(f"{dataset.name}: none of {len(rows):,} rows for evaluation has a label: nothing to measure")
    return Part(Path(dataset.name).name, dataset.x, dataset.y, rows)


def _all_rows(dataset: Dataset) -> Rows:
    return np.arange(dataset.x.n_rows, dtype=np.int64)


def _hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training rows and held-out rows, both in file order; chosen by the seed."""
    n = dataset.x.n_rows
    n_held = min(max(1, round(share * n)), n - 1)
    if n_held < 1:
        raise UserError(f"data.validation: {dataset.name} has {n:,} rows: too few to hold some out")
    order = native.shuffle(seed, HOLD_OUT_EPOCH, n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _held_bytes(csr: Csr) -> int:
    """Bytes of memory that cannot be dropped: none for rows that are mapped from a file, which are read-only."""
    arrays = [a for a in (csr.indptr, csr.indices, csr.values) if a is not None]
    return sum(a.nbytes for a in arrays if a.flags.writeable)
