# SPDX-License-Identifier: MIT
"""The C API with as little between as possible, for tests of the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from xcl import native
from xcl.native import check, ffi, lib, pointer

Rows = list[tuple[np.ndarray, np.ndarray]]
INDEX_FIELDS = [name for name, _ in ffi.typeof("xcl_index_options").fields]


def options(**changes: Any) -> SimpleNamespace:
    """Model options as Python values, C's defaults where not changed; `index` takes a dict."""
    c = lib.xcl_model_options_default()
    o = SimpleNamespace(**{name: getattr(c, name) for name, _ in ffi.typeof("xcl_model_options").fields})
    o.hidden = [c.hidden[i] for i in range(c.n_hidden_layers)]
    o.index = SimpleNamespace(**{name: getattr(c.index, name) for name in INDEX_FIELDS})
    vars(o.index).update(changes.pop("index", {}))
    unknown = set(changes) - set(vars(o))
    assert not unknown, unknown
    vars(o).update(changes)
    o.n_hidden_layers = changes.get("n_hidden_layers", len(o.hidden))
    return o


SMALL = {
    "n_features": 30,
    "n_labels": 60,
    "hidden": [17],
    "n_active": 9,
    "init_scale": 0.5,
    "output_scale": 0.2,
    "output_bias": -1.0,
    "epsilon": 1e-3,
    "index": {"n_tables": 6, "hashes_per_table": 2, "seed": 5},
    "rehash_rows": 20,
    "rebuild_rows": 40,
}


def small(**changes: Any) -> SimpleNamespace:
    """A small model whose every part is at work."""
    return options(**{**SMALL, **changes})


def c_options(o: SimpleNamespace) -> Any:
    c = ffi.new("xcl_model_options *")
    for name, value in vars(o).items():
        if name == "hidden":
            for i, width in enumerate(value):
                c.hidden[i] = width
        elif name == "index":
            fill(c.index, value)
        else:
            setattr(c, name, value)
    return c


def fill(c: Any, values: SimpleNamespace) -> None:
    for name, value in vars(values).items():
        setattr(c, name, value)


class Csr:
    """A C view of rows; keeps the arrays alive."""

    def __init__(self, rows: list[np.ndarray] | Rows, values: bool) -> None:
        ids = [row[0] if values else row for row in rows]
        self.indptr = np.concatenate([[0], np.cumsum([len(i) for i in ids])]).astype(np.int64)
        self.indices = np.concatenate([*ids, np.zeros(0)]).astype(np.int32)
        self.values = np.concatenate([*(row[1] for row in rows), np.zeros(0)]).astype(np.float32) if values else None
        self.c = ffi.new("xcl_csr *")
        self.c.n_rows = len(rows)
        self.c.indptr = pointer(self.indptr, np.int64)
        self.c.indices = pointer(self.indices, np.int32)
        self.c.values = pointer(self.values, np.float32)


def features(rows: Rows) -> Csr:
    return Csr(rows, True)


def labels(rows: list[np.ndarray]) -> Csr:
    return Csr(rows, False)


