# SPDX-License-Identifier: MIT
"""Rows one block at a time, in order: for prediction, where a row in must be a row out, at once if the input waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xcl.dataset import npz
from xcl.dataset.csr import Csr
from xcl.dataset.load import IdSpace, is_archive, text_notices
from xcl.dataset.read import blocks, display_name, is_regular, live_blocks, open_file
from xcl.dataset.text import OnError, Parser, TextStats
from xcl.native import Engine


class RowStream:
    """Blocks of rows of a file, or of a pipe as they arrive; - is stdin. Ids count from 0; features may be unknown.

    live: whether rows come from a pipe, so that answers should be given at once.
    Raises: UserError while iterating, for malformed text; with on_error="blank" such a row has nothing.
    """

    def __init__(self, path: str | Path, engine: Engine, ids: IdSpace, on_error: OnError = "stop") -> None:
        self._name = display_name(path)
        self._path = path
        self._ids = ids
        self._file = None if npz.pair_of(path) else open_file(path)
        self.live = self._file is not None and not is_regular(self._file)
        self._parser = Parser(engine, self._name, (ids.feature_base, ids.label_base), on_error)

    def __iter__(self) -> Iterator[tuple[Csr, Csr]]:
        """x, y of at least one row, valid until the next block; n_cols are those of the model."""
        if self._file is None or (not self.live and is_archive(self._file)):
            x, y, _ = npz.load(self._path)
            yield self._as_model(x, y, (0, 0))
            return
        with self._file as file:
            parts = live_blocks(file, self._name) if self.live else blocks(file, self._name)
            for x, y in self._parser.parse(parts):
                yield self._as_model(x, y, (self._ids.feature_base, self._ids.label_base))

    @property
    def stats(self) -> TextStats:
        return self._parser.stats

    @property
    def notices(self) -> list[str]:
        """What was tolerated so far, one line each."""
        return [f"{self._name}: {text}" for text in text_notices(self.stats)]

    def _as_model(self, x: Csr, y: Csr, bases: tuple[int, int]) -> tuple[Csr, Csr]:
        features = x.indices - bases[0] if bases[0] else x.indices
        labels = y.indices - bases[1] if bases[1] else y.indices
        ids = self._ids
        return Csr(x.indptr, features, x.values, ids.n_features), Csr(y.indptr, labels, None, ids.n_labels)
