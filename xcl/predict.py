# SPDX-License-Identifier: MIT
"""Top-k labels of a stream of rows as text: one line out for every row in, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import numpy.typing as npt

from xcl.dataset.csr import Csr
from xcl.dataset.lines import decoded
from xcl.dataset.read import blocks, display_name, is_regular, live_blocks, open_file
from xcl.dataset.vectorizer import Vectorizer
from xcl.model import Model

CHUNK_ROWS = 1024
CHUNK_SCORES = 1 << 18  # scores written at a time: as text they take a hundred bytes each


@dataclass(frozen=True)
class Style:
    """How predictions are written. label_base: the first label id in the user's files. names: of labels, by id."""

    format: str
    label_base: int
    sigmoid: bool
    names: Sequence[str] | None = None


class TextStream:
    """Rows of texts, one a line; what follows a tab is ignored. - is stdin. live: from a pipe, so answer at once."""

    def __init__(self, path: str, vectorizer: Vectorizer) -> None:
        self._name = display_name(path)
        self._file = open_file(path)
        self._vectorizer = vectorizer
        self.live = not is_regular(self._file)

    def __iter__(self) -> Iterator[Csr]:
        """Raises: UserError if a line is not UTF-8."""
        with self._file as file:
            parts = live_blocks(file, self._name) if self.live else blocks(file, self._name)
            for lines in decoded(parts, self._name):
                yield self._vectorizer.transform([line.partition("\t")[0] for line in lines])


def predict(
    model: Model,
    rows: Iterable[Csr],
    k: int,
    lsh: bool,
    style: Style,
    out: TextIO,
    flush: bool,
) -> int:
    """Write the k best labels of all rows, which come in blocks. flush: after every block, for a reader that waits.

    Result: how many features were ignored because the model has none of that id.
    """
    line = _writer(style)
    unknown = 0
    k = min(k, model.options.n_labels)
    step = max(1, min(CHUNK_ROWS, CHUNK_SCORES // k))
    for block in rows:
        for start in range(0, block.n_rows, step):
            chunk = np.arange(start, min(start + step, block.n_rows), dtype=np.int64)
            ids, logits, n = model.predict(block, k, chunk, lsh)
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
    return _object([int(label) for label in labels], scores)


def _json_names(labels: list[str], scores: list[str]) -> str:
    return _object(labels, scores)


def _object(labels: Sequence[int | str], scores: list[str]) -> str:
    return json.dumps({"labels": labels, "scores": [float(score) for score in scores]}, ensure_ascii=False) + "\n"


def _writer(style: Style) -> Callable[[list[str], list[str]], str]:
    if style.format == "json":
        return _json if style.names is None else _json_names
    return {"libsvm": _libsvm, "tsv": _tsv}[style.format]
