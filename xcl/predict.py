# SPDX-License-Identifier: MIT
"""Top-k labels of a stream of rows as text: one line out for every row in, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import numpy.typing as npt

from xcl.dataset.csr import Csr
from xcl.model import Model

CHUNK_ROWS = 1024


@dataclass(frozen=True)
class Style:
    """How predictions are written. label_base: the first label id in the user's files. names: of labels, by id."""

    format: str
    label_base: int
    sigmoid: bool
    names: Sequence[str] | None = None


def predict(
    model: Model,
    blocks: Iterable[Csr],
    k: int,
    lsh: bool,
    style: Style,
    out: TextIO,
    flush: bool,
) -> int:
    """Write the k best labels of every row of every block. flush: after every block, for a reader that waits.

    Result: how many features were ignored because the model has none of that id.
    """
    line = _WRITERS[style.format]
    unknown = 0
    for block in blocks:
        for start in range(0, block.n_rows, CHUNK_ROWS):
            rows = np.arange(start, min(start + CHUNK_ROWS, block.n_rows), dtype=np.int64)
            ids, logits, n = model.predict(block, min(k, model.options.n_labels), rows, lsh)
            unknown += n
            scores = _scores(logits, style.sigmoid)
            found = np.count_nonzero(ids >= 0, axis=1).tolist()
            labels = _labels(ids, style)
            out.writelines(line(ls[:n], ss[:n]) for ls, ss, n in zip(labels, scores, found, strict=True))
        if flush:
            out.flush()
    return unknown


def _scores(logits: npt.NDArray[np.float32], sigmoid: bool) -> list[list[str]]:
    values = logits.astype(np.float64)
    if sigmoid:
        with np.errstate(over="ignore"):
            values = 1 / (1 + np.exp(-values))
    return [[f"{value:.6g}" for value in row] for row in values.tolist()]


def _labels(ids: npt.NDArray[np.int32], style: Style) -> list[list[str]]:
    if style.names is None:
        return [[str(label) for label in row] for row in (ids.astype(np.int64) + style.label_base).tolist()]
    names = style.names
    return [[names[label] if label >= 0 else "" for label in row] for row in ids.tolist()]


def _libsvm(labels: list[str], scores: list[str]) -> str:
    return " ".join(map(":".join, zip(labels, scores, strict=True))) + "\n"


def _tsv(labels: list[str], scores: list[str]) -> str:
    return "\t".join(map("\t".join, zip(labels, scores, strict=True))) + "\n"


def _json(labels: list[str], scores: list[str]) -> str:
    keys = [int(label) if label.isdecimal() else label for label in labels]
    return json.dumps({"labels": keys, "scores": [float(score) for score in scores]}, ensure_ascii=False) + "\n"


_WRITERS: dict[str, Callable[[list[str], list[str]], str]] = {"libsvm": _libsvm, "json": _json, "tsv": _tsv}
