# SPDX-License-Identifier: MIT
"""Tables and policies against their definitions; refreshed tables against built ones, byte by byte."""

import numpy as np
import pytest
from direct import Index, Model, batch, small
from reference import LSH
from reference_hash import DOPH, DWTA, SIMHASH, THRESHOLD, TOPK, VANILLA, Tables

from xcl.errors import UserError
from xcl.native import Engine


@pytest.fixture(scope="module")
def engine():
    return Engine(2)


def data(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("kind", [DWTA, SIMHASH, DOPH])
@pytest.mark.parametrize("policy", [VANILLA, TOPK, THRESHOLD])
@pytest.mark.parametrize("n_rows", [0, 1, 17, 300, 2000])
def test_queries_by_definition(engine, kind, policy, n_rows):
    """300 rows: the tables have 256 or 512 buckets and wide addresses are folded."""
    rows, queries = data(n_rows, 24), data(37, 24, seed=1)
    index = Index(engine, 24, kind=kind, policy=policy, n_tables=7, hashes_per_table=2, min_count=2)
    index.build(rows)
    tables = Tables(index.o, rows)
    for max_ids in (1, 5, 3000):
        found = index.query(queries, max_ids, counter=100)
        for i, ids in enumerate(found):
            want, _ = tables.query(queries[i], 100 + i, max_ids)
            assert ids == want, (max_ids, i)


@pytest.mark.parametrize("kind", [DWTA, SIMHASH, DOPH])
def test_candidates_are_in_a_bucket_of_the_query(engine, kind):
    rows, queries = data(400, 30), data(20, 30, seed=1)
    base = {"kind": kind, "n_tables": 9, "hashes_per_table": 3, "positive_queries": 0}
    index = Index(engine, 30, **base)
    index.build(rows)
    _, row_addresses = index.hash(rows)
    _, query_addresses = index.hash(queries, query=True)
    for ids, where in zip(index.query(queries, 400), query_addresses, strict=True):
        together = set(np.nonzero((row_addresses == where).any(axis=1))[0].tolist())
        assert len(ids) == len(set(ids))
        if kind == SIMHASH:  # 3 bits: no folding, so nothing else shares a bucket
            assert set(ids) == together
        else:
            assert together <= set(ids)


def test_a_row_finds_itself_first(engine):
    rows = data(500, 40)
    for kind in (DWTA, SIMHASH, DOPH):
        index = Index(engine, 40, kind=kind, policy=TOPK, n_tables=30, hashes_per_table=6, positive_queries=0)
        index.build(rows)
        assert [ids[0] for ids in index.query(rows, 1)] == list(range(500))


def test_policies_agree_on_what_they_see(engine):
    rows, queries = data(300, 20), data(30, 20, seed=1)
    base = {"kind": SIMHASH, "n_tables": 10, "hashes_per_table": 4}
    found = {}
    for policy in (VANILLA, TOPK, THRESHOLD):
        index = Index(engine, 20, policy=policy, min_count=1, **base)
        index.build(rows)
        found[policy] = index.query(queries, 300)
    for a, b, c in zip(*found.values(), strict=True):
        assert set(a) == set(b) == set(c)
    index = Index(engine, 20, policy=THRESHOLD, min_count=11, **base)
    index.build(rows)
    assert index.query(queries, 300) == [[]] * 30


def test_table_order_is_a_function_of_the_counter(engine):
    rows, queries = data(300, 20), np.repeat(data(1, 20, seed=1), 40, axis=0)
    index = Index(engine, 20, kind=SIMHASH, n_tables=10, hashes_per_table=4)
    index.build(rows)
    found = index.query(queries, 10, counter=5)
    assert index.query(queries[:20], 10, counter=25) == found[20:]
    assert len({tuple(ids) for ids in found}) > 5


def test_empty_vectors_share_the_first_bucket(engine):
    """A row in which nothing competes can be stored, and a query in which nothing competes finds nothing."""
    rows = np.zeros((20, 16), np.float32)
    rows[::2] = data(10, 16)
    for kind in (DWTA, SIMHASH, DOPH):
        index = Index(engine, 16, kind=kind, n_tables=5, hashes_per_table=2)
        index.build(rows)
        found = index.query(rows, 20, counter=3)
        for i, ids in enumerate(found):
            assert ids == Tables(index.o, rows).query(rows[i], 3 + i, 20)[0]
        if kind != SIMHASH:
            assert found[1] == []


def test_stats(engine):
    rows, queries = data(300, 20), data(25, 20, seed=1)
    index = Index(engine, 20, n_tables=6, hashes_per_table=2, policy=TOPK, positive_queries=0)
    assert index.stats().n_ids == 0
    with pytest.raises(RuntimeError, match="not been built"):
        index.query(queries, 5)
    index.build(rows)
    tables = Tables(index.o, rows)
    sizes = [len(ids) for table in tables.buckets for ids in table.values()]
    s = index.stats()
    assert (s.n_ids, s.n_buckets, s.n_buckets_used, s.largest_bucket) == (300, 6 * 64, len(sizes), max(sizes))
    assert s.ids_per_used_bucket == pytest.approx(6 * 300 / len(sizes))
    found = index.query(queries, 40)
    s = index.stats(reset=True)
    assert (s.n_queries, s.n_probes, s.n_candidates) == (25, 25 * 6, sum(map(len, found)))
    empty = sum(
        bucket not in tables.buckets[t]
        for code in index.hash(queries, query=True)[0]
        for t, bucket in enumerate(tables.places(code))
    )
    assert s.n_probes_empty == empty
    s = index.stats()
    assert (s.n_queries, s.n_probes, s.n_probes_empty, s.n_candidates) == (0, 0, 0, 0)


def test_rebuilding_with_another_size_and_generation(engine):
    index = Index(engine, 20, n_tables=4, hashes_per_table=2)
    for n, generation in [(10, 0), (500, 3), (5, 3), (500, 0)]:
        rows = data(n, 20)
        index.build(rows, generation)
        tables = Tables(index.o, rows, generation)
        assert index.query(rows, n)[:3] == [tables.query(rows[i], i, n)[0] for i in range(3)]


def blocks_of(model):
    return {name: block for name, block in model.tensors().items() if name in ("index.offsets", "index.ids")}


def tables_as_blocks(tables, n_ids):
    """The CSR form of the reference's tables."""
    n_buckets = 1 << tables.bits
    ids = [[i for b in range(n_buckets) for i in table.get(b, [])] for table in tables.buckets]
    counts = [[0] + [len(table.get(b, [])) for b in range(n_buckets)] for table in tables.buckets]
    return {"index.offsets": np.cumsum(counts, axis=1), "index.ids": np.array(ids).reshape(-1, n_ids)}


@pytest.mark.parametrize("kind", [DWTA, SIMHASH, DOPH])
@pytest.mark.parametrize("scope", [0, 1])
def test_refreshed_tables_equal_built_ones(engine, kind, scope):
    """400 labels of which a step changes a few: only these are re-inserted."""
    index = {"kind": kind, "n_tables": 5, "hashes_per_table": 3, "seed": 2}
    o = small(n_labels=400, sampler=LSH, scope=scope, n_active=6, index=index, rehash_rows=1, rebuild_rows=0)
    model, fresh = Model(engine, o), Model(engine, small(**{**vars(o), "trainable": 0, "index": vars(o.index)}))
    rng = np.random.default_rng(3)
    for _ in range(6):
        weights = model.tensors(padded=True)
        step = model.train(*batch(rng, 9, o), 0.3)
        for name in ("input.weight", "input.bias", "output.weight", "output.bias"):
            fresh.attach(name, weights[name])
        fresh.restore_index()
        got, built = blocks_of(model), blocks_of(fresh)
        want = tables_as_blocks(Tables(o.index, weights["output.weight"][:, :17]), 400)
        for name in want:
            assert np.array_equal(got[name], built[name]) and np.array_equal(got[name], want[name]), name
        assert step.n_union < 300


def test_changed_labels_are_marked(engine):
    o = small(n_labels=400, sampler=LSH, n_active=6, rehash_rows=20, rebuild_rows=0)
    model = Model(engine, o)
    rng = np.random.default_rng(3)
    marked = set()
    for _ in range(6):
        before = model.tensors()
        step = model.train(*batch(rng, 9, o), 0.3)
        after = model.tensors()
        changed = np.nonzero((before["output.weight"] != after["output.weight"]).any(axis=1))[0].tolist()
        marked = set(changed) | (set() if step.rehashed else marked)
        bits = np.unpackbits(after["index.changed"].view(np.uint8), bitorder="little")
        assert marked <= set(np.nonzero(bits)[0].tolist())


@pytest.mark.parametrize(
    "changes",
    [
        {"n_tables": 0},
        {"n_tables": 4097},
        {"hashes_per_table": 0},
        {"hashes_per_table": 17},
        {"min_count": 0},
        {"kind": 3},
        {"kind": -1},
        {"policy": 3},
        {"policy": -1},
    ],
    ids=str,
)
def test_options_out_of_range_are_named(engine, changes):
    name = next(iter(changes))
    word = {"n_tables": "tables", "kind": "hash kind"}.get(name, name)
    with pytest.raises(UserError, match=word):
        Index(engine, 8, **changes)
    with pytest.raises(UserError, match=word):
        Model(engine, small(sampler=LSH, index=changes))


def test_dimensions_out_of_range(engine):
    for n in (0, -1, 2**31):
        with pytest.raises(UserError, match="n_dims"):
            Index(engine, n)
