# SPDX-License-Identifier: MIT
"""The random numbers of native/src/rng.h in plain Python integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

NAMES = "init_input init_hidden init_output shuffle dropout input_dropout sample hash table_order"
PURPOSE = {name: number for number, name in enumerate(NAMES.split(), 1)}
MASK = 2**64 - 1


def mix(z: int) -> int:
    """SplitMix64's step and finaliser."""
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@lru_cache(maxsize=1 << 16)
def key(seed: int, purpose: int, a: int) -> int:
    return mix((mix((mix(seed) + purpose) & MASK) + a) & MASK)


def random(seed: int, purpose: int, a: int, b: int) -> int:
    """64 random bits for (seed, purpose, a, b)."""
    return mix((key(seed, purpose, a) + b) & MASK)


def random_row(seed: int, purpose: int, a: int, n: int) -> np.ndarray:
    """random(seed, purpose, a, b) for b in 0 .. n-1, as uint64."""
    z = np.uint64(key(seed, purpose, a)) + np.arange(n, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def below(bits: int, n: int) -> int:
    """0 .. n-1."""
    return ((bits >> 32) * n) >> 32


def half(bits: int, odd: int) -> int:
    """The low 32 bits for even places, the high ones for odd."""
    return bits >> 32 if odd else bits & 0xFFFFFFFF


def unit(bits: int) -> np.float32:
    """[0, 1) with 24 bits."""
    return np.float32(bits >> 40) * np.float32(2.0**-24)


def normal(bits: np.ndarray) -> np.ndarray:
    """About N(0, 1), the engine's floats exactly."""
    total = sum((bits >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)).astype(np.int64)
    return (total - 2 * 0xFFFF).astype(np.float32) * (np.float32(1.7320508) / np.float32(65536.0))


def permutation(bits: Callable[[int], int], n: int, choose: Callable[[int, int], int] = below) -> np.ndarray:
    """Fisher-Yates from place 0 up: bits(i) chooses among the n - i not yet placed what comes to place i."""
    order = np.arange(n)
    for i in range(n - 1):
        j = i + choose(bits(i), n - i)
        order[i], order[j] = order[j], order[i]
    return order
