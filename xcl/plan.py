# SPDX-License-Identifier: MIT
"""Before the work: settings fitted to the sizes of the data, and the memory it will take against what there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from xcl import machine
from xcl.config import Config
from xcl.errors import ResourceError, UserError
from xcl.machine import Memory, gib
from xcl.model import ModelOptions, Plan, plan

PROCESS_BYTES = 100 << 20  # interpreter, libraries, evaluation


@dataclass(frozen=True)
class Sizes:
    """What the plan must know about the training rows. data_bytes: held in memory, not in a file's map."""

    n_rows: int
    n_features: int
    n_labels: int
    row_features: float
    row_labels: float
    data_bytes: int


def model_options(config: Config, sizes: Sizes) -> ModelOptions:
    """The engine's options for a config without `auto` and data; what is impossible is capped, see `caps`."""
    model, sampler, optimizer = config.model, config.sampler, config.optimizer
    assert optimizer.epsilon != "auto" and model.output_bias != "auto"
    return ModelOptions(
        n_features=sizes.n_features,
        n_labels=sizes.n_labels,
        hidden=model.hidden,
        members=model.members,
        normalize=model.normalize,
        loss=config.loss,
        dropout=model.dropout,
        input_dropout=model.input_dropout,
        optimizer=optimizer.kind,
        beta1=optimizer.beta1,
        beta2=optimizer.beta2,
        epsilon=optimizer.epsilon,
        init_scale=model.init_scale,
        output_scale=0.0 if model.init == "prototypes" else model.output_scale,
        output_bias=model.output_bias,
        seed=config.train.seed,
        sampler=sampler.kind,
        scope=sampler.scope,
        active=min(sampler.active, sizes.n_labels),
        random_fill=sampler.random_fill,
        tables=sampler.tables,
        hashes_per_table=sampler.hashes_per_table,
        packing=sampler.packing,
        policy=sampler.policy,
        min_count=sampler.min_count,
        rehash_rows=sampler.rehash_rows,
        rebuild_rows=sampler.rebuild_rows,
        rehash_growth=sampler.rehash_growth,
    )


