# SPDX-License-Identifier: MIT
"""Hash families, tables and policies by definition, one vector and one table at a time.

o holds the names of xcl_index_options. T = L K functions; code t belongs to table t // K.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from reference_rng import MASK, PURPOSE, below, mix, permutation, random

DWTA, SIMHASH, DOPH = 0, 1, 2
VANILLA, TOPK, THRESHOLD = 0, 1, 2
BIN = 8
ATTEMPTS = 100
NO_ADDRESS = 2**64 - 1
LARGEST = 30  # DOPH: coordinates that make the set


def bits(seed: int, generation: int, function: int, draw: int) -> int:
    return random(seed, PURPOSE["hash"], generation << 32 | function, draw)


def codes(o: Any, vectors: np.ndarray, query: bool, generation: int = 0) -> np.ndarray:
    """(n, T) codes after densification; -1 where nothing competes."""
    one = {DWTA: dwta, SIMHASH: simhash, DOPH: doph}[o.kind]
    return np.array([one(o, v, query, generation) for v in vectors], np.int32).reshape(len(vectors), n_functions(o))


def n_functions(o: Any) -> int:
    return o.n_tables * o.hashes_per_table


@lru_cache
def dwta_bins(seed: int, generation: int, total: int, d: int) -> list[list[int]]:
    """Permutations end to end, cut into bins of 8 coordinates."""
    places: list[int] = []
    p = 0
    while len(places) < total * BIN:
        places += permutation(lambda i, p=p: bits(seed, generation, p, i), d).tolist()
        p += 1
    return [places[b * BIN : (b + 1) * BIN] for b in range(total)]


def dwta(o: Any, v: np.ndarray, query: bool, generation: int) -> list[int]:
    """A code is the place of the first largest coordinate of its bin."""
    floor = 0.0 if query and o.positive_queries else -np.inf
    raw = []
    for coordinates in dwta_bins(o.seed, generation, n_functions(o), len(v)):
        best, code = floor, -1
        for position, i in enumerate(coordinates):
            if v[i] > best:
                best, code = v[i], position
        raw.append(code)
    return densify(o, raw, generation)


def densify(o: Any, raw: list[int], generation: int) -> list[int]:
    """An empty bin borrows the code of the first bin that is not empty, of 100 drawn at random, else 0."""
    if all(code < 0 for code in raw):
        return raw
    out = list(raw)
    for b, code in enumerate(raw):
        for attempt in range(1, ATTEMPTS + 1):
            if code >= 0:
                break
            code = raw[below(bits(o.seed, generation, 2**31 + b, attempt), len(raw))]
        out[b] = max(code, 0)
    return out


def simhash(o: Any, v: np.ndarray, query: bool, generation: int) -> list[int]:
    """1 where the signed sum over a random third of the coordinates is negative."""
    return [int(np.sum(projection(o.seed, generation, t, len(v)) * v) < 0) for t in range(n_functions(o))]


@lru_cache(maxsize=4096)
def projection(seed: int, generation: int, function: int, d: int) -> np.ndarray:
    """-1, 0 or 1 for each coordinate: the first third of a permutation has signs, drawn after it."""
    order = permutation(lambda i: bits(seed, generation, function, i), d)
    out = np.zeros(d)
    for i in range(-(-d // 3)):
        out[order[i]] = -1.0 if bits(seed, generation, function, d + i) >> 63 else 1.0
    return out


def doph(o: Any, v: np.ndarray, query: bool, generation: int) -> list[int]:
    """The 30 largest coordinates as a set; each falls into one bin, whose code is the one with the least priority."""
    total, d = n_functions(o), len(v)
    competes = [i for i in range(d) if not (query and o.positive_queries) or v[i] > 0]
    largest = sorted(competes, key=lambda i: (-v[i], i))[:LARGEST]
    raw = [-1] * total
    for i in sorted(largest, key=lambda i: bits(o.seed, generation, 0, 2 * i + 1), reverse=True):
        raw[below(bits(o.seed, generation, 0, 2 * i), total)] = i
    return densify(o, raw, generation)


def address(o: Any, code: Any) -> int | None:
    """Address of one table from its K codes; None where nothing competes.

    DWTA and SimHash: the codes as digits in base 8 and 2, the first one highest; overlap: in base 4, with carries.
    DOPH: mixed one after the other.
    """
    if code[0] < 0:
        return None
    out = 0
    for c in map(int, code):
        if o.kind == DOPH:
            out = mix((out + c) & MASK)
        else:
            base = 2 if o.kind == SIMHASH else 4 if o.overlap_packing else 8
            out = out * base + c
    return 0 if out == NO_ADDRESS else out


def addresses(o: Any, code: np.ndarray) -> np.ndarray:
    """(n, L) uint64; 2^64 - 1 where nothing competes."""
    tables = code.reshape(len(code), o.n_tables, o.hashes_per_table)
    found = [[address(o, table) for table in row] for row in tables]
    return np.array([[NO_ADDRESS if a is None else a for a in row] for row in found], np.uint64).reshape(len(code), -1)


class Tables:
    """L tables over the rows of data: table -> bucket -> ids."""

    def __init__(self, o: Any, data: np.ndarray, generation: int = 0) -> None:
        self.o, self.generation = o, generation
        width = {DWTA: 3 * o.hashes_per_table, SIMHASH: o.hashes_per_table, DOPH: 64}[o.kind]
        if o.kind == DWTA and o.overlap_packing:
            width = 2 * o.hashes_per_table + 2
        enough = max(8, int(np.ceil(np.log2(max(len(data), 1)))))
        self.folded, self.bits = width > enough, min(width, enough)
        self.buckets: list[dict[int, list[int]]] = [{} for _ in range(o.n_tables)]
        for i, code in enumerate(codes(o, data, False, generation)):
            for t, bucket in enumerate(self.places(code)):
                self.buckets[t].setdefault(bucket or 0, []).append(i)

    def places(self, code: np.ndarray) -> list[int | None]:
        """Bucket in each table; wide addresses are folded by mixing."""
        found = [address(self.o, table) for table in code.reshape(self.o.n_tables, -1)]
        return [a if a is None or not self.folded else mix(a) >> (64 - self.bits) for a in found]

    def query(self, v: np.ndarray, counter: int, max_ids: int) -> tuple[list[int], set[int]]:
        """Candidates by the policy, and all ids in the buckets probed."""
        o = self.o
        places = self.places(codes(o, v[None], True, self.generation)[0])
        order = np.arange(o.n_tables)
        if o.policy == VANILLA:
            order = permutation(lambda i: random(o.seed, PURPOSE["table_order"], counter, i), o.n_tables)
        count: dict[int, int] = {}
        for t in order:
            if o.policy == VANILLA and len(count) >= max_ids:
                break
            if places[t] is not None:
                for i in self.buckets[t].get(places[t], []):
                    count[i] = count.get(i, 0) + 1
        ids = list(count)
        if o.policy == TOPK:
            ids.sort(key=lambda i: -count[i])
        if o.policy == THRESHOLD:
            ids = [i for i in ids if count[i] >= o.min_count]
        return ids[:max_ids], set(count)
