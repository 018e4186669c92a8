# SPDX-License-Identifier: MIT
"""Rows to files: libsvm text with a header, packed by the name's ending, or .npz."""

from __future__ import annotations

import bz2
import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard

from xcl.dataset import npz
from xcl.dataset.csr import Csr
from xcl.errors import UserError
from xcl.files import atomic
from xcl.native import check, ffi, lib, pointer

_CHUNK_ENTRIES = 1 << 20
_FEATURE_BYTES, _LABEL_BYTES, _ROW_BYTES = 28, 12, 2  # the most that one takes as text; see xcl_rows_format


def refuse_existing(path: str | Path, force: bool) -> None:
    """Raises: UserError if a file is there and may not be replaced, or if its folder is missing."""
    if str(path) == "-":
        return
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file to write")
    if path.exists() and not force:
        raise UserError(f"{path}: exists already; --force replaces it")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder")


class TextWriter:
    """Rows as libsvm text. bases: what written ids count from. sizes: rows, features, labels for the header."""

    def __init__(self, out: IO[bytes], sizes: tuple[int, int, int], bases: tuple[int, int] = (0, 0)) -> None:
        self._out = out
        self._bases = bases
        self._buffer = np.empty(0, np.uint8)
        out.write(b"%d %d %d\n" % sizes)

    def append(self, x: Csr, y: Csr) -> None:
        """All rows of x and y, whose ids count from 0."""
        views = [_view(x), _view(y)]
        weights = _FEATURE_BYTES * x.indptr + _LABEL_BYTES * y.indptr + _ROW_BYTES * np.arange(x.n_rows + 1)
        first = 0
        while first < x.n_rows:
            limit = weights[first] + _FEATURE_BYTES * _CHUNK_ENTRIES
            last = max(first + 1, int(np.searchsorted(weights, limit, "right")) - 1)
            room = int(weights[last] - weights[first])
            if room > len(self._buffer):
                self._buffer = np.empty(room, np.uint8)
            text = ffi.cast("char *", self._buffer.ctypes.data)
            size = ffi.new("int64_t *")
            check(lib.xcl_rows_format(*views, first, last - first, *self._bases, text, len(self._buffer), size))
            self._out.write(self._buffer[: size[0]].data)
            first = last


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write bytes to, whole or absent; packed if its name ends in .gz, .bz2 or .zst; - is stdout."""
    with ExitStack() as stack:
        if str(path) == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        path = Path(path)
        file: Any = stack.enter_context(atomic(path))
        suffix = path.suffix.lower()
        if suffix == ".gz":  # no name and time inside: the same rows give the same bytes
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        elif suffix == ".bz2":
            file = stack.enter_context(bz2.BZ2File(file, "wb"))
        elif suffix == ".zst":
            file = stack.enter_context(zstandard.ZstdCompressor().stream_writer(file, closefd=False))
        yield file


@contextmanager
def open_rows(
    path: str | Path, sizes: tuple[int, int, int], bases: tuple[int, int] = (0, 0)
) -> Iterator[Callable[[Csr, Csr], None]]:
    """A function that appends rows to a file, text or, by the name's ending, .npz (collected in memory).

    sizes: rows, features, labels.  bases: what ids in text count from.
    """
    if not str(path).lower().endswith(".npz"):
        with open_text(path) as out:
            yield TextWriter(out, sizes, bases).append
        return
    xs: list[Csr] = []
    ys: list[Csr] = []

    def append(x: Csr, y: Csr) -> None:
        xs.append(x)
        ys.append(y)

    yield append
    npz.save(Path(path), Csr.concat(xs, sizes[1]), Csr.concat(ys, sizes[2]), bases)


def write(path: str | Path, x: Csr, y: Csr, bases: tuple[int, int]) -> None:
    """All rows as .npz or text, by the name's ending. bases: what ids in text count from."""
    with open_rows(path, (x.n_rows, x.n_cols, y.n_cols), bases) as append:
        append(x, y)


def _view(csr: Csr) -> object:
    parts = [pointer(csr.indptr, np.int64), pointer(csr.indices, np.int32), pointer(csr.values, np.float32)]
    return ffi.new("xcl_csr *", [csr.n_rows, *parts])
