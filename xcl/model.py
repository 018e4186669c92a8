# SPDX-License-Identifier: MIT
"""Class Model: owns the engine's handle; arrays in, arrays out.

d features, N labels, H units in the last hidden layer. Weights are float32; a row of weights stands stride floats
after the one before, the columns between H and stride are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from xcl import native
from xcl.dataset.csr import Csr
from xcl.native import Engine, check, ffi, lib, pointer

Role = Literal["weight", "optimizer", "index", "counter"]
_ROLES: tuple[Role, ...] = ("weight", "optimizer", "index", "counter")  # by xcl_role
_LOSSES = {"softmax": lib.XCL_LOSS_SOFTMAX, "bce": lib.XCL_LOSS_BCE}
_OPTIMIZERS = {"sgd": lib.XCL_OPTIMIZER_SGD, "adagrad": lib.XCL_OPTIMIZER_ADAGRAD, "adam": lib.XCL_OPTIMIZER_ADAM}
_SAMPLERS = {"full": lib.XCL_SAMPLER_FULL, "random": lib.XCL_SAMPLER_RANDOM}  # all others are hash families
_HASHES = {"dwta": lib.XCL_HASH_DWTA, "simhash": lib.XCL_HASH_SIMHASH, "doph": lib.XCL_HASH_DOPH}
_SCOPES = {"row": lib.XCL_SCOPE_ROW, "batch": lib.XCL_SCOPE_BATCH}
_POLICIES = {"vanilla": lib.XCL_POLICY_VANILLA, "topk": lib.XCL_POLICY_TOPK, "threshold": lib.XCL_POLICY_THRESHOLD}
_N_PHASES = int(lib.XCL_N_PHASES)


@dataclass(frozen=True)
class ModelOptions:
    """What the engine needs to know; the words are those of the config."""

    n_features: int
    n_labels: int
    hidden: tuple[int, ...]
    members: int = 1
    normalize: bool = False
    loss: str = "bce"
    dropout: float = 0.0
    input_dropout: float = 0.0
    optimizer: str = "adagrad"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    init_scale: float = 0.05
    output_scale: float = 0.01
    output_bias: float = 0.0
    seed: int = 1
    sampler: str = "random"
    scope: str = "batch"
    active: int = 1000
    random_fill: bool = True
    tables: int = 50
    hashes_per_table: int = 6
    packing: str = "base2"
    policy: str = "vanilla"
    min_count: int = 2
    rehash_rows: int = 0
    rebuild_rows: int = 0
    rehash_growth: float = 0.0
    trainable: bool = True

    @property
    def uses_tables(self) -> bool:
        """Whether labels are looked up in hash tables."""
        return self.sampler in _HASHES

    def to_c(self) -> Any:
        """The engine's struct."""
        out = ffi.new("xcl_model_options *", lib.xcl_model_options_default())
        out.n_hidden_layers = len(self.hidden)
        out.hidden[0 : len(self.hidden)] = list(self.hidden)
        out.n_members = self.members
        out.loss = _LOSSES[self.loss]
        out.optimizer = _OPTIMIZERS[self.optimizer]
        out.sampler = _SAMPLERS.get(self.sampler, lib.XCL_SAMPLER_LSH)
        out.scope = _SCOPES[self.scope]
        out.n_active = self.active
        out.index.kind = _HASHES.get(self.sampler, lib.XCL_HASH_DWTA)
        out.index.n_tables = self.tables
        out.index.hashes_per_table = self.hashes_per_table
        out.index.overlap_packing = self.packing == "overlap"
        out.index.policy = _POLICIES[self.policy]
        out.index.min_count = self.min_count
        out.index.seed = self.seed
        for name in (
            *("n_features", "n_labels", "normalize", "dropout", "input_dropout", "beta1", "beta2", "epsilon", "seed"),
            *("init_scale", "output_scale", "output_bias", "random_fill", "rehash_rows", "rebuild_rows"),
            *("rehash_growth", "trainable"),
        ):
            setattr(out, name, getattr(self, name))
        return out


