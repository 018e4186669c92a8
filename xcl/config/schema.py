# SPDX-License-Identifier: MIT
"""Every config key: its type, default, range and one line of help. Nothing else knows defaults.

A key is `field: type = key(default, range, help)`. Types: int, float, str, Path, a Literal of words, a tuple of ints,
and unions of these. A range is written as in mathematics, "[0, 1)".
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_type_hints

ANY = "(-inf, inf)"
NOT_NEGATIVE = "[0, inf)"
POSITIVE = "(0, inf)"
FROM_ONE = "[1, inf)"

Monitor = Literal["p@1", "p@3", "p@5", "ndcg@5", "psp@1", "psp@5"]


def key(default: Any, interval: str, doc: str) -> Any:
    """A config key. default: MISSING if the user must give it."""
    return field(default=default, metadata={"interval": interval, "doc": doc})


@dataclass(frozen=True)
class DataConfig:
    """Files. Paths in a config file are relative to that file, on the command line to the current folder."""

    train: Path = key(MISSING, "", "training rows: multi-label libsvm text (plain, .gz, .bz2, .zst) or .npz")
    test: Path | None = key(None, "", "test rows, evaluated when training has ended")
    validation: Path | float = key(0.0, "[0, 1)", "validation rows: a file, or the share of training rows held out")
    on_error: Literal["stop", "skip"] = key("stop", "", "a malformed row stops the run, or is skipped and counted")
    cache: Path | None = key(None, "", "folder of the binary copies of parsed files; null: .xcl-cache here")


@dataclass(frozen=True)
class ModelConfig:
    """A sparse-input network with one row of output weights a label."""

    hidden: tuple[int, ...] = key((1024,), "[1, 65536]", "widths of the hidden layers, 1 to 8 of them")
    members: int = key(1, "[1, 64]", "parts of the last layer, each trained as if alone; scores are their mean")
    normalize: bool = key(True, "", "scale every row of features to unit length")
    dropout: float = key(0.6, "[0, 1)", "share of hidden units dropped in training")
    input_dropout: float = key(0.0, "[0, 1)", "share of a row's features dropped in training")
    init: Literal["prototypes", "random"] = key("prototypes", "", "first output weights: label prototypes, or random")
    init_scale: float = key(0.1, NOT_NEGATIVE, "standard deviation of the first input weights")
    output_scale: float = key(1.0, NOT_NEGATIVE, "length of the prototypes, or standard deviation of random weights")
    output_bias: float | Literal["auto"] = key(
        "auto", ANY, "first output bias; auto: -6 or -log(labels) for bce, else 0"
    )


@dataclass(frozen=True)
class SamplerConfig:
    """Which labels a training step scores beside the true ones."""

    kind: Literal["random", "full", "dwta", "simhash", "doph"] = key(
        "random", "", "random labels, all labels, or candidates from hash tables of this family"
    )
    scope: Literal["batch", "row"] = key("batch", "", "one label set for the whole batch, or one for each row")
    active: int = key(500, NOT_NEGATIVE, "labels scored beside the true ones, a batch or a row by scope")
    correction: float = key(0.5, "[0, 1]", "how far training makes up for labels being scored unequally often")
    random_fill: bool = key(True, "", "hash tables: top a short set up with random labels")
    tables: int = key(50, "[1, 4096]", "hash tables (L)")
    hashes_per_table: int = key(6, "[1, 16]", "codes in a table's address (K)")
    packing: Literal["base2", "overlap"] = key("base2", "", "dwta: whole codes, or overlapping ones as first published")
    policy: Literal["vanilla", "topk", "threshold"] = key(
        "vanilla", "", "candidates: whole buckets, the most frequent ids, or ids seen min_count times"
    )
    min_count: int = key(2, FROM_ONE, "policy threshold: tables in which an id must occur")
    rehash_rows: int = key(6400, NOT_NEGATIVE, "training rows between refreshes of the tables; 0: never")
    rebuild_rows: int = key(128000, NOT_NEGATIVE, "training rows between draws of new hash functions; 0: never")
    rehash_growth: float = key(0.0, "[0, 10]", "growth of the refresh period: exp(growth * refreshes so far)")


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights move."""

    kind: Literal["adagrad", "adam", "sgd"] = key("adagrad", "", "row-wise Adagrad, Adam on touched rows, or SGD")
    learning_rate: float | Literal["auto"] = key("auto", POSITIVE, "step size after warm-up; auto: from the rows")
    schedule: Literal["linear", "constant", "cosine"] = key("linear", "", "how the step size falls to the end")
    warmup: float = key(0.0, "[0, 1)", "share of all training rows over which the step size rises from 0")
    beta1: float = key(0.9, "[0, 1)", "adam: decay of the first moment")
    beta2: float = key(0.999, "[0, 1)", "adam: decay of the second moment")
    epsilon: float | Literal["auto"] = key("auto", POSITIVE, "floor of the denominator; auto: 3e-4 adagrad, 1e-8 adam")


