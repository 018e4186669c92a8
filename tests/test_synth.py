"""Made-up data: the shape it promises, and that it can be learnt."""

from __future__ import annotations

import numpy as np

from xcl.dataset.csr import Csr
from xcl.dataset.synth import CHUNK_ROWS, Shape, World


def rows(shape: Shape, n: int, part: int = 0) -> tuple[Csr, Csr]:
    xs, ys = zip(*World(shape).rows(n, part), strict=True)
    return Csr.concat(xs, shape.n_features), Csr.concat(ys, shape.n_labels)


def test_shape() -> None:
    shape = Shape(5000, 1000)
    x, y = rows(shape, CHUNK_ROWS + 100)
    assert x.n_rows == y.n_rows == CHUNK_ROWS + 100
    for m in (x, y):
        assert m.indices.min() >= 0 and m.indices.max() < m.n_cols
        row = np.repeat(np.arange(m.n_rows), np.diff(m.indptr))
        assert np.all(np.diff(row * m.n_cols + m.indices) > 0)
    counts = np.diff(y.indptr)
    assert counts.min() >= 1 and counts.max() <= 10 and 3 < counts.mean() < 4.5
    assert 40 < np.diff(x.indptr).mean() < 75
    lengths = np.sqrt(np.add.reduceat(x.values.astype(float) ** 2, x.indptr[:-1]))
    assert np.allclose(lengths, 1, atol=1e-3)
    frequency = np.sort(np.bincount(y.indices, minlength=1000))[::-1]
    assert frequency[:10].sum() > 0.04 * len(y.indices)  # a head
    assert (frequency == 0).sum() < 50


def test_the_same_seed_gives_the_same() -> None:
    shape = Shape(500, 100, seed=7)
    a, b = rows(shape, 300), rows(shape, 300)
    assert a[0].values.tobytes() == b[0].values.tobytes() and a[1].indices.tobytes() == b[1].indices.tobytes()
    assert rows(Shape(500, 100, seed=8), 300)[1].indices.tobytes() != a[1].indices.tobytes()
    assert rows(shape, 300, part=1)[1].indices.tobytes() != a[1].indices.tobytes()


def test_sizes_that_do_not_divide() -> None:
    for n_labels in (2, 31, 33, 100):
        x, y = rows(Shape(64, n_labels, noise=1.0), 50)
        assert y.indices.max() < n_labels and np.all(np.diff(y.indptr) >= 1)
        assert np.isfinite(x.values).all()


def test_test_rows_follow_from_training_rows() -> None:
    shape = Shape(2000, 200, noise=0.0)
    x, y = rows(shape, 4000)
    test_x, test_y = rows(shape, 500, part=1)
    centroids = (y.to_scipy().T @ x.to_scipy()).toarray()
    centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-9)
    best = np.asarray(test_x.to_scipy() @ centroids.T).argmax(1)
    right = np.mean(
        [label in test_y.indices[a:b] for label, a, b in zip(best, test_y.indptr, test_y.indptr[1:], strict=False)]
    )
    assert right > 0.5  # chance is about 2 %
