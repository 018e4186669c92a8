# SPDX-License-Identifier: MIT
"""The rules behind `auto`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xcl import auto
from xcl.config import load


def config(tmp_path: Path, *overrides: str):
    path = tmp_path / "c.yaml"
    path.write_text("data: {train: t.txt}\n")
    return load(path, overrides).config


def test_every_auto_becomes_a_number(tmp_path):
    resolved = auto.resolve(config(tmp_path), 10_000, 1_000)
    assert (resolved.optimizer.learning_rate, resolved.optimizer.epsilon) == (0.04, 3e-4)
    assert resolved.model.output_bias == -6.0
    assert "auto" not in str(replace(resolved, data=None))


def test_the_rate_grows_with_the_rows_within_bounds():
    rates = [auto.learning_rate("adagrad", n) for n in (1, 1_000, 10_000, 160_000, 10**6, 10**9)]
    assert rates == [0.02, pytest.approx(0.0225), 0.04, 0.08, pytest.approx(0.1265), 0.2]


def test_what_is_given_stays(tmp_path):
    given = config(tmp_path, "optimizer.learning_rate=0.5", "optimizer.epsilon=1", "model.output_bias=2")
    assert auto.resolve(given, 10, 10) == given
    assert auto.line(given, given) is None


def test_other_losses_and_optimisers(tmp_path):
    resolved = auto.resolve(config(tmp_path, "loss=softmax", "optimizer.kind=adam"), 10, 5)
    assert resolved.model.output_bias == 0.0 and resolved.optimizer.epsilon == 1e-8
    assert auto.output_bias("bce", 5) == pytest.approx(-1.6094, abs=1e-4)


def test_the_choice_is_said(tmp_path):
    c = config(tmp_path, "optimizer.epsilon=1e-5")
    assert auto.line(c, auto.resolve(c, 10_000, 1_000)) == "auto: model.output_bias -6, optimizer.learning_rate 0.04"