def caps(config: Config, sizes: Sizes) -> Iterator[str]:
    """A line for every setting that these sizes make smaller."""
    if config.sampler.active > sizes.n_labels and config.sampler.kind != "full":
        yield f"sampler.active: {config.sampler.active:,} is more than the {sizes.n_labels:,} labels: all are scored"
    if config.train.batch_size > sizes.n_rows:
        yield f"train.batch_size: {config.train.batch_size:,} is more than the {sizes.n_rows:,} rows: a step takes all"


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes by part, what is available, and the numbers behind them."""

    options: ModelOptions
    sizes: Sizes
    parts: Plan
    memory: Memory
    n_threads: int
    batch_size: int

    @property
    def total(self) -> float:
        return self.parts.total + self.sizes.data_bytes + PROCESS_BYTES

    @property
    def n_parameters(self) -> int:
        widths = self.options.hidden
        between = sum((a + 1) * b for a, b in pairwise(widths))
        return (self.sizes.n_features + 1) * widths[0] + between + self.sizes.n_labels * (widths[-1] + 1)

    def arithmetic(self) -> str:
        """The weights as a sum: "(8,527 features + 1,000 labels) x 512 units"."""
        s, widths = self.sizes, self.options.hidden
        if len(widths) == 1:
            product = f"({s.n_features:,} features + {s.n_labels:,} labels) x {widths[0]:,} units"
        else:
            between = " + ".join(f"{a:,} x {b:,}" for a, b in pairwise(widths))
            product = f"{s.n_features:,} features x {widths[0]:,} + {between} + {s.n_labels:,} labels x {widths[-1]:,}"
        return f"{product} and biases = {self.n_parameters:,} numbers of 4 bytes"

    def lines(self) -> list[str]:
        """The plan for people."""
        s, p = self.sizes, self.parts
        batches = -(-s.n_rows // self.batch_size)
        tables = f", hash tables {gib(p.tables + p.lookup)}" if self.options.uses_tables else ""
        return [
            f"data: {s.n_rows:,} rows, {s.n_features:,} features ({s.row_features:.1f} a row), "
            f"{s.n_labels:,} labels ({s.row_labels:.1f} a row)",
            f"model: {self.arithmetic()}",
            f"steps: {batches:,} batches of {min(self.batch_size, s.n_rows):,} rows an epoch",
            f"memory: {gib(self.total)} = weights {gib(p.weights)}, optimiser {gib(p.optimizer)}{tables}, "
            f"batch {gib(p.batch)}, data {gib(s.data_bytes)}, program {gib(PROCESS_BYTES)}",
            f"available: {gib(self.memory.available)} ({self.memory.limit})",
        ]

    def as_dict(self) -> dict[str, int | str]:
        """The plan for scripts."""
        p = self.parts
        return {
            "rows": self.sizes.n_rows,
            "features": self.sizes.n_features,
            "labels": self.sizes.n_labels,
            "parameters": self.n_parameters,
            "batches_per_epoch": -(-self.sizes.n_rows // self.batch_size),
            "weights_bytes": int(p.weights),
            "optimizer_bytes": int(p.optimizer),
            "tables_bytes": int(p.tables + p.lookup),
            "batch_bytes": int(p.batch),
            "data_bytes": self.sizes.data_bytes,
            "total_bytes": int(self.total),
            "available_bytes": self.memory.available,
            "available_limit": self.memory.limit,
        }

    def check(self) -> None:
        """Raises: ResourceError with the arithmetic and the nearest setting that fits, if this does not."""
        if self.total <= self.memory.available:
            return
        width = _widest(self)
        fits = f"model.hidden=[{','.join(map(str, width))}] fits" if width else ""
        remedy = fits or "No width fits: hash or remap the ids to fewer"
        p = self.parts
        raise ResourceError(
            f"not enough memory: {gib(self.total)} needed, {gib(self.memory.available)} available "
            f"({self.memory.limit}). "
            f"Weights {gib(p.weights)} [{self.arithmetic()}], optimiser {gib(p.optimizer)}, "
            f"tables {gib(p.tables + p.lookup)}, batch {gib(p.batch)}, data {gib(self.sizes.data_bytes)}. {remedy}"
        )


def make_plan(config: Config, sizes: Sizes, n_threads: int) -> MemoryPlan:
    """The memory plan of a config on data of these sizes. Raises: UserError if a size is beyond the engine's limits."""
    for name, n in (("features", sizes.n_features), ("labels", sizes.n_labels)):
        if n > 2**31 - 1:
            raise UserError(f"{n:,} {name}: the limit is 2,147,483,647; hash or remap the ids to fewer")
    options = model_options(config, sizes)
    batch_size = min(config.train.batch_size, sizes.n_rows)
    parts = plan(options, n_threads, batch_size, sizes.row_features, sizes.row_labels)
    return MemoryPlan(options, sizes, parts, machine.memory(), n_threads, config.train.batch_size)


def _widest(wanted: MemoryPlan) -> tuple[int, ...] | None:
    """The hidden widths, none above the wanted ones, multiples of 16 a member where cut, that fit; None if none do."""
    unit = 16 * wanted.options.members

    def fits(limit: int) -> bool:
        widths = tuple(min(limit, w) for w in wanted.options.hidden)
        options = replace(wanted.options, hidden=widths)
        s = wanted.sizes
        parts = plan(options, wanted.n_threads, min(wanted.batch_size, s.n_rows), s.row_features, s.row_labels)
        return replace(wanted, options=options, parts=parts).total <= wanted.memory.available

    low, high = 0, max(wanted.options.hidden) // unit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(unit * middle) else (low, middle - 1)
    return tuple(min(unit * low, w) for w in wanted.options.hidden) if low else None
