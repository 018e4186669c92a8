# SPDX-License-Identifier: MIT
"""The binary copy of a parsed file: one file, memory-mapped, so that a second start is immediate and a set may be
larger than memory.

    0       b"xcl-data"
    8       JSON padded with blanks: format version, checksum of the source, counts, place and length of the sections
    4080    16 bytes of blake2b over the bytes before
    4096    sections, each at a multiple of 64: features int32, values float32, feature_ends int64, labels int32,
            label_ends int64 (the ends are indptr: one more than there are rows); ids count from 0; little-endian
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from xcl.dataset.csr import Csr
from xcl.dataset.text import TextStats

VERSION = 1
SUFFIX = ".xcldata"
_MAGIC = b"xcl-data"
_HEADER_BYTES = 4096
_DIGEST_BYTES = 16
_ALIGNMENT = 64
_SHIFT_ITEMS = 1 << 22
_STALE_SECONDS = 600
_SECTIONS = {"features": "<i4", "values": "<f4", "feature_ends": "<i8", "labels": "<i4", "label_ends": "<i8"}


class Writer:
    """Rows, block by block, into a file open for reading and writing. The first section is written in place, the
    others go to nameless files beside it and are appended by `finish`."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._file = file
        self._stack = ExitStack()
        file.seek(0)
        file.write(bytes(_HEADER_BYTES))
        self._parts: dict[str, IO[bytes]] = {"features": file}
        for name in list(_SECTIONS)[1:]:
            self._parts[name] = self._stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
        self._counts = dict.fromkeys(_SECTIONS, 0)
        for name in ("feature_ends", "label_ends"):
            self._append(name, np.zeros(1, np.int64))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, x: Csr, y: Csr) -> None:
        """The next rows; ids may still count from 1."""
        for name, csr in (("feature_ends", x), ("label_ends", y)):
            ids = name.removesuffix("_ends") + "s"
            self._append(name, csr.indptr[1:] + self._counts[ids])
            self._append(ids, csr.indices)
        assert x.values is not None
        self._append("values", x.values)

    def finish(self, stats: TextStats, checksum: str) -> None:
        """Put the sections together, make ids count from 0, write the header."""
        places: dict[str, list[int]] = {}
        for name, part in self._parts.items():
            if part is not self._file:
                self._file.seek(-self._file.seek(0, os.SEEK_END) % _ALIGNMENT, os.SEEK_END)
                start = self._file.tell()
                part.seek(0)
                shutil.copyfileobj(part, self._file, _SHIFT_ITEMS)
            else:
                start = _HEADER_BYTES
            places[name] = [start, self._counts[name]]
        end = self._file.tell()
        self._file.truncate(end)
        self._file.flush()
        for name, base in (("features", stats.feature_base), ("labels", stats.label_base)):
            if base > 0:
                self._shift(places[name][0], places[name][1], base)
        header = {"version": VERSION, "bytes": end, "checksum": checksum, "sections": places, "stats": asdict(stats)}
        body = (_MAGIC + json.dumps(header).encode()).ljust(_HEADER_BYTES - _DIGEST_BYTES)
        assert len(body) == _HEADER_BYTES - _DIGEST_BYTES
        self._file.seek(0)
        self._file.write(body + _digest(body))

    def _append(self, name: str, array: npt.NDArray[Any]) -> None:
        self._parts[name].write(np.ascontiguousarray(array, _SECTIONS[name]).data)
        self._counts[name] += len(array)

    def _shift(self, start: int, count: int, base: int) -> None:
        for first in range(0, count, _SHIFT_ITEMS):
            self._file.seek(start + 4 * first)
            ids = np.frombuffer(self._file.read(4 * min(_SHIFT_ITEMS, count - first)), "<i4") - np.int32(base)
            self._file.seek(start + 4 * first)
            self._file.write(ids.data)
        self._file.flush()


def read(path: Path, checksum: str) -> tuple[Csr, Csr, TextStats] | None:
    """Map a cache file: x, y (n_cols is 0) and counts. None if it is absent, cut, damaged or of another version."""
    try:
        with open(path, "rb") as file:
            body, digest = file.read(_HEADER_BYTES - _DIGEST_BYTES), file.read(_DIGEST_BYTES)
            if not body.startswith(_MAGIC) or digest != _digest(body):
                return None
            header = json.loads(body[len(_MAGIC) :])
            if header["version"] != VERSION or header["checksum"] != checksum:
                return None
            if os.fstat(file.fileno()).st_size != header["bytes"]:
                return None
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        return None
    arrays = {
        name: np.frombuffer(whole, dtype, header["sections"][name][1], header["sections"][name][0])
        for name, dtype in _SECTIONS.items()
    }
    stats = TextStats(**{**header["stats"], "malformed": tuple(header["stats"]["malformed"])})
    x = Csr(arrays["feature_ends"], arrays["features"], arrays["values"], 0)
    y = Csr(arrays["label_ends"], arrays["labels"], None, 0)
    return (x, y, stats) if x.nnz == len(x.indices) and y.nnz == len(y.indices) else None


def remove_stale(folder: Path) -> None:
    """Remove temporary files whose process is gone and that nobody wrote to for a while."""
    for path in folder.glob(f".*{SUFFIX}.*.tmp"):
        process = path.name.split(".")[-2]
        try:
            if time.time() - path.stat().st_mtime > _STALE_SECONDS and not _is_alive(process):
                path.unlink()
        except OSError:
            continue  # another process was faster


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
