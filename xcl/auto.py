# SPDX-License-Identifier: MIT
"""What `auto` stands for, from the sizes of the data.

The rules come from held-out training rows of sets of 4 thousand to 500 thousand rows, see docs/benchmarks.md.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xcl.config import Config

_RATES = {"adam": 1e-3, "sgd": 1.0}


def learning_rate(kind: str, n_rows: int) -> float:
    """The first step size. Adagrad's steps shrink with the updates of a weight row: more rows want larger ones."""
    if kind != "adagrad":
        return _RATES[kind]
    return min(0.2, max(0.02, round(0.04 * math.pow(n_rows / 10_000, 0.25), 4)))


def output_bias(loss: str, n_labels: int) -> float:
    """The first output bias: with bce a label is improbable before anything is known of it."""
    return -min(6.0, math.log(n_labels)) if loss == "bce" else 0.0


def epsilon(kind: str) -> float:
    """The floor of the denominator: for Adagrad about the size of gradients, so that first steps are not too long."""
    return 3e-4 if kind == "adagrad" else 1e-8


def resolve(config: Config, n_rows: int, n_labels: int) -> Config:
    """The config with a number for every `auto`; n_rows: training rows."""
    model, optimizer = config.model, config.optimizer
    if model.output_bias == "auto":
        model = replace(model, output_bias=output_bias(config.loss, n_labels))
    if optimizer.learning_rate == "auto":
        optimizer = replace(optimizer, learning_rate=learning_rate(optimizer.kind, n_rows))
    if optimizer.epsilon == "auto":
        optimizer = replace(optimizer, epsilon=epsilon(optimizer.kind))
    return replace(config, model=model, optimizer=optimizer)


def line(config: Config, resolved: Config) -> str | None:
    """What was chosen, for people; None if nothing was."""
    keys = (("model", "output_bias"), ("optimizer", "learning_rate"), ("optimizer", "epsilon"))
    chosen = [
        f"{section}.{name} {getattr(getattr(resolved, section), name):.4g}"
        for section, name in keys
        if getattr(getattr(config, section), name) == "auto"
    ]
    return f"auto: {', '.join(chosen)}" if chosen else None
