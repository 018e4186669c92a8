# SPDX-License-Identifier: MIT
"""Score offsets against the chance of being scored, counted by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from xcl.model import ModelOptions
from xcl.offsets import score_offsets


def options(**changes: object) -> ModelOptions:
    return ModelOptions(**{"n_features": 3, "n_labels": 6, "hidden": (4,), "active": 2, **changes})  # type: ignore[arg-type]


def test_chance_is_that_of_a_simulation() -> None:
    """A label that one row lacks is scored if another row of the batch has it or if it is drawn."""
    n_rows, batch, counts = 50, 8, np.array([0, 1, 2, 10, 25, 50])
    generator = np.random.default_rng(0)
    n_scored, n_tries = np.zeros(6), 40_000
    for _ in range(n_tries):
        others = generator.random((batch - 1, 6)) < counts / n_rows
        drawn = generator.permutation(6)[:2]
        n_scored += others.any(0) | np.isin(np.arange(6), drawn)
    offsets = score_offsets(options(), 1.0, counts, n_rows, batch)
    assert offsets is not None
    assert np.exp(-offsets) == pytest.approx(n_scored / n_tries, abs=0.01)


def test_scope_row_has_equal_chances() -> None:
    offsets = score_offsets(options(scope="row"), 0.5, np.arange(6), 10, 4)
    assert offsets == pytest.approx(np.full(6, -0.5 * np.log(2 / 6)))


def test_nothing_to_correct() -> None:
    counts = np.ones(6, np.int64)
    assert score_offsets(options(sampler="full"), 0.5, counts, 10, 4) is None
    assert score_offsets(options(), 0.0, counts, 10, 4) is None
    assert score_offsets(options(active=6), 1.0, counts, 10, 4) == pytest.approx(np.zeros(6))


def test_never_scored_is_finite() -> None:
    offsets = score_offsets(options(active=0), 1.0, np.zeros(6, np.int64), 10, 4)
    assert offsets is not None and np.isfinite(offsets).all()
