# SPDX-License-Identifier: MIT
"""The engine's training step and prediction against tests/reference.py, tensor by tensor."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from direct import Model, batch, c_options, features, small
from reference import ADAGRAD, ADAM, BATCH, BCE, FULL, LSH, RANDOM, ROW, SGD, SOFTMAX, Reference, prototypes, shuffle

from xcl.errors import UserError
from xcl.native import Engine, check, ffi, isa_list, lib, pointer

EPS = 2.0**-24
ISAS = isa_list()
NO_FEATURES = (np.zeros(0, np.int64), np.zeros(0, np.float32))
NO_LABELS = np.zeros(0, np.int64)


@pytest.fixture(scope="module", params=ISAS)
def engine(request):
    return Engine(2, request.param)


def assert_close(name, got, want, step):
    """Equal but for the rounding of some hundred terms, by the largest entry, at least 1 for weights.

    The worst seen is 16 units.
    """
    scale = np.abs(want).max(initial=0)
    if name.rpartition(".")[2] in ("weight", "bias"):
        scale = max(scale, 1.0)
    bound = 40 * EPS * (step + 1) * scale
    worst = np.abs(got - want).max(initial=0)
    assert worst <= bound, f"{name} after step {step + 1}: {worst:.3g} apart, not {bound:.3g}"


def run(engine, o, batches, rate=0.1, offsets=None):
    """Train both on the same batches and compare all there is after each step."""
    reference, model = Reference(o), Model(engine, o)
    if offsets is not None:
        model.set_offsets(offsets)
        reference.offsets += offsets
    n_rows_seen = 0
    for step, (x, y) in enumerate(batches):
        want, got = reference.train(x, y, rate), model.train(x, y, rate)
        n_rows_seen += len(x)
        assert got.loss == pytest.approx(want.loss, rel=30 * EPS * (step + 1), abs=30 * EPS * (step + 1))
        counts = (len(x), want.n_active, want.n_union, want.n_features, sum(map(len, y)), want.rehashed)
        assert (got.n_rows, got.n_active, got.n_union, got.n_features, got.n_labels, got.rehashed) == counts
        assert (got.n_labels_found, got.n_candidates) == (reference.n_found, reference.n_met)
        tensors = model.tensors()
        for name, w in reference.w.items():
            assert_close(name, tensors[name], w, step)
            for suffix, state in reference.state[name].items():
                assert_close(f"{name}.{suffix}", tensors[f"{name}.{suffix}"], state, step)
        assert tensors["counters"][0, :2].tolist() == [step + 1, n_rows_seen]
    for name, block in model.views(padded=True).items():
        n_cols = tensors[name].shape[1]
        assert not block[:, n_cols:].any(), f"{name}: padding is not zero"
    return reference, model


def batches_for(o, n_rows=9, steps=1, seed=0):
    rng = np.random.default_rng(seed)
    return [batch(rng, n_rows, o) for _ in range(steps)]


def test_initial_weights_are_the_same_floats(engine):
    o = small(hidden=[17, 5, 3])
    tensors = Model(engine, o).tensors()
    for name, w in Reference(o).w.items():
        assert np.array_equal(tensors[name], w.astype(np.float32)), name


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ADAM])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
def test_five_steps(engine, loss, optimizer, scope, sampler):
    o = small(loss=loss, optimizer=optimizer, scope=scope, sampler=sampler, dropout=0.3, input_dropout=0.2)
    run(engine, o, batches_for(o, steps=5))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_offsets(engine, loss, scope):
    """They move the scores in training; prediction does not see them; NULL takes them away."""
    o = small(loss=loss, scope=scope)
    offsets = np.random.default_rng(1).normal(size=60).astype(np.float32)
    reference, model = run(engine, o, batches_for(o, steps=3), offsets=offsets)
    x, y = batches_for(o, seed=4)[0]
    want = reference.predict(x, 60)[1]
    assert np.abs(model.predict(x, 60)[1] - want).max() < 120 * EPS * np.abs(want).max()
    model.set_offsets(None)
    reference.offsets[:] = 0
    assert model.train(x, y, 0.1).loss == pytest.approx(reference.train(x, y, 0.1).loss, rel=120 * EPS)


@pytest.mark.parametrize("hidden", [[1], [16], [5, 17], [17, 5], [15, 16, 17], [1, 1, 1], [3] * 8])
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ADAM])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_layers(engine, hidden, optimizer, scope):
    o = small(hidden=hidden, optimizer=optimizer, scope=scope, dropout=0.25)
    run(engine, o, batches_for(o, steps=2))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
@pytest.mark.parametrize("hidden", [[48], [7, 96]])
@pytest.mark.parametrize("n_rows", [1, 17])
def test_members(engine, loss, sampler, hidden, n_rows):
    """Three parts of the last layer, each with a loss of its own; prediction takes the mean of their scores."""
    o = small(loss=loss, sampler=sampler, hidden=hidden, n_members=3, dropout=0.3, scope=BATCH)
    reference, model = run(engine, o, batches_for(o, n_rows, steps=3))
    x, _ = batches_for(o, seed=4)[0]
    want = reference.scores(x)
    ids, got = model.predict(x, 60)
    assert np.abs(got - np.take_along_axis(want, ids, 1)).max() < 120 * EPS * np.abs(want).max()


def test_a_member_learns_what_a_model_of_its_width_learns():
    """That holds for the reference; the engine is compared with it above."""
    o = small(hidden=[32], n_members=2, n_active=60, optimizer=SGD)
    two = Reference(o)
    ones = [Reference(small(hidden=[16], n_active=60, optimizer=SGD)) for _ in range(2)]
    for i, one in enumerate(ones):
        own = slice(16 * i, 16 * (i + 1))
        for name in ("input.weight", "input.bias", "output.weight"):
            one.w[name] = two.w[name][:, own].copy()
    for x, y in batches_for(o, steps=3):
        for r in (two, *ones):
            r.w["output.bias"][:] = 0
            r.train(x, y, 0.1)
    joined = np.concatenate([one.w["output.weight"] for one in ones], axis=1)
    assert np.allclose(two.w["output.weight"], joined, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "changes", [{"hidden": [48], "n_members": 2}, {"n_members": 0}, {"hidden": [32], "n_members": 2, "scope": ROW}]
)
def test_members_that_do_not_fit(engine, changes):
    with pytest.raises(UserError, match="members"):
        Model(engine, small(**changes))


@pytest.mark.parametrize("n_hidden", [1, 7, 15, 16, 17, 127, 129])
@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 33])
def test_sizes(engine, n_hidden, n_rows):
    for loss, scope in itertools.product([SOFTMAX, BCE], [ROW, BATCH]):
        o = small(hidden=[n_hidden], loss=loss, scope=scope, init_scale=0.2, output_scale=0.1)
        run(engine, o, batches_for(o, n_rows))


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("policy", range(3))
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("random_fill", [0, 1])
def test_lsh(kind, policy, scope, random_fill):
    index = {"kind": kind, "policy": policy, "n_tables": 5, "hashes_per_table": 2, "min_count": 2, "seed": 3}
    o = small(sampler=LSH, scope=scope, random_fill=random_fill, index=index, rehash_growth=0.3, rebuild_rows=50)
    run(Engine(2), o, batches_for(o, steps=10))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize(
    "changes",
    [
        {"n_labels": 1, "n_active": 0},
        {"n_labels": 1, "sampler": FULL},
        {"n_features": 1},
        {"n_active": 10**12},
        {"n_active": 0},
        {"n_active": 20},
        {"n_active": 21},
        {"n_active": 55, "sampler": LSH, "random_fill": 0},
        {"n_active": 0, "sampler": LSH},
        {"n_labels": 700, "sampler": FULL},
        {"n_labels": 65, "n_active": 20},
    ],
    ids=str,
)
def test_extreme_shapes(engine, loss, scope, changes):
    o = small(loss=loss, scope=scope, **changes)
    run(engine, o, batches_for(o, steps=2))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
def test_extreme_rows(engine, loss, scope, sampler):
    """Nothing in a row, everything in a row, one label on every row."""
    o = small(loss=loss, scope=scope, sampler=sampler)
    rng = np.random.default_rng(1)
    x, _ = batch(rng, 9, o)
    one = [np.array([7])] * 9
    everything = [np.arange(60)] * 9
    full_row = (np.arange(30), rng.normal(size=30).astype(np.float32))
    batches = [
        ([NO_FEATURES] * 9, one),
        (x, [NO_LABELS] * 9),
        ([NO_FEATURES], [NO_LABELS]),
        (x, one),
        (x, everything),
        ([full_row] * 9, one),
        ([NO_FEATURES, full_row, NO_FEATURES], [NO_LABELS, np.arange(60), NO_LABELS]),
    ]
    run(engine, o, batches)


def test_a_batch_of_chosen_rows_is_the_batch_of_these_rows(engine):
    o = small()
    rng = np.random.default_rng(2)
    x, y = batch(rng, 12, o)
    rows = [11, 3, 3, 0]
    a, b = Model(engine, o), Model(engine, o)
    a.train(x, y, 0.1, rows)
    b.train([x[i] for i in rows], [y[i] for i in rows], 0.1)
    for name, block in a.tensors().items():
        assert np.array_equal(block, b.tensors()[name]), name


def test_features_without_values_are_ones(engine):
    o = small()
    x, y = batch(np.random.default_rng(2), 12, o)
    bare = features(x)
    bare.c.values = ffi.NULL
    a, b = Model(engine, o), Model(engine, o)
    a.train(bare, y, 0.1)
    b.train([(ids, np.ones(len(ids))) for ids, _ in x], y, 0.1)
    for name, block in a.tensors().items():
        assert np.array_equal(block, b.tensors()[name]), name


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_instruction_sets_agree(loss, scope):
    o = small(loss=loss, scope=scope, hidden=[40, 33], optimizer=ADAM, dropout=0.2)
    models = [Model(Engine(1, isa), o) for isa in ISAS]
    for step, (x, y) in enumerate(batches_for(o, 20, steps=4)):
        for model in models:
            model.train(x, y, 0.1)
        first = models[0].tensors()
        for model in models[1:]:
            for name, block in model.tensors().items():
                if block.dtype == np.float32:
                    assert_close(f"{model.engine.isa} {name}", block, first[name], step)
                else:
                    assert np.array_equal(block, first[name]), name


# ---- the reference itself ----


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_reference_gradients_are_the_slopes_of_its_loss(loss, scope):
    o = small(
        n_features=6, n_labels=12, hidden=[5, 4], n_active=3, loss=loss, scope=scope, dropout=0.3, input_dropout=0.2
    )
    reference = Reference(o)
    rng = np.random.default_rng(3)
    for w in reference.w.values():  # away from the kinks at zero
        w += rng.normal(size=w.shape) * 0.3
    x, y = batch(rng, 5, o)
    trace = reference.trace(x, y)
    for name, w in reference.w.items():
        for at in np.ndindex(w.shape):
            kept, d = w[at], 1e-6
            w[at] = kept + d
            high = reference.trace(x, y, trace.active).loss
            w[at] = kept - d
            low = reference.trace(x, y, trace.active).loss
            w[at] = kept
            assert trace.gradients[name][at] == pytest.approx((high - low) / (2 * d), rel=1e-6, abs=1e-8), (name, at)


# ---- prediction, prototypes, order ----


def trained(engine, o, steps=4):
    model = Model(engine, o)
    for x, y in batches_for(o, 16, steps, seed=9):
        model.train(x, y, 0.1)
    return model


def reference_of(model):
    """The reference with the engine's present weights."""
    reference = Reference(model.o)
    tensors = model.tensors()
    reference.w = {name: tensors[name].astype(np.float64) for name in reference.w}
    return reference


