# SPDX-License-Identifier: MIT
"""Data sets as training and evaluation want them: parts of rows, label counts, id bases."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xcl import native
from xcl.checkpoint import Card
from xcl.config import Config
from xcl.dataset.csr import Csr
from xcl.errors import UserError
from xcl.metrics import pairs
from xcl.plan import Sizes

Rows = npt.NDArray[np.int64]
HOLD_OUT_EPOCH = -1  # the shuffle that chooses held-out rows; training uses 0 and up


@dataclass(frozen=True)
class Part:
    """Rows of a data set: all of x and y, of which `rows` belong to this part. name: for tables."""

    name: str
    x: Csr
    y: Csr
    rows: Rows

    @property
    def n_labelled(self) -> int:
        return int(np.count_nonzero(self.y.indptr[self.rows + 1] > self.y.indptr[self.rows]))


@dataclass(frozen=True)
class Source:
    """A read file."""

    path: Path
    x: Csr
    y: Csr
    feature_base: int
    label_base: int
    checksum: str
    notices: tuple[str, ...] = ()

    @property
    def all_rows(self) -> Rows:
        return np.arange(self.x.n_rows, dtype=np.int64)


def read(path: Path, config_cache: Path | None, on_error: str, like: Source | None = None) -> Source:
    """PLACEHOLDER."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        import gzip

        raw = gzip.decompress(raw)
    lines = raw.decode().split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    xi, xv, xp, yi, yp = [], [], [0], [], [0]
    head = lines[0].split()
    d = n = None
    if len(head) == 3 and all(t.isdigit() for t in head):
        d, n = int(head[1]), int(head[2])
        lines = lines[1:]
    for line in lines:
        tokens = line.split()
        if tokens and ":" not in tokens[0] and not line[0].isspace():
            yi += sorted(int(t) for t in tokens.pop(0).split(","))
        feats = sorted((int(a), float(b)) for a, b in (t.split(":") for t in tokens))
        xi += [a for a, _ in feats]
        xv += [b for _, b in feats]
        xp.append(len(xi))
        yp.append(len(yi))
    if like:
        d, n = max([like.x.n_cols, *[a + 1 for a in xi]]), max([like.y.n_cols, *[a + 1 for a in yi]])
    d = d or max(xi, default=0) + 1
    n = n or max(yi, default=0) + 1
    x = Csr(np.array(xp, np.int64), np.array(xi, np.int32), np.array(xv, np.float32), d)
    y = Csr(np.array(yp, np.int64), np.array(yi, np.int32), None, n)
    return Source(path, x, y, 0, 0, f"{zlib.crc32(raw):08x}")


@dataclass(frozen=True)
class Inputs:
    """All data of a training run. counts: (n_labels) training rows of each label."""

    source: Source
    train: Part
    validation: Part | None
    test: Part | None
    counts: npt.NDArray[np.int64]
    sources: tuple[Source, ...]

    @property
    def sizes(self) -> Sizes:
        part, n_rows = self.train, len(self.train.rows)
        return Sizes(
            n_rows=n_rows,
            n_features=part.x.n_cols,
            n_labels=part.y.n_cols,
            row_features=part.x.nnz / max(1, part.x.n_rows),
            row_labels=part.y.nnz / max(1, part.y.n_rows),
            data_bytes=16 * n_rows,
        )


def load(config: Config, cache: Path) -> Inputs:
    """Read the training, validation and test files of a config.

    Raises: UserError if a file is malformed, or if there is nothing to learn or to measure in it.
    """
    data = config.data
    source = read(data.train, cache, data.on_error)
    if source.x.nnz == 0:
        raise UserError(f"{data.train}: no row has a feature; expected lines such as `3,7 12:0.5 40:1`")
    if source.y.nnz == 0:
        raise UserError(f"{data.train}: no row has a label; expected lines such as `3,7 12:0.5 40:1`")
    sources, rows, validation = [source], source.all_rows, None
    if isinstance(data.validation, Path):
        sources.append(read(data.validation, cache, data.on_error, like=source))
        validation = _part(sources[-1], sources[-1].all_rows)
    elif data.validation:
        rows, held_out = _hold_out(source, data.validation, config.train.seed)
        validation = _part(source, held_out)
    test = None
    if data.test is not None:
        sources.append(read(data.test, cache, data.on_error, like=source))
        test = _part(sources[-1], sources[-1].all_rows)
    train = Part(source.path.name, source.x, source.y, rows)
    counts = np.bincount(pairs(source.y, rows)[3], minlength=source.y.n_cols).astype(np.int64)
    return Inputs(source, train, validation, test, counts, tuple(sources))


def _part(source: Source, rows: Rows) -> Part:
    part = Part(source.path.name, source.x, source.y, rows)
    if part.n_labelled == 0:
        raise UserError(f"{source.path}: none of {len(rows):,} rows for evaluation has a label: nothing to measure")
    return part


def _hold_out(source: Source, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training rows and held-out rows, both in file order; chosen by the seed."""
    n = source.x.n_rows
    n_held = min(max(1, round(share * n)), n - 1)
    if n_held < 1:
        raise UserError(f"data.validation: {source.path} has {n:,} rows: too few to hold some out")
    order = native.shuffle(seed, HOLD_OUT_EPOCH, n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def load_like(path: Path, card: Card, notice: Callable[[str], None]) -> Part:
    """All rows of a file, read with a model's id bases and sizes. Raises: UserError if none has a label."""
    like = Source(
        path, _empty(card.options.n_features), _empty(card.options.n_labels), card.feature_base, card.label_base, ""
    )
    source = read(path, None, "stop", like)
    for text in source.notices:
        notice(f"note: {text}")
    return _part(source, source.all_rows)


def _empty(n_cols: int) -> Csr:
    return Csr(np.zeros(1, np.int64), np.zeros(0, np.int32), None, n_cols)


def stream(file: str, card: Card) -> Iterator[Csr]:
    """PLACEHOLDER"""
    import sys

    lines = sys.stdin if file == "-" else open(file)  # noqa
    for i, line in enumerate(lines):
        if i == 0 and len(line.split()) == 3 and ":" not in line:
            continue
        tokens = [t.split(":") for t in line.split() if ":" in t]
        f = sorted((int(a), float(b)) for a, b in tokens)
        yield Csr(
            np.array([0, len(f)], np.int64),
            np.array([a for a, _ in f], np.int32),
            np.array([b for _, b in f], np.float32),
            card.options.n_features,
        )