@dataclass(frozen=True)
class TrainConfig:
    """The loop."""

    epochs: int = key(10, FROM_ONE, "passes over the training rows")
    batch_size: int = key(128, "[1, 1048576]", "rows a step")
    seed: int = key(1, "[0, 18446744073709551615]", "every random number follows from it")
    monitor: Monitor = key("p@1", "", "validation metric that chooses the best model")
    patience: int = key(0, NOT_NEGATIVE, "stop after so many epochs without a better monitor; 0: never")
    checkpoint_minutes: float = key(5.0, POSITIVE, "time between checkpoints")
    evaluate_minutes: float = key(1.0, POSITIVE, "time between quick looks at validation rows within an epoch")


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    data: DataConfig
    model: ModelConfig
    loss: Literal["bce", "softmax"] = field(
        metadata={"interval": "", "doc": "binary cross-entropy for many labels a row, softmax for one"}
    )
    sampler: SamplerConfig
    optimizer: OptimizerConfig
    train: TrainConfig


LOSS_DEFAULT = "bce"
SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "model": ModelConfig,
    "sampler": SamplerConfig,
    "optimizer": OptimizerConfig,
    "train": TrainConfig,
}


@dataclass(frozen=True)
class Key:
    """One key of the schema. section: "" at the top level."""

    section: str
    name: str
    type: Any
    default: Any
    interval: str
    doc: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The members of a union type, or the type itself."""
        union = typing.get_origin(self.type) in (types.UnionType, typing.Union)
        return typing.get_args(self.type) if union else (self.type,)

    @property
    def words(self) -> list[str]:
        """The words the key takes."""
        return [w for kind in self.kinds if typing.get_origin(kind) is Literal for w in typing.get_args(kind)]

    @property
    def wants(self) -> str:
        """What the key takes, for messages: "a number or auto"."""
        names = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
        found = [names[kind] for kind in self.kinds if kind in names]
        found += ["a list of whole numbers" for kind in self.kinds if typing.get_origin(kind) is tuple]
        return " or ".join(found + self.words)


def within(value: float, interval: str) -> bool:
    """Whether a number lies in an interval such as "[0, 1)"."""
    low, high = bounds(interval)
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below


def bounds(interval: str) -> tuple[float, float]:
    """The two ends of an interval; whole numbers stay exact."""
    low, high = (int(end) if end.strip("+-").isdigit() else float(end) for end in interval[1:-1].split(", "))
    return low, high


def _section_keys(section: str, cls: type) -> Iterator[Key]:
    hints = get_type_hints(cls)
    for f in dataclasses.fields(cls):
        yield Key(section, f.name, hints[f.name], f.default, f.metadata["interval"], f.metadata["doc"])


def _all_keys() -> Iterator[Key]:
    for f in dataclasses.fields(Config):
        if f.name in SECTIONS:
            yield from _section_keys(f.name, SECTIONS[f.name])
        else:
            hint = get_type_hints(Config)[f.name]
            yield Key("", f.name, hint, LOSS_DEFAULT, f.metadata["interval"], f.metadata["doc"])


KEYS: dict[str, Key] = {k.path: k for k in _all_keys()}


def build(values: dict[str, Any]) -> Config:
    """A Config from dotted keys; keys left out have their defaults. Raises: TypeError if a required one is missing."""
    parts = {
        section: cls(**{k.name: values[k.path] for k in KEYS.values() if k.section == section and k.path in values})
        for section, cls in SECTIONS.items()
    }
    return Config(loss=values.get("loss", LOSS_DEFAULT), **parts)


def flatten(config: Config) -> dict[str, Any]:
    """The dotted keys of a Config with their values, in the order of the schema."""
    return {k.path: getattr(getattr(config, k.section) if k.section else config, k.name) for k in KEYS.values()}


def problems(config: Config) -> Iterator[tuple[str, str]]:
    """Keys that do not fit each other, as (dotted key, what is wrong)."""
    if len(config.model.hidden) not in range(1, 9):
        yield "model.hidden", f"{len(config.model.hidden)} layers (allowed: 1 to 8)"
    elif config.model.members > 1 and config.model.hidden[-1] % (16 * config.model.members):
        yield "model.members", f"do not cut {config.model.hidden[-1]} hidden units into multiples of 16"
    if config.model.members > 1 and config.sampler.scope == "row" and config.sampler.kind != "full":
        yield "model.members", "more than 1 needs sampler.scope: batch"
    if config.train.patience and not config.data.validation:
        yield "train.patience", "needs validation rows: set data.validation to a file or a share such as 0.1"
