# SPDX-License-Identifier: MIT
"""The border to C: pointer checks, every error a caller can cause, what is left after one, and the memory plan."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from direct import Index, Model, batch, c_options, features, labels, small
from reference import ADAGRAD, ADAM, BATCH, BCE, FULL, LSH, ROW, SGD, SOFTMAX

from xcl import native
from xcl.errors import ResourceError, UserError, WorkError
from xcl.native import Engine, check, ffi, lib, pointer

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def engine():
    return Engine(2)


def row(*ids, values=None):
    return np.array(ids, np.int64), np.array([1.0] * len(ids) if values is None else values, np.float32)


# ---- the header ----


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "cc"])
def test_the_header_compiles_alone(compiler, language):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    header = Path(__file__).parent.parent / "native" / "include" / "xcl.h"
    standard = {"c": "c11", "c++": "c++11"}[language]
    flags = f"-x {language} -std={standard} -Wall -Wextra -Wpedantic -Werror -fsyntax-only -".split()
    text = f'#include "{header}"\nint main(void) {{ return xcl_model_options_default().trainable - 1; }}\n'
    done = subprocess.run([compiler, *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- the Python side ----


def test_pointer_refuses_what_cffi_takes():
    assert pointer(None, np.float32) == ffi.NULL
    assert pointer(np.zeros(0, np.int32), np.int32) == ffi.NULL
    with pytest.raises(TypeError, match="expected float32, got int32"):
        pointer(np.zeros(3, np.int32), np.float32)
    with pytest.raises(ValueError, match="not contiguous"):
        pointer(np.zeros((4, 4), np.float32)[:, 1], np.float32)
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    assert pointer(frozen, np.float32) != ffi.NULL
    with pytest.raises(ValueError, match="not writable"):
        pointer(frozen, np.float32, writable=True)


def test_view_is_the_memory_itself(engine):
    model = Model(engine, small())
    model.views()["output.bias"][3] = 42
    assert model.tensors()["output.bias"][3] == 42
    assert native.view(ffi.NULL, np.float32, (0, 5)).shape == (0, 5)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ARG", UserError),
        ("MEMORY", ResourceError),
        ("IO", UserError),
        ("FORMAT", UserError),
        ("ISA", UserError),
        ("STATE", RuntimeError),
        ("DIVERGED", WorkError),
    ],
)
def test_codes_and_exceptions(code, kind):
    check(lib.XCL_OK)
    with pytest.raises(kind):
        check(getattr(lib, f"XCL_ERR_{code}"))


def test_every_isa_listed_can_be_chosen():
    assert native.isa_list()[-1] == "portable"
    for isa in native.isa_list():
        assert Engine(1, isa).isa == isa
    assert Engine(3).threads == 3


def test_engine_errors(monkeypatch):
    for threads in (0, -1, 1025):
        with pytest.raises(UserError, match=f"threads: {threads} is not in 1..1024"):
            Engine(threads)
    with pytest.raises(UserError, match=r"instruction set 'sse9' is not one of those usable here: .*portable"):
        Engine(1, "sse9")
    monkeypatch.setenv("XCL_ISA", "portable")
    assert Engine(1).isa == "portable"
    monkeypatch.setenv("XCL_ISA", "abacus")
    with pytest.raises(UserError, match="abacus"):
        Engine(1)


# ---- options ----


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n_features": 0}, "features: 0"),
        ({"n_features": 2**31}, "features: 2147483648"),
        ({"n_labels": 0}, "labels: 0"),
        ({"n_labels": -5}, "labels: -5"),
        ({"hidden": []}, "hidden: 0 layers"),
        ({"n_hidden_layers": 9}, "hidden: 9 layers"),
        ({"hidden": [16, 0]}, "hidden: 0 units"),
        ({"hidden": [65537]}, "hidden: 65537 units"),
        ({"dropout": 1.0}, "dropout: 1"),
        ({"dropout": -0.5}, "dropout: -0.5"),
        ({"dropout": NAN}, "dropout: -?nan"),
        ({"input_dropout": 1.5}, "input_dropout: 1.5"),
        ({"loss": 2}, "loss: 2"),
        ({"optimizer": 3}, "optimizer: 3"),
        ({"optimizer": -1}, "optimizer: -1"),
        ({"beta1": 1.0}, "beta1"),
        ({"beta2": -1.0}, "beta2"),
        ({"beta2": NAN}, "beta2"),
        ({"epsilon": 0.0}, "epsilon: 0"),
        ({"epsilon": INF}, "epsilon: inf"),
        ({"init_scale": INF}, "init"),
        ({"output_scale": NAN}, "output"),
        ({"output_bias": -INF}, "bias"),
        ({"sampler": 3}, "sampler: 3"),
        ({"scope": 2}, "scope: 2"),
        ({"n_active": -1}, "active: -1"),
        ({"rehash_rows": -1}, "rehash_rows"),
        ({"rebuild_rows": -1}, "rebuild_rows"),
        ({"rehash_growth": -1.0}, "rehash_growth: -1"),
        ({"rehash_growth": NAN}, "rehash_growth"),
        ({"sampler": LSH, "index": {"n_tables": 0}}, "tables: 0"),
        ({"sampler": LSH, "index": {"hashes_per_table": 17}}, "hashes_per_table: 17"),
        ({"sampler": LSH, "index": {"kind": 7}}, "kind: 7"),
    ],
    ids=str,
)
def test_bad_options_are_named(engine, changes, word):
    o = small(**changes)
    with pytest.raises(UserError, match=word):
        Model(engine, o)
    with pytest.raises(UserError, match=word):
        check(lib.xcl_model_plan(c_options(o), 1, 16, 5.0, 2.0, ffi.new("double[6]")))


# ---- training calls ----


def assert_refused(model, kind, word, call):
    """The call fails and leaves the model as it was: every block, and what it does next."""
    before = model.tensors(padded=True)
    with pytest.raises(kind, match=word):
        call()
    for name, block in model.tensors(padded=True).items():
        assert block.tobytes() == before[name].tobytes(), name


@pytest.fixture(params=[ROW, BATCH])
def model(engine, request):
    o = small(hidden=[17, 5], scope=request.param)
    model = Model(engine, o)
    model.train(*batch(np.random.default_rng(0), 9, o), 0.1)
    return model


GOOD = row(1, 2)
YES = np.array([3, 5])


@pytest.mark.parametrize(
    ("x", "y", "word"),
    [
        (row(30), YES, "row 1: feature 30 is not below 30"),
        (row(-1), YES, "row 1: feature -1"),
        (GOOD, np.array([60]), "row 1: label 60 is not below 60"),
        (GOOD, np.array([-1]), "row 1: label -1"),
        (GOOD, np.array([5, 3]), "row 1: label 3 does not ascend"),
        (GOOD, np.array([5, 5]), "row 1: label 5 does not ascend"),
    ],
    ids=str,
)
def test_ids_out_of_range(model, x, y, word):
    assert_refused(model, UserError, word, lambda: model.train([GOOD, x], [YES, y], 0.1))
    if "feature" in word and x[0][0] > 0:
        model.predict([x], 1)
        assert model.n_unknown == 1
    else:
        assert_refused(model, UserError, "label|feature", lambda: model.prototypes([GOOD, x], [YES, y], 0.1))


@pytest.mark.parametrize("bad", [-1, 2, 2**40])
def test_rows_that_do_not_exist(model, bad):
    x, y = [GOOD, GOOD], [YES, YES]
    assert_refused(model, UserError, f"row {bad} ", lambda: model.train(x, y, 0.1, rows=[0, bad]))
    assert_refused(model, UserError, "row 1 ", lambda: model.train(x, y[:1], 0.1))


def test_number_of_rows(model):
    for n in (0, -3, 2**24 + 1):
        out, c = ffi.new("xcl_step *"), features([GOOD])
        status = lib.xcl_model_train(model.handle, c.c, labels([YES]).c, ffi.NULL, n, 0.1, out)
        with pytest.raises(UserError, match=f"a batch of {n} rows"):
            check(status)
    unknown = ffi.new("int64_t *")
    assert lib.xcl_model_predict(model.handle, features([]).c, ffi.NULL, 0, 5, 0, ffi.NULL, ffi.NULL, unknown) == 0
    with pytest.raises(UserError, match="-1 rows"):
        check(lib.xcl_model_predict(model.handle, features([]).c, ffi.NULL, -1, 5, 0, ffi.NULL, ffi.NULL, unknown))
    with pytest.raises(UserError, match="row 1 is not one of 1"):
        check(lib.xcl_model_hidden(model.handle, features([GOOD]).c, ffi.NULL, 2, ffi.new("float[64]")))


def test_indptr_backwards(model):
    for broken in ("x", "y"):
        x, y = features([GOOD, GOOD, GOOD]), labels([YES, YES, YES])
        (x if broken == "x" else y).indptr[1:3] = [4, 2]
        assert_refused(model, UserError, "row 1", lambda x=x, y=y: model.train(x, y, 0.1))


@pytest.mark.parametrize("rate", [NAN, INF, -INF])
def test_learning_rate(model, rate):
    assert_refused(model, UserError, "learning rate", lambda: model.train([GOOD], [YES], rate))


def test_k(model):
    for k in (0, -1):
        with pytest.raises(UserError, match=f"k: {k} is below 1"):
            unknown = ffi.new("int64_t *")
            check(
                lib.xcl_model_predict(model.handle, features([GOOD]).c, ffi.NULL, 1, k, 0, ffi.NULL, ffi.NULL, unknown)
            )
    with pytest.raises(UserError, match="no hash tables"):
        model.predict([GOOD], 1, lsh=True)


def test_prototypes_without_rows(model):
    with pytest.raises(RuntimeError, match="no rows"):
        check(lib.xcl_model_prototypes_finish(model.handle, 1.0))


# ---- numbers that are not finite ----


@pytest.mark.parametrize("isa", native.isa_list())
@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("sampler", [FULL, LSH])
@pytest.mark.parametrize("value", [NAN, INF, -INF, 3e38])
def test_values_that_are_not_finite_stop_training(isa, loss, scope, sampler, value):
    """3e38 is finite, the sums with it are not. Dropout and ReLU may hide a value, but no weight takes it in."""
    o = small(hidden=[17, 5], loss=loss, scope=scope, sampler=sampler, optimizer=ADAM, dropout=0.3, init_scale=9)
    model = Model(Engine(1, isa), o)
    model.train(*batch(np.random.default_rng(0), 9, o), 0.1)
    x = [GOOD, row(*range(30), values=[value] * 30)]
    for y in ([YES, YES], [YES, YES[:0]], [YES[:0], YES[:0]]):
        assert_refused(model, WorkError, "value of feature 0|loss is -?(nan|inf)", lambda y=y: model.train(x, y, 0.1))
    model.train([GOOD], [YES], 0.1)
    assert all(np.isfinite(w).all() for w in model.tensors().values() if w.dtype == np.float32)


@pytest.mark.parametrize("isa", native.isa_list())
@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
@pytest.mark.parametrize("name", ["input.weight", "input.bias", "hidden.1.weight", "hidden.1.bias", "output.weight"])
@pytest.mark.parametrize("value", [NAN, INF])
def test_weights_that_are_not_finite_stop_training(isa, loss, scope, name, value):
    o = small(hidden=[17, 5], loss=loss, scope=scope, sampler=FULL)
    model = Model(Engine(1, isa), o)
    model.views()[name][...] = value
    assert_refused(model, WorkError, "loss is", lambda: model.train([GOOD, GOOD], [YES, YES], 0.1))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_scores_that_overflow_stop_training(engine, loss, scope):
    """Finite hidden units and finite weights, infinite scores; also in a batch without labels."""
    o = small(loss=loss, scope=scope, sampler=FULL)
    model = Model(engine, o)
    model.views()["input.bias"][...] = 1e20
    model.views()["output.weight"][...] = 1e20
    for y in ([YES], [YES[:0]]):
        assert_refused(model, WorkError, "loss is", lambda y=y: model.train([GOOD], y, 0.1))


@pytest.mark.parametrize("loss", [SOFTMAX, BCE])
@pytest.mark.parametrize("scope", [ROW, BATCH])
def test_a_hidden_unit_that_overflows_stops_training(engine, loss, scope):
    """Nothing above sees it: the weights from it are negative, so that every later unit answers 0."""
    o = small(loss=loss, scope=scope, sampler=FULL, hidden=[4, 5])
    model = Model(engine, o)
    model.views()["input.bias"][0, 2] = 3e38
    model.views()["input.weight"][1:3, 2] = 3e38
    model.views()["hidden.1.weight"][2] = -1
    assert_refused(model, WorkError, "loss is nan", lambda: model.train([GOOD], [YES], 0.1))


def test_a_huge_learning_rate_diverges_within_steps(engine):
    for loss in (SOFTMAX, BCE):
        for optimizer in (SGD, ADAGRAD, ADAM):
            o = small(loss=loss, optimizer=optimizer, scope=ROW)
            model = Model(engine, o)
            rng = np.random.default_rng(1)
            with pytest.raises(WorkError, match=r"the loss is .* at step \d+"):
                for _ in range(8):
                    model.train(*batch(rng, 16, o), 3e37)


# ---- states ----


def test_untrainable_models(engine):
    o = small(hidden=[17, 5])
    whole = Model(engine, o)
    tensors = whole.tensors(padded=True)
    weights = {name: block for name, block in tensors.items() if name.endswith(("weight", "bias"))}
    lent = Model(engine, small(hidden=[17, 5], trainable=0))
    assert list(lent.tensors()) == ["counters"]
    x, y = batch(np.random.default_rng(2), 5, o)
    for call in (lambda: lent.train(x, y, 0.1), lambda: lent.prototypes(x, y, 1.0)):
        with pytest.raises(RuntimeError, match="prediction only"):
            call()
    with pytest.raises(RuntimeError, match="not all weights are attached"):
        lent.predict(x, 3)
    with pytest.raises(RuntimeError, match="owns its weights"):
        whole.attach("input.weight", weights["input.weight"])
    for name, block in weights.items():
        with pytest.raises(UserError, match=name):
            lent.attach(name, block[:-1])
        if block.shape[1] > 1:
            with pytest.raises(UserError, match=name):
                lent.attach(name, np.ascontiguousarray(block[:, :-1]))
    for name in ("input", "hidden.0.weight", "hidden.2.weight", "output.weight.square", "x" * 500):
        with pytest.raises(UserError, match="no weights are called"):
            lent.attach(name, weights["input.weight"])
    for i, (name, block) in enumerate(weights.items()):
        with pytest.raises(RuntimeError, match="not all weights are attached"):
            lent.predict(x, 3)
        lent.attach(name, block)
        assert len(lent.tensors()) == i + 2
    assert np.array_equal(lent.predict(x, 3)[1], whole.predict(x, 3)[1])


def test_restoring_tables_without_weights(engine):
    lent = Model(engine, small(sampler=LSH, trainable=0))
    with pytest.raises(RuntimeError, match="output weights are not attached"):
        lent.restore_index()
    with pytest.raises(UserError, match="no hash tables"):
        whole = Model(engine, small(sampler=LSH))
        whole.predict([GOOD], 1, lsh=True)  # not built before the first step


def test_there_is_an_end_of_the_tensors(engine):
    model, t = Model(engine, small()), ffi.new("xcl_tensor *")
    for i in (-1, 99):
        with pytest.raises(UserError, match=f"there is no tensor {i}"):
            check(lib.xcl_model_get_tensor(model.handle, i, t))


def test_stats_of_a_model_without_tables(engine):
    s = Model(engine, small()).stats()
    assert s.n_ids == s.n_buckets == s.n_queries == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told(engine):
    """Where the workers do not exist, calls fail; they do not wait for ever. Freeing works."""
    o = small(sampler=LSH)
    x, y = batch(np.random.default_rng(3), 5, o)
    model, index = Model(engine, o), Index(engine, 17)
    rows = np.zeros((5, 17), np.float32)
    index.build(rows)
    cx, cy = features(x), labels(y)
    numbers = np.arange(5)
    check(lib.xcl_model_prototypes_add(model.handle, cx.c, cy.c, pointer(numbers, np.int64), 5))
    child = os.fork()
    if child == 0:
        calls = [
            lambda: model.train(x, y, 0.1),
            lambda: model.predict(x, 1),
            lambda: model.hidden(x),
            lambda: model.prototypes(x, y, 1.0),
            lambda: check(lib.xcl_model_prototypes_finish(model.handle, 1.0)),
            lambda: index.build(rows),
            lambda: index.query(rows, 3),
            lambda: Model(engine, o),
        ]
        told = 0
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                told += "created in another process" in str(error)
        for handle, free in ((model.handle, lib.xcl_model_free), (index.handle, lib.xcl_index_free)):
            ffi.gc(handle, None)
            free(handle)
        own = Model(Engine(2), o)  # an engine of its own works
        own.train(x, y, 0.1)
        os._exit(0 if told == len(calls) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_null_handles_can_be_freed():
    for free in (lib.xcl_engine_free, lib.xcl_model_free, lib.xcl_index_free):
        free(ffi.NULL)


def test_error_text_belongs_to_the_thread(engine):
    import threading

    seen = []

    def other():
        with pytest.raises(UserError, match="threads: 0"):
            Engine(0)
        seen.append(native.text(lib.xcl_error_text()))

    with pytest.raises(UserError, match="k: 0"):
        Model(engine, small()).predict([GOOD], 0)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "threads: 0" in seen[0] and "k: 0" in native.text(lib.xcl_error_text())


# ---- memory ----


@pytest.mark.parametrize(
    "changes",
    [
        {"n_features": 2**31 - 1, "hidden": [65536]},
        {"n_labels": 2**31 - 1, "hidden": [65536]},
        {"n_labels": 2**31 - 1, "hidden": [65536], "optimizer": ADAM},
        {"n_labels": 2**31 - 1, "n_features": 2**31 - 1, "hidden": [65536] * 8},
    ],
    ids=str,
)
def test_sizes_beyond_any_memory_are_refused(engine, changes):
    o = small(**changes)
    with pytest.raises(ResourceError, match="cannot allocate"):
        Model(engine, o)


def test_an_index_beyond_any_memory_is_refused(engine):
    with pytest.raises(ResourceError, match="cannot allocate"):
        Index(engine, 2**31 - 1, kind=1, n_tables=4096, hashes_per_table=16)
    index = Index(engine, 4, n_tables=4096, hashes_per_table=16)
    with pytest.raises(ResourceError, match="hash tables over"):
        check(lib.xcl_index_build(index.handle, ffi.new("float[16]"), 2**31 - 1, 16, 0))
    with pytest.raises(UserError, match="too large"):
        check(lib.xcl_index_build(index.handle, ffi.new("float[16]"), 2**31, 16, 0))
    assert index.stats().n_ids == 0


def in_a_process(script, *arguments):
    """Output of a script that measures or limits its own memory."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_batch_beyond_memory_is_refused_and_the_model_goes_on(engine):
    """Memory is limited in a process of its own; the batch does not fit, a smaller one then does."""
    script = """
import resource, sys
import numpy as np
from direct import Model, small
from xcl.native import Engine
from xcl.errors import ResourceError
o = small(hidden=[2048])
model = Model(Engine(1), o)
row = (np.array([1]), np.ones(1, np.float32))
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
try:
    model.train([row] * 20000, [np.array([1])] * 20000, 0.1)
except ResourceError as error:
    assert "cannot allocate" in str(error)
    model.train([row] * 10, [np.array([1])] * 10, 0.1)
    print("refused")
"""
    assert in_a_process(script) == "refused"


