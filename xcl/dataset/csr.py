# SPDX-License-Identifier: MIT
"""Sparse rows as three arrays: what the engine reads, in memory or memory-mapped alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


@dataclass(frozen=True)
class Csr:
    """Row i has ids indices[indptr[i]:indptr[i+1]], ascending, and as many values (None: all are 1).

    indptr: (n_rows + 1) int64.  indices: (nnz) int32.  values: (nnz) float32 or None.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32] | None
    n_cols: int

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        return int(self.indptr[-1])

    def to_scipy(self) -> Any:
        """The same rows as a scipy csr_matrix; ids and values are not copied while nnz < 2^31."""
        values = self.values if self.values is not None else np.ones(self.nnz, np.float32)
        small = self.nnz < 2**31
        indptr = self.indptr.astype(np.int32) if small else self.indptr
        indices = self.indices if small else self.indices.astype(np.int64)
        return sp.csr_matrix((values, indices, indptr), shape=(self.n_rows, self.n_cols), copy=False)

    def take(self, rows: npt.NDArray[np.int64]) -> Csr:
        """These rows, copied."""
        starts, counts = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        places = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
        return Csr(indptr, self.indices[places], None if self.values is None else self.values[places], self.n_cols)

    @classmethod
    def concat(cls, parts: Sequence[Csr], n_cols: int) -> Csr:
        """Rows of all parts, one below the other; either all have values or none."""
        if len(parts) == 1:
            return cls(parts[0].indptr, parts[0].indices, parts[0].values, n_cols)
        indptr = np.zeros(sum(part.n_rows for part in parts) + 1, np.int64)
        np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts] or [indptr[:0]]), out=indptr[1:])
        indices = np.concatenate([part.indices for part in parts] or [np.zeros(0, np.int32)])
        values = [part.values for part in parts if part.values is not None]
        return cls(indptr, indices, np.concatenate(values) if values else None, n_cols)

    @classmethod
    def from_scipy(cls, matrix: Any, binary: bool = False) -> Csr:
        """Rows of any scipy sparse matrix, sorted, duplicates summed. binary: drop the values (labels)."""
        m = sp.csr_matrix(matrix)
        if not m.has_canonical_format:
            m = m.copy()
            m.sum_duplicates()
        if m.shape[1] > 2**31 - 1:
            raise ValueError("more than 2^31 - 1 columns")
        values = None if binary else np.ascontiguousarray(m.data, dtype=np.float32)
        return cls(m.indptr.astype(np.int64), np.ascontiguousarray(m.indices, dtype=np.int32), values, int(m.shape[1]))
