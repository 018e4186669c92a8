# SPDX-License-Identifier: MIT
"""The training step once more, slow and obvious, in float64: what the engine is compared with.

Written from native/include/xcl.h and native/src/rng.h, not from the engine's code. Rows are lists of (ids, values) for
features and lists of ids for labels; weights are arrays by the engine's tensor names. Letters: B rows, d features,
N labels, H units, T = L K hash functions. Hashes and tables are in reference_hash.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference_hash import Tables
from reference_rng import PURPOSE, below, half, normal, permutation, random, random_row, unit

SOFTMAX, BCE = 0, 1
SGD, ADAGRAD, ADAM = 0, 1, 2
ROW, BATCH = 0, 1
FULL, RANDOM, LSH = 0, 1, 2


def initial_weights(o: Any) -> dict[str, np.ndarray]:
    """First values of all weights; o: options named as in xcl_model_options."""
    sizes = list(o.hidden)
    w: dict[str, np.ndarray] = {
        "input.weight": normal_rows(o.seed, "init_input", range(o.n_features), sizes[0], o.init_scale),
        "input.bias": np.zeros((1, sizes[0])),
    }
    for layer in range(1, len(sizes)):
        scale = np.float32(np.sqrt(2.0 / sizes[layer - 1]))
        keys = [layer << 32 | i for i in range(sizes[layer - 1])]
        w[f"hidden.{layer}.weight"] = normal_rows(o.seed, "init_hidden", keys, sizes[layer], scale)
        w[f"hidden.{layer}.bias"] = np.zeros((1, sizes[layer]))
    w["output.weight"] = normal_rows(o.seed, "init_output", range(o.n_labels), sizes[-1], o.output_scale)
    w["output.bias"] = np.full((o.n_labels, 1), np.float32(o.output_bias), np.float64)
    return w


def normal_rows(seed: int, purpose: str, keys: Any, n: int, scale: float) -> np.ndarray:
    rows = [np.float32(scale) * normal(random_row(seed, PURPOSE[purpose], a, n)) for a in keys]
    return np.array(rows, np.float64)


@dataclass
class Trace:
    """What one step computed: the loss, the active sets and the gradients before the optimiser."""

    loss: float
    active: list[np.ndarray]  # sorted label ids, by row
    gradients: dict[str, np.ndarray]
    touched: dict[str, np.ndarray]  # rows of each tensor that the optimiser visits
    n_active: int = 0
    n_union: int = 0
    n_features: int = 0
    rehashed: int = 0
    hidden: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Reference:
    """A model with its optimiser state; `o` holds the names of xcl_model_options."""

    def __init__(self, o: Any) -> None:
        self.o = o
        self.w = initial_weights(o)
        self.step_number = self.n_rows_seen = 0
        self.offsets = np.zeros(o.n_labels)  # added to scores in training only
        self.tables: Tables | None = None
        self.generation = self.n_rehashes = self.next_rehash = self.next_rebuild = 0
        self.n_found = self.n_met = 0
        self.state = {name: new_state(o.optimizer, w) for name, w in self.w.items()}
        self.n_layers = len(o.hidden)

    # ---- forward ----

    def layer_names(self) -> list[str]:
        return ["input"] + [f"hidden.{i}" for i in range(1, self.n_layers)]

    def inputs(self, x: list[tuple[np.ndarray, np.ndarray]], train: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Features that stay after input dropout, scaled by 1 / (1 - p)."""
        p = np.float32(self.o.input_dropout)
        if not train or p == 0:
            return x
        out = []
        for row, (ids, values) in enumerate(x):
            bits = [random(self.o.seed, PURPOSE["input_dropout"], self.step_number, row << 32 | int(j)) for j in ids]
            keep = np.array([unit(b) >= p for b in bits], bool)
            out.append((ids[keep], values[keep] / (1.0 - float(p))))
        return out

    def mask(self, layer: int, n_rows: int, n_units: int, train: bool) -> np.ndarray:
        """Hidden dropout: 0 or 1 / (1 - p)."""
        p = float(np.float32(self.o.dropout))
        if not train or p == 0:
            return np.ones((n_rows, n_units))
        key, bound = self.step_number << 8 | layer, int(p * 2**32)
        kept = np.zeros((n_rows, n_units))
        for row in range(n_rows):
            for u in range(n_units):
                bits = random(self.o.seed, PURPOSE["dropout"], key, row << 32 | u >> 1)
                kept[row, u] = half(bits, u & 1) >= bound
        return kept / (1.0 - p)

    def forward(self, x: list[tuple[np.ndarray, np.ndarray]], train: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Outputs and masks (ReLU and dropout in one factor) of every hidden layer."""
        outputs, factors = [], []
        below_ = None
        for layer, name in enumerate(self.layer_names()):
            z = np.repeat(self.w[f"{name}.bias"], len(x), axis=0)
            if layer == 0:
                for row, (ids, values) in enumerate(x):
                    for j, v in zip(ids, values, strict=True):
                        z[row] += float(v) * self.w["input.weight"][j]
            else:
                z += below_ @ self.w[f"{name}.weight"]
            factor = (z > 0) * self.mask(layer, len(x), z.shape[1], train)
            below_ = z * factor
            outputs.append(below_)
            factors.append(factor)
        return outputs, factors

    def scores(self, x: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Logits of all labels without dropout: (B, N)."""
        outputs, _ = self.forward(x, train=False)
        return outputs[-1] @ self.w["output.weight"].T / self.o.n_members + self.w["output.bias"][:, 0]

    def predict(self, x: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Top k by score, ties by label id; -1 and -infinity where there are fewer."""
        return top_k(self.scores(x), k)

    # ---- tables ----

    def upkeep(self) -> int:
        """Before a step: build, rehash (1) or rebuild with new functions (2) the tables by the rows seen."""
        o, seen = self.o, self.n_rows_seen
        if o.sampler != LSH:
            return 0
        if self.tables is None:
            self.next_rehash, self.next_rebuild = seen + o.rehash_rows, seen + o.rebuild_rows
            self.tables = Tables(o.index, self.w["output.weight"], self.generation)
            return 0
        rebuild = o.rebuild_rows > 0 and seen >= self.next_rebuild
        rehash = o.rehash_rows > 0 and seen >= self.next_rehash
        if rebuild:
            self.generation += 1
            self.next_rebuild = seen + o.rebuild_rows
        if rehash:
            self.n_rehashes += 1
            self.next_rehash = seen + int(o.rehash_rows * np.exp(float(np.float32(o.rehash_growth)) * self.n_rehashes))
        if rebuild or rehash:
            self.tables = Tables(o.index, self.w["output.weight"], self.generation)
        return 2 if rebuild else int(rehash)

    # ---- active sets ----

    def draw(self, row: int, taken: set[int], count: int) -> set[int]:
        """`taken` and as many random labels as are wanted, or all there are."""
        chosen = set(taken)
        count = min(len(chosen) + count, self.o.n_labels)
        i = 0
        while len(chosen) < count:
            key = i if self.o.scope == BATCH else row << 32 | i
            chosen.add(below(random(self.o.seed, PURPOSE["sample"], self.step_number, key), self.o.n_labels))
            i += 1
        return chosen

    def takes_all(self) -> bool:
        o = self.o
        return o.sampler == FULL or (o.n_active > o.n_labels // 3 and (o.sampler == RANDOM or bool(o.random_fill)))

    def select(self, y: list[np.ndarray], h: np.ndarray) -> list[np.ndarray]:
        """Active labels of every row, sorted. LSH: true labels, then candidates, then random ones up to n_active.

        Scope batch asks the tables for ceil(n_active / B) candidates a row and keeps all of them.
        """
        o = self.o
        self.n_found = self.n_met = 0
        per_row = o.scope == ROW and o.sampler != FULL
        share = o.n_active if per_row else -(-o.n_active // len(y))
        found: list[list[int]] = [[] for _ in y]
        if o.sampler == LSH and share > 0:
            for i, row in enumerate(y):
                found[i], met = self.tables.query(h[i], self.n_rows_seen + i, share)
                self.n_found += len(set(row.tolist()) & met)
                self.n_met += len(met)
        if self.takes_all():
            return [np.arange(o.n_labels) for _ in y]
        if not per_row:
            taken = {int(label) for row in y for label in row}
            shared = self.top_up(0, taken, [label for ids in found for label in ids], len(y) * share)
            return [shared for _ in y]
        return [self.top_up(i, set(row.tolist()), found[i], share) for i, row in enumerate(y)]

    def top_up(self, row: int, true: set[int], candidates: list[int], most: int) -> np.ndarray:
        taken = true | set(candidates[:most])
        missing = max(0, self.o.n_active - (len(taken) - len(true)))
        if self.o.sampler == RANDOM or self.o.random_fill:
            taken = self.draw(row, taken, missing)
        return np.array(sorted(taken), np.int64)

    # ---- loss and gradients ----

    def trace(self, x: list[tuple[np.ndarray, np.ndarray]], y: list[np.ndarray], active: Any = None) -> Trace:
        """Loss and gradients of one step with the present weights; active: fixes the sets."""
        n_rows = len(x)
        x = self.inputs(x, train=True)
        outputs, factors = self.forward(x, train=True)
        h = outputs[-1]
        if active is None:
            active = self.select(y, h)
        g = {name: np.zeros_like(w) for name, w in self.w.items()}
        dh = np.zeros_like(h)
        loss = 0.0
        for i in range(n_rows):
            bias = self.w["output.bias"][active[i], 0] + self.offsets[active[i]]
            for own in np.split(np.arange(h.shape[1]), self.o.n_members):
                w = self.w["output.weight"][np.ix_(active[i], own)]
                member_loss, dz = row_gradient(self.o.loss, w @ h[i, own] + bias, np.isin(active[i], y[i]))
                loss += member_loss / n_rows / self.o.n_members
                dz = dz / n_rows
                g["output.weight"][np.ix_(active[i], own)] += np.outer(dz, h[i, own])
                g["output.bias"][active[i], 0] += dz / self.o.n_members
                dh[i, own] = dz @ w
        touched = {name: np.arange(len(w)) for name, w in self.w.items()}
        union = np.unique(np.concatenate([*active, np.zeros(0, np.int64)]).astype(np.int64))
        touched["output.weight"] = touched["output.bias"] = union
        for layer in range(self.n_layers - 1, -1, -1):
            name = self.layer_names()[layer]
            dz = dh * factors[layer]
            g[f"{name}.bias"][0] = dz.sum(axis=0)
            if layer:
                g[f"{name}.weight"] = outputs[layer - 1].T @ dz
                dh = dz @ self.w[f"{name}.weight"].T
        for i, (ids, values) in enumerate(x):
            for j, v in zip(ids, values, strict=True):
                g["input.weight"][j] += float(v) * dz[i]
        features = np.unique(np.concatenate([ids for ids, _ in x] + [np.zeros(0, np.int64)]).astype(np.int64))
        touched["input.weight"] = features
        return Trace(loss, active, g, touched, sum(map(len, active)), len(union), len(features), h)

    def train(self, x: list[tuple[np.ndarray, np.ndarray]], y: list[np.ndarray], rate: float) -> Trace:
        """One step."""
        rehashed = self.upkeep()
        t = self.trace(x, y)
        t.rehashed = rehashed
        for name, w in self.w.items():
            for row in t.touched[name]:
                update_row(self.o, w, self.state[name], int(row), t.gradients[name][row], float(np.float32(rate)))
        self.step_number += 1
        self.n_rows_seen += len(x)
        return t


def row_gradient(loss: int, z: np.ndarray, true: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss of one row over its active set and its derivative by the logits z; true: which of them are true labels.

    softmax: cross-entropy against 1 / |Y| on each true label, nothing to learn for a row without labels.
    bce: sum over the active set.
    """
    if loss == BCE:
        return float(np.sum(np.logaddexp(0, z)) - np.sum(z[true])), 1 / (1 + np.exp(-z)) - true
    if not true.any():
        return 0.0, np.zeros_like(z)
    log_p = z - np.logaddexp.reduce(z)
    target = true / true.sum()
    return float(-np.sum(target * log_p)), np.exp(log_p) - target


# ---- optimisers: state by row, applied only to the rows of a step ----


def new_state(optimizer: int, w: np.ndarray) -> dict[str, np.ndarray]:
    """State tensors by the suffix of their names."""
    if optimizer == ADAGRAD:
        return {"square": np.zeros((len(w), 1))}
    if optimizer == ADAM:
        return {"moment1": np.zeros_like(w), "moment2": np.zeros_like(w), "updates": np.zeros((len(w), 1))}
    return {}


def update_row(o: Any, w: np.ndarray, state: dict[str, np.ndarray], i: int, g: np.ndarray, rate: float) -> None:
    """Adagrad sums the mean square of a row's gradient; Adam counts a row's own updates for its bias correction."""
    epsilon = float(np.float32(o.epsilon))
    if o.optimizer == SGD:
        w[i] -= rate * g
    elif o.optimizer == ADAGRAD:
        state["square"][i] += np.mean(g * g)
        w[i] -= rate * g / (np.sqrt(state["square"][i]) + epsilon)
    else:
        b1, b2 = float(np.float32(o.beta1)), float(np.float32(o.beta2))
        state["updates"][i] += 1
        t = state["updates"][i, 0]
        state["moment1"][i] = b1 * state["moment1"][i] + (1 - b1) * g
        state["moment2"][i] = b2 * state["moment2"][i] + (1 - b2) * g * g
        m = state["moment1"][i] / (1 - b1**t)
        v = state["moment2"][i] / (1 - b2**t)
        w[i] -= rate * m / (np.sqrt(v) + epsilon)


# ---- what stands beside the step ----


def top_k(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Best first, equal scores by id. Returns ids (B, k) and scores (B, k)."""
    ids = np.full((len(scores), k), -1, np.int32)
    best = np.full((len(scores), k), -np.inf)
    for row, z in enumerate(scores):
        order = np.lexsort((np.arange(len(z)), -z))[:k]
        ids[row, : len(order)] = order
        best[row, : len(order)] = z[order]
    return ids, best


def prototypes(hidden: np.ndarray, y: list[np.ndarray], n_labels: int, scale: float) -> np.ndarray:
    """W[l] = scale unit(mean of the hidden vectors of l's rows - mean of all); labels without rows get zeros."""
    w = np.zeros((n_labels, hidden.shape[1]))
    mean = hidden.mean(axis=0)
    for label in range(n_labels):
        rows = [i for i, labels in enumerate(y) if label in labels]
        if rows:
            v = hidden[rows].mean(axis=0) - mean
            length = np.sqrt(np.sum(v * v))
            w[label] = scale * v / length if length > 0 else 0
    return w


def shuffle(seed: int, epoch: int, n: int) -> np.ndarray:
    """The order of xcl_shuffle, whose choices are remainders because n may pass 2^32."""
    return permutation(lambda i: random(seed, PURPOSE["shuffle"], epoch, i), n, lambda bits, below_n: bits % below_n)
