# SPDX-License-Identifier: MIT
"""Hash codes and addresses: equal to their definitions, and with the properties that make them hashes."""

import numpy as np
import pytest
from direct import Index
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_hash import DOPH, DWTA, NO_ADDRESS, SIMHASH, addresses, codes

from xcl.native import Engine, isa_list


@pytest.fixture(scope="module", params=isa_list())
def engine(request):
    return Engine(2, request.param)


def vectors(n, d, seed=0, sparse=0.0):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(n, d)) * (rng.random((n, d)) >= sparse)
    return v.astype(np.float32)


def assert_by_definition(engine, v, generation=0, **options):
    index = Index(engine, v.shape[1], **options)
    if generation:
        index.build(v, generation)
    for query in (False, True):
        got, got_addresses = index.hash(v, query)
        want = codes(index.o, v, query, generation)
        assert np.array_equal(got, want), (options, query)
        assert np.array_equal(got_addresses, addresses(index.o, want)), (options, query)


@pytest.mark.parametrize("kind", [DWTA, SIMHASH, DOPH])
@pytest.mark.parametrize("n_dims", [1, 2, 7, 8, 9, 40, 129])
def test_codes_and_addresses(engine, kind, n_dims):
    for n_tables, k in [(1, 1), (5, 3), (3, 16)]:
        for positive in (0, 1):
            v = vectors(19, n_dims, seed=n_dims, sparse=0.4)
            assert_by_definition(engine, v, kind=kind, n_tables=n_tables, hashes_per_table=k, positive_queries=positive)


@pytest.mark.parametrize("kind", [DWTA, SIMHASH, DOPH])
def test_seed_and_generation_draw_other_functions(engine, kind):
    v = vectors(20, 50)
    seen = set()
    for seed, generation in [(1, 0), (1, 1), (2, 0), (2**64 - 1, 2**31 - 1)]:
        assert_by_definition(engine, v, generation, kind=kind, n_tables=4, hashes_per_table=4, seed=seed)
        index = Index(engine, 50, kind=kind, n_tables=4, hashes_per_table=4, seed=seed)
        index.build(v, generation)
        seen.add(index.hash(v)[0].tobytes())
    assert len(seen) == 4


@pytest.mark.parametrize("n", [1, 15, 16, 17])
def test_a_hash_does_not_depend_on_its_neighbours(engine, n):
    v = vectors(n, 30)
    for kind in (DWTA, SIMHASH, DOPH):
        index = Index(engine, 30, kind=kind)
        together = index.hash(v)[1]
        assert np.array_equal(together, np.concatenate([index.hash(row[None])[1] for row in v]))


def test_packing_dwta(engine):
    """Base 8 by digits; with overlap digits of 3 bits stand 2 bits apart and are added."""
    v = vectors(50, 64)
    for k in (1, 2, 5, 16):
        plain = Index(engine, 64, n_tables=3, hashes_per_table=k)
        overlap = Index(engine, 64, n_tables=3, hashes_per_table=k, overlap_packing=1)
        digits = plain.hash(v)[0].reshape(50, 3, k).astype(np.uint64)
        assert np.array_equal(overlap.hash(v)[0].reshape(50, 3, k), digits)
        for index, base in [(plain, 8), (overlap, 4)]:
            powers = np.array([base ** (k - 1 - i) for i in range(k)], np.uint64)
            assert np.array_equal(index.hash(v)[1], (digits * powers).sum(axis=2))


@pytest.mark.parametrize("kind", [DWTA, DOPH])
def test_nothing_competes(engine, kind):
    v = -np.abs(vectors(3, 20)) * np.array([[1], [0], [1]], np.float32)
    index = Index(engine, 20, kind=kind, n_tables=4, hashes_per_table=3, positive_queries=1)
    got, where = index.hash(v, query=True)
    assert (got == -1).all() and (where == NO_ADDRESS).all()
    index.build(vectors(30, 20))
    assert index.query(v, 10) == [[], [], []]
    got, where = index.hash(v, query=False)  # as rows they compete
    assert (got >= 0).all() and (where != NO_ADDRESS).all()