@pytest.mark.parametrize("n_labels", [1, 5, 60, 64, 65, 5000])
@pytest.mark.parametrize("k", [1, 70])
def test_predict(engine, n_labels, k):
    o = small(n_labels=n_labels, hidden=[20], init_scale=1.0, output_scale=1.0)
    model = trained(engine, o)
    x, _ = batch(np.random.default_rng(4), 19, o)
    ids, scores = model.predict(x, k)
    all_scores = reference_of(model).scores(x)
    want_ids, want = reference_of(model).predict(x, k)
    n = min(k, n_labels)
    assert (ids[:, n:] == -1).all() and np.isneginf(scores[:, n:]).all()
    assert np.abs(scores[:, :n] - want[:, :n]).max() < 40 * EPS * np.abs(all_scores).max()
    # an id may differ from the reference's only where two scores agree to rounding
    own = np.take_along_axis(all_scores, ids[:, :n].astype(np.int64), axis=1)
    assert np.abs(own - want[:, :n]).max() < 40 * EPS * np.abs(all_scores).max()
    assert (ids == want_ids).mean() > 0.99
    assert all(len(set(row[:n])) == n for row in ids.tolist())


def test_predict_breaks_ties_by_label(engine):
    """Scores on a grid of few values, so that most are equal."""
    o = small(n_labels=5000, hidden=[1], init_scale=0, output_scale=0)
    model = Model(engine, o)
    views = model.views()
    rng = np.random.default_rng(5)
    views["output.bias"][:, 0] = rng.integers(0, 4, 5000)
    x = [NO_FEATURES] * 300
    for k in (1, 5, 100):
        ids, scores = model.predict(x, k)
        want_ids, want = reference_of(model).predict(x[:1], k)
        assert (ids == want_ids).all() and (scores == want).all()