GROWTH = """
import json, sys
import numpy as np
from direct import Csr, Model, c_options, options
from xcl.native import Engine, check, ffi, lib

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

n_rows, n_row_features, n_row_labels, changes = json.loads(sys.argv[1])
o, rng = options(**changes), np.random.default_rng(0)
def rows(n, m):  # m of n, one in each m-th part
    return [np.arange(m) * (n // m) + rng.integers(0, n // m, m) for _ in range(n_rows)]
x = Csr([(ids, np.ones(n_row_features)) for ids in rows(o.n_features, n_row_features)], True)
y = Csr(rows(o.n_labels, n_row_labels), False)
parts = ffi.new("double[6]")
check(lib.xcl_model_plan(c_options(o), 2, n_rows, n_row_features, n_row_labels, parts))
engine = Engine(2)
Model(engine, options())
before = resident()
model = Model(engine, o)
for _ in range(3):
    model.train(x, y, 0.01)
print(parts[5], resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("n_rows", "n_row_features", "n_row_labels", "changes"),
    [
        (64, 20, 3, {"n_features": 50000, "n_labels": 80000, "hidden": [128], "optimizer": ADAM}),
        (512, 50, 5, {"n_features": 2000, "n_labels": 30000, "hidden": [100, 256], "n_active": 9000, "optimizer": SGD}),
        (256, 20, 3, {"n_features": 2000, "n_labels": 150000, "hidden": [64], "n_active": 2000, "scope": ROW}),
        (256, 20, 3, {"n_features": 2000, "n_labels": 90000, "hidden": [64], "sampler": LSH, "rehash_rows": 256}),
    ],
    ids=["adam", "batch", "row", "lsh"],
)
def test_plan_is_what_a_run_takes(n_rows, n_row_features, n_row_labels, changes):
    out = in_a_process(GROWTH, json.dumps([n_rows, n_row_features, n_row_labels, changes]))
    planned, taken = map(float, out.split())
    assert taken > 50e6  # large enough that other memory of the process does not count
    assert 0.9 < planned / taken < 1.1
