# SPDX-License-Identifier: MIT
"""Texts to rows of word features.

    words    letters, digits and marks of a text after NFKC normalisation and case folding
    value    count * (ln((1 + n) / (1 + df)) + 1), then a row is scaled to Euclidean length 1
             n: texts of the training file; df: those of them with the word

The id of a word is its rank by falling df, equal ones by code point.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xcl.dataset import lines
from xcl.dataset.csr import Csr
from xcl.errors import UserError
from xcl.files import write_text

_HEADER = "# words and the texts they are in; texts: "


class Vectorizer:
    """Words and in how many of n_texts texts each is. The id of a word is its place."""

    def __init__(self, words: Sequence[str], df: npt.NDArray[np.int64], n_texts: int) -> None:
        self.words = list(words)
        self.df = df
        self.n_texts = n_texts
        self._ids = {word: i for i, word in enumerate(self.words)}
        self._idf = np.log((1 + n_texts) / (1 + df)) + 1

    @classmethod
    def fit(cls, chunks: Iterable[Sequence[str]], min_rows: int = 2) -> Vectorizer:
        """Words that at least min_rows texts have. chunks: lists of texts. Raises: UserError if there is none."""
        seen: defaultdict[str, int] = defaultdict()
        seen.default_factory = seen.__len__
        df = np.zeros(0, np.int64)
        n_texts = 0
        for texts in chunks:
            tokens, rows = _tokenize(texts)
            ids = np.fromiter(map(seen.__getitem__, tokens), np.int64, len(rows))
            n_words = max(1, len(seen))
            counts = np.bincount(np.unique(rows * n_words + ids) % n_words, minlength=len(seen))
            counts[: len(df)] += df
            df = counts
            n_texts += len(texts)
        words = list(seen)
        kept = np.flatnonzero(df >= min_rows).tolist()
        if not kept:
            raise UserError(f"no word is in {min_rows} of the {n_texts:,} texts; lower --min-rows, or check the texts")
        order = sorted(kept, key=lambda i: (-df[i], words[i]))
        return cls([words[i] for i in order], df[order], n_texts)

    def transform(self, texts: Sequence[str]) -> Csr:
        """A row of unit length for each text; a row with nothing if it has no known word."""
        tokens, rows = _tokenize(texts)
        ids = np.fromiter(map(self._ids.get, tokens, repeat(-1)), np.int64, len(rows))
        n_words = len(self.words)
        cells, counts = np.unique((rows * n_words + ids)[ids >= 0], return_counts=True)
        rows, ids = np.divmod(cells, n_words)
        values = counts * self._idf[ids]
        lengths = np.sqrt(np.bincount(rows, values * values, minlength=len(texts)))
        indptr = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=len(texts)), out=indptr[1:])
        return Csr(indptr, ids.astype(np.int32), (values / lengths[rows]).astype(np.float32), n_words)

    def save(self, path: Path) -> None:
        """Write words and counts as text, atomically: a comment line, then word and count on a line each."""
        rows = [f"{_HEADER}{self.n_texts}", *(f"{w}\t{n}" for w, n in zip(self.words, self.df.tolist(), strict=True))]
        write_text(path, "\n".join(rows) + "\n")

    @classmethod
    def load(cls, path: Path) -> Vectorizer:
        """What `save` wrote. Raises: UserError if the file is absent or something else."""
        head, *rows = lines.read(path) or [""]
        try:
            words, counts = zip(*(row.split("\t") for row in rows), strict=True)
            df, n_texts = np.array(counts, np.int64), int(head.removeprefix(_HEADER))
        except ValueError:
            raise UserError(f"{path}: not a word list written by `xcl data vectorize`") from None
        if len(set(words)) < len(words) or df.min() < 1 or df.max() > n_texts:
            raise UserError(f"{path}: damaged: a word occurs twice, or its count is not in 1 to {n_texts}")
        return cls(words, df, n_texts)


def _tokenize(texts: Sequence[str]) -> tuple[Iterator[str], npt.NDArray[np.int64]]:
    """The words of all texts, and for each which text it is in."""
    find = _pattern().findall
    found = [find(unicodedata.normalize("NFKC", text).casefold()) for text in texts]
    counts = np.fromiter(map(len, found), np.int64, len(found))
    return chain.from_iterable(found), np.repeat(np.arange(len(found)), counts)


@cache
def _pattern() -> re.Pattern[str]:
    r"""Words. Python's \w lacks marks, without which words of many scripts would fall apart."""
    marks = "".join(chr(c) for c in range(0x300, 0x10000) if unicodedata.category(chr(c)).startswith("M"))
    return re.compile(rf"[\w{marks}]+")
