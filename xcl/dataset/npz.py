# SPDX-License-Identifier: MIT
"""Rows as numpy archives: one file of ours with both matrices, or a pair `X.npz,Y.npz` of scipy sparse matrices.

Ours holds shape (rows, features, labels), bases (what ids in text counted from), x_indptr, x_indices, x_values,
y_indptr, y_indices; ids count from 0. Nothing is unpickled, and all that is read is checked.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from xcl.dataset.csr import Csr
from xcl.dataset.text import TextStats
from xcl.errors import UserError
from xcl.files import atomic

_MOST_COLUMNS = 2**31
Arrays = dict[str, npt.NDArray[Any]]


def pair_of(path: str | Path) -> tuple[Path, Path] | None:
    """The two files that X.npz,Y.npz names; Y.npz is relative to the folder of X.npz. None: it is one file."""
    first, comma, second = str(path).partition(",")
    if not comma or Path(path).exists():
        return None
    return Path(first), Path(first).parent / second


def save(path: Path, x: Csr, y: Csr, bases: tuple[int, int]) -> None:
    """Write one archive, atomically."""
    assert x.values is not None
    with atomic(path) as file:
        np.savez(
            file,
            shape=np.array([x.n_rows, x.n_cols, y.n_cols], np.int64),
            bases=np.array(bases, np.int64),
            x_indptr=x.indptr,
            x_indices=x.indices,
            x_values=x.values,
            y_indptr=y.indptr,
            y_indices=y.indices,
        )


def load(path: str | Path) -> tuple[Csr, Csr, TextStats]:
    """x, y and counts of an archive of ours, or of a pair. Raises: UserError naming what is wrong with the file."""
    pair = pair_of(path)
    return _load_pair(*pair) if pair else _load_one(Path(path))


def _load_one(path: Path) -> tuple[Csr, Csr, TextStats]:
    arrays = _arrays(path)
    if "x_indptr" not in arrays:
        what = "one scipy matrix" if "format" in arrays or "indptr" in arrays else "other arrays"
        raise UserError(f"{path}: holds {what}; expected rows written by `xcl data convert`, or a pair X.npz,Y.npz")
    try:
        n_rows, n_features, n_labels = (int(n) for n in arrays["shape"])
        bases = int(arrays["bases"][0]), int(arrays["bases"][1])
        x = _csr(path, "x", arrays["x_indptr"], arrays["x_indices"], arrays["x_values"], n_features)
        y = _csr(path, "y", arrays["y_indptr"], arrays["y_indices"], None, n_labels)
    except (KeyError, TypeError, IndexError, ValueError) as e:
        raise UserError(f"{path}: not an archive of rows ({type(e).__name__}: {e})") from None
    if x.n_rows != n_rows or y.n_rows != n_rows or not {*bases} <= {0, 1}:
        raise UserError(f"{path}: damaged: the parts do not have {n_rows:,} rows each")
    return x, y, array_stats(x, y, bases)


def _load_pair(x_path: Path, y_path: Path) -> tuple[Csr, Csr, TextStats]:
    """Two scipy matrices with as many rows; what is not 0 in Y is a label."""
    x = _from_scipy(x_path, binary=False)
    y = _from_scipy(y_path, binary=True)
    if x.n_rows != y.n_rows:
        raise UserError(f"{x_path} has {x.n_rows:,} rows, but {y_path} has {y.n_rows:,}")
    return x, y, array_stats(x, y, (0, 0))


def array_stats(x: Csr, y: Csr, bases: tuple[int, int]) -> TextStats:
    """The counts of a text with these rows and a header."""

    def ends(ids: npt.NDArray[np.int32], base: int) -> tuple[int, int]:
        return (int(ids.min()) + base, int(ids.max()) + base) if len(ids) else (-1, -1)

    (min_feature, max_feature), (min_label, max_label) = ends(x.indices, bases[0]), ends(y.indices, bases[1])
    return TextStats(
        n_rows=x.n_rows,
        n_features=x.nnz,
        n_labels=y.nnz,
        declared_rows=x.n_rows,
        declared_features=x.n_cols,
        declared_labels=y.n_cols,
        min_feature=min_feature,
        max_feature=max_feature,
        min_label=min_label,
        max_label=max_label,
        n_rows_without_features=int(np.count_nonzero(np.diff(x.indptr) == 0)),
        n_rows_without_labels=int(np.count_nonzero(np.diff(y.indptr) == 0)),
        feature_base=bases[0],
        label_base=bases[1],
    )


def _arrays(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, NotImplementedError) as e:
        raise UserError(f"{path}: not a numpy archive that can be read ({' '.join(str(e).split())})") from None


def _from_scipy(path: Path, binary: bool) -> Csr:
    if "format" not in _arrays(path):
        raise UserError(f"{path}: not written by scipy.sparse.save_npz")
    try:
        matrix = sp.csr_matrix(sp.load_npz(path))
        matrix.check_format(full_check=True)
    except Exception as e:  # whatever scipy meets in a damaged file
        raise UserError(f"{path}: not a sparse matrix that can be read ({' '.join(str(e).split())})") from None
    if matrix.dtype.kind not in "buif":
        raise UserError(f"{path}: values of type {matrix.dtype}; expected numbers")
    if matrix.shape[1] > _MOST_COLUMNS:
        raise UserError(f"{path}: {matrix.shape[1]} columns; the limit is {_MOST_COLUMNS}")
    if binary:
        matrix.eliminate_zeros()
    with np.errstate(over="ignore"):
        csr = Csr.from_scipy(matrix, binary)
    return _csr(path, "matrix", csr.indptr, csr.indices, csr.values, csr.n_cols)


def _csr(
    path: Path,
    name: str,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any] | None,
    n_cols: int,
) -> Csr:
    """Checked arrays as rows. Raises: UserError."""
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or (values is not None and values.dtype != np.float32):
        raise UserError(f"{path}: {name}: offsets, ids and values must be int64, int32 and float32")
    flat = [indptr, indices] if values is None else [indptr, indices, values]
    if any(array.ndim != 1 for array in flat) or not 0 <= n_cols <= _MOST_COLUMNS:
        raise UserError(f"{path}: {name}: damaged: arrays must have one dimension, columns be 0 to {_MOST_COLUMNS}")
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise UserError(f"{path}: {name}: damaged: offsets of rows do not ascend from 0 to {len(indices):,}")
    if values is not None and len(values) != len(indices):
        raise UserError(f"{path}: {name}: damaged: {len(indices):,} ids, but {len(values):,} values")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_cols):
        raise UserError(f"{path}: {name}: ids from {indices.min()} to {indices.max()}; expected 0 to {n_cols - 1}")
    ascending = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    ascending[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    if not ascending.all():
        raise UserError(f"{path}: {name}: ids are not ascending within a row")
    if values is not None and not np.isfinite(values).all():
        raise UserError(f"{path}: {name}: a value is not a finite 32-bit float")
    return Csr(indptr, indices, values, n_cols)
