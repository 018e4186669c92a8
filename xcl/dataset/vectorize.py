# SPDX-License-Identifier: MIT
"""A file of texts and label names to a libsvm file, a word list and a list of names.

Beside OUT.txt stand OUT.words.tsv (see `vectorizer`) and OUT.labels.txt (a name a line; the id of a name is its place,
by falling frequency, equal ones by code point).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from xcl.dataset import lines
from xcl.dataset.csr import Csr
from xcl.dataset.load import load
from xcl.dataset.read import is_regular, open_file
from xcl.dataset.vectorizer import Vectorizer
from xcl.dataset.write import open_rows
from xcl.errors import UserError
from xcl.files import write_text
from xcl.native import Engine

_ENDINGS = (".gz", ".bz2", ".zst", ".txt", ".svm", ".libsvm", ".npz")


def words_file(data: Path) -> Path:
    """Where `vectorize` puts the word list of a data file."""
    return _beside(data, ".words.tsv")


def labels_file(data: Path) -> Path:
    """Where `vectorize` puts the label names of a data file."""
    return _beside(data, ".labels.txt")


def _beside(data: Path, ending: str) -> Path:
    name = data.name
    while name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    return data.with_name(name + ending)


@dataclass(frozen=True)
class Vectorized:
    """What `vectorize` wrote. n_new_labels: names that the set given as `like` lacks."""

    n_rows: int
    n_features: int
    n_labels: int
    n_new_labels: int
    n_rows_without_labels: int
    n_rows_without_features: int


def vectorize(
    source: Path, out: Path, engine: Engine, like: Path | None = None, labels: Path | None = None, min_rows: int = 2
) -> Vectorized:
    """Turn lines `text<TAB>name,name` into rows.

    like: a set written before, whose words and names are used; names that it lacks get ids after its own. Without it,
    words that fewer than min_rows texts have are left out. labels: a libsvm file; line i of source is then a text only,
    and has the label ids of its row i.
    Raises: UserError for input that is not of this form.
    """
    with open_file(source) as file:
        if not is_regular(file):
            raise UserError(f"{source}: not a file; the texts are read twice")
    vectorizer = Vectorizer.load(words_file(like)) if like else None
    names = _GivenLabels(labels, engine, out.parent) if labels else _NamedLabels(like)
    texts = map(names.see, lines.chunks(source))
    if vectorizer is None:
        vectorizer = Vectorizer.fit(texts, min_rows)
    else:
        for _ in texts:
            pass
    names.settle(source)
    n_words = len(vectorizer.words)
    bare = unlabelled = 0
    with open_rows(out, (names.n_rows, n_words, names.n_labels)) as append:
        for chunk in lines.chunks(source):
            y, texts_of_rows = names.rows(chunk)
            x = vectorizer.transform(texts_of_rows)
            bare += int(np.count_nonzero(np.diff(x.indptr) == 0))
            unlabelled += int(np.count_nonzero(np.diff(y.indptr) == 0))
            append(x, y)
    if not like:
        vectorizer.save(words_file(out))
        names.save(labels_file(out))
    return Vectorized(names.n_rows, n_words, names.n_labels, names.n_new, unlabelled, bare)


class _Labels(Protocol):
    """Labels of the lines of a file that is read twice."""

    n_rows: int
    n_labels: int
    n_new: int

    def see(self, chunk: Sequence[str]) -> list[str]:
        """The texts of lines, in the first reading."""

    def settle(self, source: Path) -> None:
        """The first reading has ended."""

    def rows(self, chunk: Sequence[str]) -> tuple[Csr, list[str]]:
        """Labels and texts of lines, in the second reading."""

    def save(self, path: Path) -> None:
        """Write the names, if there are any."""


class _NamedLabels:
    """Names behind the last tab of each line."""

    def __init__(self, like: Path | None) -> None:
        self._known = lines.read(labels_file(like)) if like else []
        self._frequency: Counter[str] = Counter()
        self._ids: dict[str, int] = {}
        self.n_rows = self.n_labels = self.n_new = 0

    def see(self, chunk: Sequence[str]) -> list[str]:
        texts, names = _split(chunk)
        self._frequency.update(chain.from_iterable(names))
        self.n_rows += len(texts)
        return texts

    def settle(self, source: Path) -> None:
        frequency = self._frequency
        fresh = sorted(frequency.keys() - set(self._known), key=lambda name: (-frequency[name], name))
        if not self._known and not fresh:
            raise UserError(f"{source}: no line has labels; expected `text<TAB>name,name`, or give them by --labels")
        self._ids = {name: i for i, name in enumerate([*self._known, *fresh])}
        self.n_labels = len(self._ids)
        self.n_new = len(fresh) if self._known else 0

    def rows(self, chunk: Sequence[str]) -> tuple[Csr, list[str]]:
        texts, names = _split(chunk)
        indptr = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, names), np.int64, len(names)), out=indptr[1:])
        ids = np.array(list(chain.from_iterable(sorted(self._ids[name] for name in row) for row in names)), np.int32)
        return Csr(indptr, ids, None, self.n_labels), texts

    def save(self, path: Path) -> None:
        write_text(path, "".join(f"{name}\n" for name in self._ids))


class _GivenLabels:
    """Label ids of the rows of a libsvm file."""

    def __init__(self, path: Path, engine: Engine, folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".xcl-", dir=folder) as cache:
            y = load(path, engine, Path(cache)).y
            self._y = y.take(np.arange(y.n_rows))
        self._path = path
        self._at = 0
        self.n_rows = 0
        self.n_labels = y.n_cols
        self.n_new = 0

    def see(self, chunk: Sequence[str]) -> list[str]:
        self.n_rows += len(chunk)
        return list(chunk)

    def settle(self, source: Path) -> None:
        if self._y.n_rows != self.n_rows:
            raise UserError(f"{self._path} has {self._y.n_rows:,} rows, but {source} has {self.n_rows:,} lines")

    def rows(self, chunk: Sequence[str]) -> tuple[Csr, list[str]]:
        first = self._at
        self._at += len(chunk)
        return self._y.take(np.arange(first, self._at)), list(chunk)

    def save(self, path: Path) -> None:
        return None


def _split(chunk: Sequence[str]) -> tuple[list[str], list[set[str]]]:
    """Texts and distinct names; a line without a tab has no names."""
    parts = [line.rpartition("\t") if "\t" in line else (line, "", "") for line in chunk]
    names = [{name.strip() for name in part[2].split(",")} - {""} for part in parts]
    return [part[0] for part in parts], names
