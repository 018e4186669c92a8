# SPDX-License-Identifier: MIT
"""The same bytes for any number of threads, after a restart at any step, and with predictions in between."""

import numpy as np
import pytest
from direct import Model, batch, small
from reference import ADAGRAD, ADAM, BATCH, BCE, FULL, LSH, RANDOM, ROW, SGD, SOFTMAX

from xcl.native import Engine, isa_list

STEPS = 6


def configuration(sampler, scope, optimizer=ADAGRAD, loss=BCE, **changes):
    base = {
        "n_features": 200,
        "n_labels": 900,
        "hidden": [33, 20],
        "n_active": 40,
        "dropout": 0.3,
        "input_dropout": 0.2,
    }
    return small(**{**base, "sampler": sampler, "scope": scope, "optimizer": optimizer, "loss": loss, **changes})


def batches(o, n_rows=40):
    rng = np.random.default_rng(3)
    return [batch(rng, n_rows, o) for _ in range(STEPS)]


def assert_same_bytes(a, b, what):
    assert a.keys() == b.keys()
    for name, block in a.items():
        assert block.tobytes() == b[name].tobytes(), f"{what}: {name}"


def train(model, data):
    return [model.train(x, y, 0.1).loss for x, y in data]


@pytest.mark.parametrize("isa", isa_list())
@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
def test_threads_do_not_change_a_byte(isa, sampler, scope, loss):
    o = configuration(sampler, scope, loss=loss)
    data = batches(o)
    models = [Model(Engine(n, isa), o) for n in (1, 2, 3, 4)]
    for x, y in data:
        steps = [model.train(x, y, 0.1) for model in models]
        tensors = [model.tensors(padded=True) for model in models]
        for n, (step, other) in enumerate(zip(steps[1:], tensors[1:], strict=True), 2):
            assert step.loss == steps[0].loss
            assert (step.n_labels_found, step.n_candidates) == (steps[0].n_labels_found, steps[0].n_candidates)
            assert_same_bytes(tensors[0], other, f"{n} threads")
    x, y = data[0]
    answers = [(*model.predict(x, 7), model.hidden(x)) for model in models]
    for answer in answers[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(answer, answers[0], strict=True))
    for model in models:
        model.prototypes(x, y, 0.5)
        assert_same_bytes(models[0].tensors(padded=True), model.tensors(padded=True), "prototypes")


@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ADAM])
def test_a_restart_at_any_step_goes_on_to_the_same_bytes(sampler, scope, optimizer):
    """rehash and rebuild fall on steps 1 to 5, so tables of each age are carried over."""
    o = configuration(sampler, scope, optimizer, rehash_rows=40, rebuild_rows=120, rehash_growth=0.2)
    data = batches(o)
    whole = Model(Engine(2), o)
    states, losses = [whole.tensors(padded=True)], []
    for x, y in data:
        losses += train(whole, [(x, y)])
        states.append(whole.tensors(padded=True))
    for stop in range(STEPS + 1):
        other = Model(Engine(1), o)
        train(other, data[:1])  # whatever it was before, it is overwritten
        other.restore(states[stop])
        assert train(other, data[stop:]) == losses[stop:]
        assert_same_bytes(other.tensors(padded=True), states[-1], f"restarted at step {stop}")


@pytest.mark.parametrize("sampler", [FULL, RANDOM, LSH])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_prediction_leaves_training_alone(sampler, scope):
    o = configuration(sampler, scope)
    data = batches(o)
    quiet, busy = Model(Engine(2), o), Model(Engine(2), o)
    rng = np.random.default_rng(4)
    for x, y in data:
        train(quiet, [(x, y)])
        train(busy, [(x, y)])
        queries, _ = batch(rng, 70, o)
        busy.predict(queries, 5)
        busy.hidden(queries)
        if sampler == LSH:
            busy.predict(queries, 5, lsh=True)
        assert_same_bytes(quiet.tensors(padded=True), busy.tensors(padded=True), "predicted")


def test_a_model_reopened_for_prediction_answers_alike():
    o = configuration(LSH, BATCH, rehash_rows=1)
    model = Model(Engine(2), o)
    train(model, batches(o))
    lent = Model(Engine(3), small(**{**vars(o), "index": vars(o.index), "trainable": 0}))
    for name, block in model.tensors(padded=True).items():
        if name.endswith(("weight", "bias")):
            lent.attach(name, block)
    queries, _ = batch(np.random.default_rng(5), 70, o)
    for got, want in zip(lent.predict(queries, 6), model.predict(queries, 6), strict=True):
        assert np.array_equal(got, want)
    lent.restore_index()  # tables of generation 0
    ids, scores = lent.predict(queries, 6, lsh=True)
    exact_ids, exact = lent.predict(queries, 900)
    for row in range(70):
        known = dict(zip(exact_ids[row], exact[row], strict=True))
        found = [label for label in ids[row] if label >= 0]
        assert np.allclose(scores[row, : len(found)], [known[label] for label in found], rtol=1e-5, atol=1e-5)