class Model:
    """A handle of the engine; arrays in, arrays out."""

    def __init__(self, engine: native.Engine, o: SimpleNamespace) -> None:
        self.engine, self.o = engine, o
        out = ffi.new("xcl_model **")
        check(lib.xcl_model_create(engine.handle, c_options(o), out))
        self.handle = ffi.gc(out[0], lib.xcl_model_free)

    def tensors(self, padded: bool = False) -> dict[str, np.ndarray]:
        """Copies of all blocks, by name."""
        return {name: view.copy() for name, view in self.views(padded).items()}

    def views(self, padded: bool = False) -> dict[str, np.ndarray]:
        out, t, i = {}, ffi.new("xcl_tensor *"), 0
        while lib.xcl_model_get_tensor(self.handle, i, t) == lib.XCL_OK:
            block = native.view(t.data, native.DTYPES[t.type], (t.n_rows, t.stride))
            out[native.text(t.name)] = block if padded else block[:, : t.n_cols]
            i += 1
        return out

    def train(self, x: Rows | Csr, y: list[np.ndarray] | Csr, rate: float, rows: Any = None) -> Any:
        x = x if isinstance(x, Csr) else features(x)
        y = y if isinstance(y, Csr) else labels(y)
        rows = np.arange(x.c.n_rows) if rows is None else np.asarray(rows, np.int64)
        out = ffi.new("xcl_step *")
        check(lib.xcl_model_train(self.handle, x.c, y.c, pointer(rows, np.int64), len(rows), rate, out))
        return out

    def predict(self, x: Rows, k: int, lsh: bool = False) -> tuple[np.ndarray, np.ndarray]:
        c = features(x)
        ids, scores = np.zeros((len(x), k), np.int32), np.zeros((len(x), k), np.float32)
        unknown = ffi.new("int64_t *")
        check(
            lib.xcl_model_predict(
                self.handle, c.c, ffi.NULL, len(x), k, lsh, pointer(ids, np.int32), pointer(scores, np.float32), unknown
            )
        )
        self.n_unknown = unknown[0]
        return ids, scores

    def hidden(self, x: Rows) -> np.ndarray:
        out = np.zeros((len(x), self.o.hidden[-1]), np.float32)
        c = features(x)
        check(lib.xcl_model_hidden(self.handle, c.c, ffi.NULL, len(x), pointer(out, np.float32)))
        return out

    def prototypes(self, x: Rows, y: list[np.ndarray], scale: float, calls: int = 1) -> None:
        cx, cy = features(x), labels(y)
        for rows in np.array_split(np.arange(len(x)), calls):
            check(lib.xcl_model_prototypes_add(self.handle, cx.c, cy.c, pointer(rows, np.int64), len(rows)))
        check(lib.xcl_model_prototypes_finish(self.handle, scale))

    def set_offsets(self, offsets: np.ndarray | None) -> None:
        check(lib.xcl_model_set_offsets(self.handle, pointer(offsets, np.float32)))

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Overwrite all blocks (with padding) and rebuild what is derived."""
        for name, view in self.views(padded=True).items():
            view[...] = tensors[name]
        self.restore_index()

    def restore_index(self) -> None:
        check(lib.xcl_model_restore(self.handle))

    def attach(self, name: str, block: np.ndarray) -> None:
        """Lend weights (n_rows, stride) to an untrainable model."""
        check(lib.xcl_model_attach(self.handle, name.encode(), pointer(block, np.float32), *block.shape))
        self.lent = {**getattr(self, "lent", {}), name: block}

    def stats(self, reset: bool = False) -> Any:
        out = ffi.new("xcl_index_stats *")
        lib.xcl_model_get_index_stats(self.handle, reset, out)
        return out


class Index:
    """Tables over the rows of a matrix."""

    def __init__(self, engine: native.Engine, n_dims: int, **changes: Any) -> None:
        self.o = options(index=changes).index
        self.engine = engine
        c, out = ffi.new("xcl_index_options *"), ffi.new("xcl_index **")
        fill(c, self.o)
        check(lib.xcl_index_create(engine.handle, c, n_dims, out))
        self.handle = ffi.gc(out[0], lib.xcl_index_free)

    def build(self, data: np.ndarray, generation: int = 0) -> None:
        check(lib.xcl_index_build(self.handle, pointer(data, np.float32), *data.shape, generation))

    def query(self, v: np.ndarray, max_ids: int, counter: int = 0) -> list[list[int]]:
        ids, n = np.full((len(v), max_ids), -7, np.int32), np.zeros(len(v), np.int64)
        queries, out, counts = pointer(v, np.float32), pointer(ids, np.int32), pointer(n, np.int64)
        check(lib.xcl_index_query(self.handle, queries, *v.shape, counter, max_ids, out, counts))
        for row, count in zip(ids, n, strict=True):
            assert count == max_ids or row[count] == -1
        return [row[:count].tolist() for row, count in zip(ids, n, strict=True)]

    def hash(self, v: np.ndarray, query: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Codes (n, T) and addresses (n, L)."""
        codes = np.zeros((len(v), self.o.n_tables * self.o.hashes_per_table), np.int32)
        addresses = np.zeros((len(v), self.o.n_tables), np.uint64)
        out = pointer(codes, np.int32), pointer(addresses, np.uint64)
        check(lib.xcl_index_hash(self.handle, pointer(v, np.float32), *v.shape, query, *out))
        return codes, addresses

    def stats(self, reset: bool = False) -> Any:
        out = ffi.new("xcl_index_stats *")
        lib.xcl_index_get_stats(self.handle, reset, out)
        return out


def batch(rng: np.random.Generator, n_rows: int, o: SimpleNamespace, most: int = 6) -> tuple[Rows, list[np.ndarray]]:
    """Random rows: 0 to `most` features and 0 to 3 labels each."""
    x, y = [], []
    for _ in range(n_rows):
        n = rng.integers(0, min(most, o.n_features) + 1)
        ids = np.sort(rng.choice(o.n_features, n, replace=False))
        x.append((ids, rng.normal(size=n).astype(np.float32)))
        y.append(np.sort(rng.choice(o.n_labels, rng.integers(0, min(3, o.n_labels) + 1), replace=False)))
    return x, y
