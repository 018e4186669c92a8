# SPDX-License-Identifier: MIT
"""Reading and writing safetensors: named arrays after a JSON header. Files can be read by the format's own library.

    8 bytes     length of the header, little-endian
    header      {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {...}}
    data        the arrays, without gaps

Beyond the format: the header is padded with blanks so that data start at a multiple of 64, arrays are ordered by how
well their sizes keep that alignment, and __metadata__ holds a CRC-32 of each array and one of the header itself
(with eight zeros in its place), checked on reading.
Nothing is unpickled and no length in a file is trusted: a damaged file ends in one line that names it.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xcl.errors import UserError
from xcl.files import atomic

ALIGNMENT = 64
MAX_HEADER = 16 << 20
MAX_DIMS = 8
BLOCK_BYTES = 16 << 20
_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_CRC = "crc32"
_HEADER_CRC = "header_crc32"


def write(path: Path, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write arrays (any strides; they are streamed, not copied as a whole) and metadata, atomically."""
    names = sorted(arrays, key=lambda name: -min(ALIGNMENT, arrays[name].nbytes & -arrays[name].nbytes or ALIGNMENT))
    sums = dict.fromkeys(names, 0)
    with atomic(path) as file:
        file.write(_header(names, arrays, sums, metadata))
        for name in names:
            for block in _blocks(arrays[name]):
                file.write(block)
                sums[name] = zlib.crc32(block, sums[name])
        file.seek(0)
        file.write(_header(names, arrays, sums, metadata))  # of the same length, now with the sums


def _header(
    names: list[str], arrays: Mapping[str, npt.NDArray[Any]], sums: Mapping[str, int], metadata: Mapping[str, str]
) -> bytes:
    crcs = json.dumps({name: _sum_text(value) for name, value in sums.items()})
    header: dict[str, Any] = {"__metadata__": {**metadata, _CRC: crcs, _HEADER_CRC: _sum_text(0)}}
    at = 0
    for name in names:
        array = arrays[name]
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + _with_sum(text, _sum_text(0), _sum_text(zlib.crc32(text)))


def _sum_text(value: int) -> str:
    return f"{value:08x}"


def _with_sum(header: bytes, before: str, after: str) -> bytes:
    """The same header with another sum of itself."""
    old, new = (f'"{_HEADER_CRC}":"{value}"'.encode("utf-8", "replace") for value in (before, after))
    return header.replace(old, new)


def _blocks(array: npt.NDArray[Any]) -> Iterator[bytes | memoryview]:
    """The bytes of an array in C order, a few MiB at a time."""
    if array.size == 0:
        return
    rows = np.atleast_1d(array)
    step = max(1, BLOCK_BYTES // max(1, rows.nbytes // len(rows)))
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(rows[start : start + step]).data.cast("B")


@dataclass(frozen=True)
class _Entry:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class File:
    """A safetensors file, memory-mapped. Arrays are read-only views of the map.

    Raises: UserError naming the file if it is missing, cut, damaged, or something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, str] = {}
        self._entries: dict[str, _Entry] = {}
        try:
            with open(path, "rb") as file:
                size = file.seek(0, 2)
                if size < 8:
                    raise self._damaged(f"{size} bytes, too short for a header")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as e:
            raise UserError(f"{path}: {e.strerror}") from None
        length = int.from_bytes(self._map[:8], "little")
        if length > min(size - 8, MAX_HEADER):
            raise self._damaged(f"a header of {length:,} bytes in a file of {size:,}: cut, or not a safetensors file")
        self._start = 8 + length
        self._parse(self._map[8 : self._start], size - self._start)

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def array(self, name: str) -> npt.NDArray[Any]:
        """A read-only view of an array. Raises: UserError if it is not there."""
        if name not in self._entries:
            raise self._damaged(f"no array {name!r}")
        entry = self._entries[name]
        count = prod(entry.shape)
        return np.frombuffer(self._map, entry.dtype, count, self._start + entry.begin).reshape(entry.shape)

    def verify(self) -> None:
        """Compare every array with its stored sum. Raises: UserError if one differs."""
        try:
            sums = json.loads(self.metadata.get(_CRC, "{}"))
            expected = {name: int(sums[name], 16) for name in self._entries if name in sums}
        except (ValueError, TypeError, RecursionError):
            raise self._damaged("unreadable checksums") from None
        for name, wanted in expected.items():
            found = 0
            for block in _blocks(self.array(name)):
                found = zlib.crc32(block, found)
            if found != wanted:
                raise self._damaged(f"the contents of {name!r} do not match their checksum")

    def _damaged(self, what: str) -> UserError:
        return UserError(f"{self.path}: cut or damaged ({what})")

    def _parse(self, text: bytes, data_size: int) -> None:
        try:
            header = json.loads(text.decode("utf-8"))
        except (ValueError, RecursionError):
            raise self._damaged("the header is not JSON") from None
        if not isinstance(header, dict):
            raise self._damaged("the header is not a table of arrays")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise self._damaged("the metadata are not text")
        wanted = metadata.get(_HEADER_CRC)
        if wanted is not None and wanted != _sum_text(zlib.crc32(_with_sum(text, wanted, _sum_text(0)))):
            raise self._damaged("the header does not match its checksum")
        self.metadata = metadata
        self._entries = {name: self._entry(name, value) for name, value in header.items()}
        at = 0
        for entry in sorted(self._entries.values(), key=lambda e: (e.begin, e.end)):
            if entry.begin != at:
                raise self._damaged("arrays overlap or leave gaps")
            at = entry.end
        if at != data_size:
            raise self._damaged(f"{data_size:,} bytes of arrays where the header says {at:,}")

    def _entry(self, name: str, value: Any) -> _Entry:
        try:
            dtype, shape, offsets = _DTYPES[value["dtype"]], value["shape"], value["data_offsets"]
            begin, end = offsets
            numbers = [*shape, begin, end]
        except (KeyError, TypeError, ValueError):
            raise self._damaged(f"unknown entry for {name!r}") from None
        sound = all(type(n) is int and 0 <= n < 1 << 63 for n in numbers) and len(shape) <= MAX_DIMS
        if not sound or prod(shape) * dtype.itemsize != end - begin or prod(n or 1 for n in shape) >= 1 << 62:
            raise self._damaged(f"shape and size of {name!r} do not fit")
        return _Entry(dtype, tuple(shape), begin, end)