def test_predict_counts_unknown_features(engine):
    o = small()
    model = trained(engine, o)
    known = (np.array([1, 4]), np.array([1.0, -2.0], np.float32))
    odd = (np.array([1, 4, 30, 99]), np.array([1.0, -2.0, 5.0, 6.0], np.float32))
    a, b = model.predict([known, known], 5), model.predict([odd, odd], 5)
    assert model.n_unknown == 4
    assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def test_hidden(engine):
    o = small(hidden=[9, 6], dropout=0.5, input_dropout=0.5)
    model = trained(engine, o)
    x, _ = batch(np.random.default_rng(6), 20, o)
    want = reference_of(model).forward(x, train=False)[0][-1]
    assert_close("hidden", model.hidden(x), want, 0)


def test_predict_with_tables_scores_what_they_return(engine):
    o = small(sampler=LSH, hidden=[16], rehash_rows=1)
    model = trained(engine, o)
    x, _ = batch(np.random.default_rng(7), 20, o)
    ids, scores = model.predict(x, 10, lsh=True)
    reference = reference_of(model)
    z = reference.scores(x)
    assert (ids >= 0).any() and (ids < 0).any()
    for row in range(len(x)):
        n = int((ids[row] >= 0).sum())
        assert np.isneginf(scores[row, n:]).all() and len(set(ids[row, :n])) == n
        assert np.abs(scores[row, :n] - z[row, ids[row, :n]]).max(initial=0) < 40 * EPS * np.abs(z).max()
        assert (np.diff(scores[row, :n]) <= 0).all()