def test_densified_codes_come_from_full_bins(engine):
    """One positive coordinate of 200: almost all bins of a query are empty and borrow."""
    v = np.zeros((5, 200), np.float32)
    v[np.arange(5), [0, 50, 100, 150, 199]] = 1
    assert_by_definition(engine, v, kind=DWTA, n_tables=30, hashes_per_table=4, positive_queries=1)
    assert_by_definition(engine, v, kind=DOPH, n_tables=30, hashes_per_table=4, positive_queries=1)


def test_densifying_gives_up_after_100_attempts():
    """Of 2,048 bins one is full: most others never draw it and take 0."""
    v = np.zeros((1, 9), np.float32)
    v[0, 5] = 1
    index = Index(Engine(1), 9, kind=DOPH, n_tables=128, hashes_per_table=16)
    got, _ = index.hash(v, query=True)
    assert set(got[0].tolist()) == {0, 5} and (got == 5).mean() < 0.1
    assert np.array_equal(got, codes(index.o, v, True))


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0, 1]))
@settings(max_examples=30, deadline=None)
def test_dwta_sees_only_the_order_of_the_coordinates(seed, n_dims, query):
    rng = np.random.default_rng(seed)
    grid = rng.permutation(np.arange(-n_dims, n_dims))[:n_dims].astype(np.float32)  # distinct, exact in float32
    index = Index(Engine(1), n_dims, n_tables=4, hashes_per_table=4, seed=seed)
    maps = [grid, grid * 0.25, grid * 1e30, np.sign(grid) * np.sqrt(np.abs(grid)), np.sinh(grid / 2)]
    found = [index.hash(v.astype(np.float32)[None], bool(query))[0] for v in maps]
    for other in found[1:]:
        assert np.array_equal(other, found[0])


def test_simhash_collides_with_probability_one_minus_angle_over_pi(engine):
    """65,536 bits a pair: the standard deviation of a share of equal bits is at most 0.002.

    A function sees a third of the 300 coordinates, so a pair keeps its angle only on average: four pairs an angle.
    """
    rng = np.random.default_rng(11)
    index = Index(engine, 300, kind=SIMHASH, n_tables=4096, hashes_per_table=16)
    for angle in (0.1, 0.5, 1.0, np.pi / 2, 2.5, np.pi):
        shares = []
        for _ in range(4):
            a = rng.normal(size=300)
            b = rng.normal(size=300)
            a /= np.linalg.norm(a)
            b -= a * (a @ b)
            b /= np.linalg.norm(b)
            pair = np.stack([a, np.cos(angle) * a + np.sin(angle) * b]).astype(np.float32)
            bits, _ = index.hash(pair)
            shares.append((bits[0] == bits[1]).mean())
        assert np.mean(shares) == pytest.approx(1 - angle / np.pi, abs=0.005), angle


def test_simhash_bits_are_even_and_independent(engine):
    bits, _ = Index(engine, 64, kind=SIMHASH, n_tables=64, hashes_per_table=16).hash(vectors(400, 64, seed=3))
    assert abs(bits.mean() - 0.5) < 0.01
    centred = bits - 0.5
    agreement = centred.T @ centred / 400 * 4  # functions by functions
    off = agreement[~np.eye(len(agreement), dtype=bool)]
    assert abs(off.mean()) < 0.005 and off.std() < 0.12


def test_simhash_ignores_scale_and_turns_with_sign(engine):
    v = vectors(20, 33)
    index = Index(engine, 33, kind=SIMHASH, n_tables=10, hashes_per_table=5)
    assert np.array_equal(index.hash(v)[0], index.hash(v * np.float32(4))[0])
    assert np.array_equal(index.hash(v)[0], 1 - index.hash(-v)[0])


def test_doph_collides_as_the_sets_overlap(engine):
    """Two sets of 30 with j common elements agree in a full bin with probability near j / (60 - j)."""
    index = Index(engine, 1000, kind=DOPH, n_tables=1, hashes_per_table=16)
    rng = np.random.default_rng(4)
    for common in (0, 10, 20, 30):
        equal = []
        for trial in range(40):
            index = Index(engine, 1000, kind=DOPH, n_tables=1, hashes_per_table=10, seed=trial)
            ids = rng.permutation(1000)
            v = np.zeros((2, 1000), np.float32)
            v[0, ids[:30]] = 1
            v[1, ids[30 - common : 60 - common]] = 1
            bits, _ = index.hash(v)
            equal.append((bits[0] == bits[1]).mean())
        assert np.mean(equal) == pytest.approx(common / (60 - common), abs=0.09), common
