# SPDX-License-Identifier: MIT
"""Metrics against hand-worked rows, scikit-learn, and a slow restatement of their definitions."""

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from xcl.dataset.csr import Csr
from xcl.errors import UserError
from xcl.metrics import KINDS, Meter, Metric, inverse_propensities


def truth_of(rows, n_labels=100):
    indptr = np.cumsum([0] + [len(r) for r in rows]).astype(np.int64)
    indices = np.array([label for row in rows for label in sorted(row)], np.int32)
    return Csr(indptr, indices, None, n_labels)


def measure(rows, predictions, names, inverse=None, untrained=1.0, chunk=None):
    meter = Meter([Metric.parse(name) for name in names], inverse, untrained)
    ids = np.array(predictions, np.int32).reshape(len(rows), -1)
    step = chunk or len(rows)
    for start in range(0, len(rows), step):
        which = np.arange(start, min(start + step, len(rows)), dtype=np.int64)
        meter.update(truth_of(rows), which, ids[which])
    return meter.result()


def test_worked_by_hand():
    rows = [{1, 2}, {3}]
    predictions = [[2, 9, 1], [4, 5, 3]]
    got = measure(rows, predictions, ["p@1", "p@3", "recall@3", "recall@1", "ndcg@1", "ndcg@3"])
    assert got["p@1"] == pytest.approx(0.5)
    assert got["p@3"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert got["recall@1"] == pytest.approx((1 / 2 + 0) / 2)
    assert got["recall@3"] == pytest.approx(1.0)
    ideal = 1 + 1 / math.log2(3)
    assert got["ndcg@1"] == pytest.approx(0.5)
    assert got["ndcg@3"] == pytest.approx(((1 + 1 / 2) / ideal + 1 / 2) / 2)


def test_propensity_scores_by_hand():
    inverse = np.array([1.0, 2.0, 4.0, 8.0])
    rows, predictions = [{1, 2}, {3}], [[1, 0], [3, 0]]
    got = measure(rows, predictions, ["psp@1", "psp@2", "psndcg@2"], inverse)
    assert got["psp@1"] == pytest.approx((2 + 8) / (4 + 8))
    assert got["psp@2"] == pytest.approx((2 + 8) / (6 + 8))
    ideal = 1 + 1 / math.log2(3)
    assert got["psndcg@2"] == pytest.approx((2 / ideal + 8) / ((4 + 2 / math.log2(3)) / ideal + 8))


def test_a_row_without_labels_is_a_zero_and_counted():
    meter = Meter([Metric("p", 1), Metric("ndcg", 2), Metric("recall", 1)])
    meter.update(truth_of([{1}, set()]), np.arange(2), np.array([[1, 2], [1, 2]], np.int32))
    assert meter.result() == {"p@1": 0.5, "ndcg@2": 0.5, "recall@1": 0.5}
    assert (meter.n_rows, meter.n_without_labels) == (2, 1)


def test_no_labels_at_all_is_refused():
    with pytest.raises(UserError, match="nothing to measure"):
        measure([set(), set()], [[1], [2]], ["p@1"])


def test_fewer_predictions_than_k_divides_by_k():
    got = measure([{0, 1, 2}], [[0, 1, -1]], ["p@5", "recall@5"])
    assert got == {"p@5": pytest.approx(2 / 5), "recall@5": pytest.approx(2 / 3)}


def test_labels_beyond_the_model_are_misses_with_the_weight_of_untrained_ones():
    got = measure([{0, 50}], [[0, 1]], ["p@2", "psp@2"], np.array([1.5, 1.0]), untrained=3.0)
    assert got == {"p@2": 0.5, "psp@2": pytest.approx(1.5 / 4.5)}


def test_inverse_propensities_by_the_formula():
    c = (math.log(1000) - 1) * 2.5**0.55
    got = inverse_propensities(np.array([0, 10]), 1000)
    np.testing.assert_allclose(got, [1 + c * math.exp(-0.55 * math.log(n + 1.5)) for n in (0, 10)])
    assert (inverse_propensities(np.array([0, 1]), 1) >= 1).all()


@pytest.mark.parametrize(("a", "b"), [(0, 1), (-1, 1), (1, 0), (float("nan"), 1), (1, float("inf"))])
def test_propensity_constants_must_be_positive(a, b):
    with pytest.raises(UserError, match="positive"):
        inverse_propensities(np.array([1]), 10, a, b)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_equals_scikit_learn(k):
    rng = np.random.default_rng(k)
    scores = rng.permuted(np.tile(np.arange(30.0), (40, 1)), axis=1)
    relevant = rng.random((40, 30)) < 0.15
    relevant[:, 0] |= ~relevant.any(axis=1)
    rows = [set(np.flatnonzero(r)) for r in relevant]
    got = measure(rows, np.argsort(-scores, axis=1)[:, :k], [f"ndcg@{k}"])[f"ndcg@{k}"]
    assert got == pytest.approx(sklearn.metrics.ndcg_score(relevant, scores, k=k))


def slow(rows, predictions, kind, k, inverse):
    """The definitions, a row and a label at a time."""
    total = best = 0.0
    for row, ranking in zip(rows, predictions, strict=True):
        discount = [1 / math.log2(r + 2) if "ndcg" in kind else 1.0 for r in range(k)]
        weight = {label: inverse[label] if kind.startswith("ps") else 1.0 for label in row}
        divisor = {"p": k, "psp": k, "recall": max(1, len(row))}.get(kind) or sum(discount[: max(1, min(k, len(row)))])
        total += sum(weight[label] * d for label, d in zip(ranking, discount, strict=False) if label in row) / divisor
        ordered = sorted(weight.values(), reverse=True)
        best += sum(w * d for w, d in zip(ordered, discount, strict=False)) / divisor
    return total / best if kind.startswith("ps") else total / len(rows)


cases = st.lists(
    st.tuples(st.sets(st.integers(0, 11), max_size=6), st.permutations(range(12))), min_size=1, max_size=12
).filter(lambda rows: any(labels for labels, _ in rows))


@settings(deadline=None)
@given(cases, st.integers(1, 14), st.integers(1, 12), st.integers(1, 5))
def test_equals_the_definitions_on_any_ranking_in_any_chunks(rows, k, width, chunk):
    truth = [labels for labels, _ in rows]
    predictions = [ranking[:width] for _, ranking in rows]
    inverse = 1 + np.arange(12) ** 2 / 7
    got = measure(truth, predictions, [f"{kind}@{k}" for kind in KINDS], inverse, chunk=chunk)
    for kind in KINDS:
        assert got[f"{kind}@{k}"] == pytest.approx(slow(truth, predictions, kind, k, inverse)), kind
        assert -1e-12 <= got[f"{kind}@{k}"] <= 1 + 1e-12