@dataclass(frozen=True)
class Plan:
    """Bytes that a model and its steps will take, by part."""

    weights: float
    optimizer: float
    tables: float
    batch: float
    lookup: float

    @property
    def total(self) -> float:
        return self.weights + self.optimizer + self.tables + self.batch + self.lookup


def plan(options: ModelOptions, n_threads: int, batch_size: int, row_features: float, row_labels: float) -> Plan:
    """The memory of a model and of steps on batch_size rows with so many features and labels a row.

    Raises: UserError if an option is out of the engine's range.
    """
    parts = np.zeros(6, np.float64)
    out = ffi.cast("double *", parts.ctypes.data)
    check(lib.xcl_model_plan(options.to_c(), n_threads, batch_size, row_features, row_labels, out))
    return Plan(*(float(part) for part in parts[:5]))


@dataclass(frozen=True)
class Tensor:
    """A named block of a model. array: (n_rows, n_cols) view of the engine's memory, valid while the model is open."""

    name: str
    role: Role
    array: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What one training step did; see xcl_step in xcl.h."""

    loss: float
    n_rows: int
    n_active: int
    n_union: int
    n_labels: int
    n_labels_found: int
    n_candidates: int
    rehashed: int


@dataclass(frozen=True)
class IndexStats:
    """The hash tables, and how queries went since the counters were last reset; see xcl_index_stats in xcl.h."""

    ids_per_used_bucket: float
    largest_bucket: int
    empty_probes: float
    candidates_per_query: float


class Model:
    """A model in the engine's memory. Not for two threads at once.

    Raises: UserError if an option is out of range; ResourceError if memory does not suffice.
    """

    def __init__(self, engine: Engine, options: ModelOptions) -> None:
        self.engine = engine  # must outlive the handle
        self.options = options
        out = ffi.new("xcl_model **")
        check(lib.xcl_model_create(engine.handle, options.to_c(), out))
        self._handle = ffi.gc(out[0], lib.xcl_model_free)
        self._attached: list[npt.NDArray[np.float32]] = []
        self._lent: list[tuple[Csr, Any]] = []
        self._step = ffi.new("xcl_step *")

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine's memory now; views of tensors are invalid from here on."""
        ffi.release(self._handle)
        self._attached.clear()

    def train_step(self, x: Csr, y: Csr, rows: npt.NDArray[np.int64], learning_rate: float) -> Step:
        """One step on rows of x: (*, d) and y: (*, N).

        Raises: WorkError if the loss is not finite; UserError if an id is out of range.
        """
        step = self._step
        check(
            lib.xcl_model_train(
                self._handle, self._lend(x), self._lend(y), pointer(rows, np.int64), len(rows), learning_rate, step
            )
        )
        return Step(
            step.loss,
            step.n_rows,
            step.n_active,
            step.n_union,
            step.n_labels,
            step.n_labels_found,
            step.n_candidates,
            step.rehashed,
        )

    def phase_seconds(self) -> tuple[float, ...]:
        """Seconds of the last step by phase: embed, select, score, output, input, index."""
        return tuple(float(self._step.phase_seconds[i]) for i in range(_N_PHASES))

    def set_offsets(self, offsets: npt.NDArray[np.float32] | None) -> None:
        """What is added to each label's score in training only. offsets: (n_labels), copied; None: nothing."""
        check(lib.xcl_model_set_offsets(self._handle, pointer(offsets, np.float32)))

    def add_prototypes(self, x: Csr, y: Csr, rows: npt.NDArray[np.int64]) -> None:
        """Collect label prototypes from rows; call for all rows, then `finish_prototypes`, before training."""
        check(
            lib.xcl_model_prototypes_add(self._handle, self._lend(x), self._lend(y), pointer(rows, np.int64), len(rows))
        )

    def finish_prototypes(self, scale: float) -> None:
        """Take the prototypes, of length scale, as output weights."""
        check(lib.xcl_model_prototypes_finish(self._handle, scale))

    def predict(
        self, x: Csr, k: int, rows: npt.NDArray[np.int64] | None = None, lsh: bool = False
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], int]:
        """The k best labels of rows (None: all) of x, best first, equal scores by label id.

        lsh: score only what the tables return. Result: label ids and logits, both (n_rows, k), -1 and -infinity where
        there are fewer; and how many features were ignored because the model has none of that id.
        """
        n_rows = x.n_rows if rows is None else len(rows)
        ids, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
        n_unknown = ffi.new("int64_t *")
        if n_rows:
            check(
                lib.xcl_model_predict(
                    self._handle,
                    self._lend(x),
                    pointer(rows, np.int64),
                    n_rows,
                    k,
                    lsh,
                    pointer(ids, np.int32, writable=True),
                    pointer(scores, np.float32, writable=True),
                    n_unknown,
                )
            )
        return ids, scores, int(n_unknown[0])

    def hidden(self, x: Csr, rows: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float32]:
        """Hidden vectors (n_rows, H) of rows (None: all) of x, without dropout."""
        n_rows = x.n_rows if rows is None else len(rows)
        out = np.empty((n_rows, self.options.hidden[-1]), np.float32)
        if n_rows:
            target = pointer(out, np.float32, writable=True)
            check(lib.xcl_model_hidden(self._handle, self._lend(x), pointer(rows, np.int64), n_rows, target))
        return out

    def tensors(self) -> list[Tensor]:
        """All blocks. Those with role weight are the model, all together the state that training goes on from."""
        found: list[Tensor] = []
        out = ffi.new("xcl_tensor *")
        while lib.xcl_model_get_tensor(self._handle, len(found), out) == lib.XCL_OK:
            whole = native.view(out.data, native.DTYPES[out.type], (out.n_rows, out.stride))
            found.append(Tensor(native.text(out.name), _ROLES[out.role], whole[:, : out.n_cols]))
        return found

    def attach(self, name: str, array: npt.NDArray[np.float32]) -> None:
        """Use array: (n_rows, n_cols) as the weights called name of a model that is not trainable, for its life.

        Taken as it lies if its rows are whole cache lines, aligned to 64 bytes; else copied into rows that are.
        """
        n_rows, n_cols = array.shape
        stride = n_cols if n_cols == 1 else -(-n_cols // 16) * 16
        if stride != n_cols or array.ctypes.data % 64 or not array.flags.c_contiguous:
            array = _aligned_copy(array, stride)
        check(lib.xcl_model_attach(self._handle, name.encode(), pointer(array, np.float32), n_rows, stride))
        self._attached.append(array)

    def restore(self) -> None:
        """After tensors were overwritten or attached: rebuild what is derived from them."""
        check(lib.xcl_model_restore(self._handle))

    def index_stats(self, reset: bool = False) -> IndexStats:
        """State of the hash tables; zeros without tables."""
        out = ffi.new("xcl_index_stats *")
        lib.xcl_model_get_index_stats(self._handle, reset, out)
        return IndexStats(
            out.ids_per_used_bucket,
            out.largest_bucket,
            out.n_probes_empty / max(1, out.n_probes),
            out.n_candidates / max(1, out.n_queries),
        )

    def _lend(self, csr: Csr) -> Any:
        """The engine's struct for csr; both are kept, since a loop lends the same few matrices."""
        for known, struct in self._lent:
            if known is csr:
                return struct
        struct = ffi.new("xcl_csr *")
        struct.n_rows = csr.n_rows
        struct.indptr = pointer(csr.indptr, np.int64)
        struct.indices = pointer(csr.indices, np.int32)
        struct.values = pointer(csr.values, np.float32)
        self._lent = [*self._lent[-3:], (csr, struct)]
        return struct


def _aligned_copy(array: npt.NDArray[np.float32], stride: int) -> npt.NDArray[np.float32]:
    """Rows of stride floats, the first at a multiple of 64 bytes, filled up with zeros."""
    n_rows, n_cols = array.shape
    room = np.zeros(n_rows * stride + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    out = room[start : start + n_rows * stride].reshape(n_rows, stride)
    out[:, :n_cols] = array
    return out