def test_prototypes(engine):
    o = small(hidden=[20, 17], dropout=0.4, input_dropout=0.4)
    rng = np.random.default_rng(8)
    x, y = batch(rng, 40, o)
    y = [row[row < 50] for row in y]  # the last ten labels have no rows
    models = [Model(engine, o), Model(engine, o)]
    models[0].prototypes(x, y, 0.7)
    models[1].prototypes(x, y, 0.7, calls=5)
    hidden = Reference(o).forward(x, train=False)[0][-1]
    want = prototypes(hidden, y, o.n_labels, 0.7)
    assert not want[50:].any() and want[:50].any()
    for model in models:
        # a difference of means is divided by its length: their rounding grows by the ratio of the two
        got = model.tensors()["output.weight"]
        assert np.abs(got - want).max() < 200 * EPS
        assert_close("input.weight", model.tensors()["input.weight"], Reference(o).w["input.weight"], 0)


def test_prototypes_of_members(engine):
    """Each part of a label's weights is a prototype of its own."""
    o = small(hidden=[32], n_members=2)
    x, y = batch(np.random.default_rng(8), 40, o)
    model = Model(engine, o)
    model.prototypes(x, y, 0.7)
    hidden = Reference(o).forward(x, train=False)[0][-1]
    want = np.hstack([prototypes(part, y, o.n_labels, 0.7) for part in np.hsplit(hidden, 2)])
    assert np.abs(model.tensors()["output.weight"] - want).max() < 200 * EPS


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100])
def test_shuffle(n):
    for seed, epoch in [(1, 0), (1, 1), (2, 0), (2**64 - 1, 2**40)]:
        order = np.full(n, -1, np.int64)
        lib.xcl_shuffle(seed, epoch, n, pointer(order, np.int64))
        assert order.tolist() == shuffle(seed, epoch, n).tolist()


