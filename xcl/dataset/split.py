# SPDX-License-Identifier: MIT
"""Hold rows of a data set out at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from xcl.dataset.load import Dataset
from xcl.dataset.write import open_rows
from xcl.errors import UserError

_CHUNK_ROWS = 65_536


def split(data: Dataset, first: Path, second: Path, held_out: int | float, seed: int) -> int:
    """Write held_out rows (a share if below 1) to the second file, the others to the first, both in their order.

    Ids count from 0 in both, for a part may lack the ids that would tell otherwise. Nothing appears if a row cannot be
    written. Result: how many rows were held out. Raises: UserError if one file would have no rows.
    """
    n = data.x.n_rows
    n_held = min(max(1, round(held_out * n)), n - 1) if held_out < 1 else int(held_out)
    if not 0 < n_held < n:
        raise UserError(f"{data.name}: has {n:,} rows: {n_held:,} cannot be held out")
    chosen = np.zeros(n, np.bool_)
    chosen[np.random.default_rng(seed).permutation(n)[:n_held]] = True
    widths = (data.x.n_cols, data.y.n_cols)
    with open_rows(first, (n - n_held, *widths)) as to_first, open_rows(second, (n_held, *widths)) as to_second:
        for append, rows in ((to_first, np.flatnonzero(~chosen)), (to_second, np.flatnonzero(chosen))):
            for chunk in _chunks(rows):
                append(data.x.take(chunk), data.y.take(chunk))
    return n_held


def _chunks(rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [rows[start : start + _CHUNK_ROWS] for start in range(0, len(rows), _CHUNK_ROWS)]
