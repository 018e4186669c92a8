# SPDX-License-Identifier: MIT
"""Multi-label libsvm text to rows and back: the native parser, fed block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from xcl.dataset.csr import Csr
from xcl.errors import UserError
from xcl.native import Engine, check, ffi, lib, text, view

OnError = Literal["stop", "skip", "blank"]
_ON_ERROR: dict[str, int] = {
    "stop": lib.XCL_ON_ERROR_STOP,
    "skip": lib.XCL_ON_ERROR_DROP,
    "blank": lib.XCL_ON_ERROR_BLANK,
}


@dataclass(frozen=True)
class TextStats:
    """What was read of a text. Ids as written; -1: none, or, for a base, not known yet."""

    n_lines: int = 0
    n_rows: int = 0
    n_features: int = 0
    n_labels: int = 0
    declared_rows: int = -1
    declared_features: int = -1
    declared_labels: int = -1
    min_feature: int = -1
    max_feature: int = -1
    min_label: int = -1
    max_label: int = -1
    n_rows_without_features: int = 0
    n_rows_without_labels: int = 0
    n_unsorted_rows: int = 0
    n_duplicate_features: int = 0
    n_duplicate_labels: int = 0
    n_qid: int = 0
    n_malformed_rows: int = 0
    feature_base: int = -1
    label_base: int = -1
    malformed: tuple[str, ...] = ()


class Parser:
    """Text in blocks to rows. name: what error messages start with, usually the file.

    bases: what ids of features and labels count from, 0 or 1; -1: find out. on_error: what to do with a malformed
    row: "stop", "skip", or "blank" (a row with nothing stands for it).
    Raises: UserError("name:line:column: what") from `feed` and `finish`.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        bases: tuple[int, int] = (-1, -1),
        on_error: OnError = "stop",
    ) -> None:
        options = ffi.new("xcl_parser_options *", [*bases, _ON_ERROR[on_error]])
        out = ffi.new("xcl_parser **")
        check(lib.xcl_parser_create(engine.handle, options, out))
        self._handle = ffi.gc(out[0], lib.xcl_parser_free)
        self._engine = engine  # must outlive the handle
        self._name = name
        self._x = ffi.new("xcl_csr *")
        self._y = ffi.new("xcl_csr *")

    def feed(self, block: bytes) -> tuple[Csr, Csr]:
        """The rows that this block completes: x, y with ids as written, borrowed until the next call; n_cols is 0."""
        return self._rows(lib.xcl_parser_feed(self._handle, ffi.from_buffer(block), len(block), self._x, self._y))

    def finish(self) -> tuple[Csr, Csr]:
        """A last row without a line end, if any; checks the header, settles the bases.

        With errors skipped, a base in `stats` stays -1 if both id 0 and the number declared occur.
        """
        return self._rows(lib.xcl_parser_finish(self._handle, self._x, self._y))

    def parse(self, blocks: Iterable[bytes]) -> Iterator[tuple[Csr, Csr]]:
        """`feed` for each block, then `finish`; parts without rows are left out."""
        for block in blocks:
            x, y = self.feed(block)
            if x.n_rows:
                yield x, y
        x, y = self.finish()
        if x.n_rows:
            yield x, y

    @property
    def stats(self) -> TextStats:
        out = ffi.new("xcl_text_stats *")
        lib.xcl_parser_get_stats(self._handle, out)
        numbers = {f.name: int(getattr(out, f.name)) for f in fields(TextStats) if f.name != "malformed"}
        kept = min(len(out.malformed), numbers["n_malformed_rows"])
        return TextStats(**numbers, malformed=tuple(text(out.malformed[i]) for i in range(kept)))

    def _rows(self, status: int) -> tuple[Csr, Csr]:
        if status == lib.XCL_ERR_FORMAT:
            raise UserError(f"{self._name}:{text(lib.xcl_error_text())}")
        check(status)
        return _borrow(self._x), _borrow(self._y)


def _borrow(csr: Any) -> Csr:
    n_rows = int(csr.n_rows)
    indptr = view(csr.indptr, np.int64, (n_rows + 1,))
    nnz = int(indptr[-1])
    values = view(csr.values, np.float32, (nnz,)) if csr.values else None
    return Csr(indptr, view(csr.indices, np.int32, (nnz,)), values, 0)