def test_shuffle_is_fair():
    """Every place sees every value about equally often: 6,000 shuffles of 6 against chi-square's 99.99 % point."""
    counts = np.zeros((6, 6))
    order = np.zeros(6, np.int64)
    for epoch in range(6000):
        lib.xcl_shuffle(7, epoch, 6, pointer(order, np.int64))
        counts[np.arange(6), order] += 1
    assert ((counts - 1000) ** 2 / 1000).sum() < 60.0  # 25 degrees of freedom


def test_learning(engine):
    """Rows that name their own label are learnt to the last one."""
    o = small(n_features=40, n_labels=40, hidden=[32], loss=BCE, output_bias=-3.0, n_active=10)
    x = [(np.array([i]), np.ones(1, np.float32)) for i in range(40)]
    y = [np.array([i * 7 % 40]) for i in range(40)]
    model = Model(engine, o)
    for _ in range(60):
        model.train(x, y, 0.3)
    assert model.predict(x, 1)[0][:, 0].tolist() == [int(row[0]) for row in y]


# ---- memory plan ----


def plan(o: SimpleNamespace, threads, n_rows, features, labels):
    parts = ffi.new("double[6]")
    check(lib.xcl_model_plan(c_options(o), threads, n_rows, features, labels, parts))
    return list(parts)


def test_plan_counts_the_weights_exactly(engine):
    for optimizer, hidden in itertools.product([SGD, ADAGRAD, ADAM], [[20], [16, 33]]):
        o = small(optimizer=optimizer, hidden=hidden, sampler=LSH)
        parts = plan(o, 2, 16, 5.0, 2.0)
        sizes = {}
        roles = {0: 0, 1: 1, 2: 2}
        t, i = ffi.new("xcl_tensor *"), 0
        model = Model(engine, o)
        while lib.xcl_model_get_tensor(model.handle, i, t) == 0:
            if t.role in roles and not ffi.string(t.name).endswith(b"changed"):
                part = roles[t.role]
                sizes[part] = sizes.get(part, 0) + t.n_rows * t.stride * 4
            i += 1
        bias_bytes = 4 * (sum((h + 15) // 16 * 16 for h in hidden))
        assert sizes[0] - parts[0] in (0, bias_bytes)
        assert parts[2] == sizes[2]
        assert parts[5] == sum(parts[:5])
