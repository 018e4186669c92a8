# SPDX-License-Identifier: MIT
"""Files and pipes as blocks of plain bytes. What a file is compressed with is told by its content, not by its name."""

from __future__ import annotations

import bz2
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import zstandard

from xcl.errors import UserError

BLOCK_BYTES = 4 << 20
_CHUNK_BYTES = 64 << 10  # of compressed data: bounds what one call may unpack
_DECOMPRESSORS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(wbits=31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
}
_OTHERS = {
    b"\xfd7zXZ": "an xz archive: unpack it first (xz -d)",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"\x89HDF": "an HDF5 file, not text",
    b"\x93NUMPY": "a numpy array; matrices are read as .npz, see xcl data convert --help",
    b"PAR1": "a parquet file, not text",
    b"%PDF": "a PDF document, not text",
    b"\xff\xfe": "UTF-16 text: convert it to UTF-8",
    b"\xfe\xff": "UTF-16 text: convert it to UTF-8",
}


def open_file(path: str | Path) -> IO[bytes]:
    """A file to read, unbuffered; - is stdin. Raises: UserError if there is no such file or it cannot be read."""
    if str(path) == "-":
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    try:
        return open(path, "rb", buffering=0)
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; a data file is expected") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as e:
        raise UserError(f"{path}: {getattr(e, 'strerror', None) or e}") from None


def is_regular(file: IO[bytes]) -> bool:
    """Whether a file can be read twice, unlike a pipe."""
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def display_name(path: str | Path) -> str:
    """How messages call an input."""
    return "stdin" if str(path) == "-" else str(path)


def blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Large blocks of a file from its current position, plain; of a regular one the next block is read ahead in
    another thread (a pipe might keep that thread waiting after Ctrl-C).

    Raises: UserError if the file cannot be read, is cut off, damaged, or something else than text.
    """
    parts = _text_only(_gather(_plain(_chunks(file, name), name)), name)
    return _ahead(parts) if is_regular(file) else parts


def live_blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Blocks of a pipe as they arrive, plain: nothing waits for more input than there is. Raises: as `blocks`."""
    return _text_only(_plain(_chunks(file, name), name), name)


def _chunks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Raw reads: one small one, by which the caller tells what it is, then large ones if it is plain."""
    size = _CHUNK_BYTES
    try:
        while chunk := os.read(file.fileno(), size):
            yield chunk
            if size == _CHUNK_BYTES and _kind(chunk) is None:
                size = BLOCK_BYTES
    except OSError as e:
        raise UserError(f"{name}: {e.strerror}") from None


def _kind(head: bytes) -> tuple[str, Callable[[], Any]] | None:
    return next((kind for magic, kind in _DECOMPRESSORS.items() if head.startswith(magic)), None)


def _plain(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    head = next(chunks, b"")
    while 0 < len(head) < 6 and b"\n" not in head and (more := next(chunks, b"")):
        head += more  # a slow pipe: a signature may come in parts
    what = next((text for magic, text in _OTHERS.items() if head.startswith(magic)), None)
    if what:
        raise UserError(f"{name}: {what}")
    kind = _kind(head)

    def all_chunks() -> Iterator[bytes]:
        if head:
            yield head
        yield from chunks

    return _unpack(all_chunks(), name, *kind) if kind else all_chunks()


def _unpack(chunks: Iterable[bytes], name: str, method: str, new: Callable[[], Any]) -> Iterator[bytes]:
    """Any number of compressed members, one after the other."""
    unpacker = new()
    for chunk in chunks:
        while chunk:
            if unpacker.eof:
                chunk = chunk.lstrip(b"\0")  # some tools pad the end
                if not chunk:
                    break
                unpacker = new()
            try:
                out = unpacker.decompress(chunk)
            except (zlib.error, OSError, EOFError, zstandard.ZstdError) as e:
                raise UserError(f"{name}: damaged {method} data ({e})") from None
            chunk = unpacker.unused_data if unpacker.eof else b""
            if out:
                yield out
    if not unpacker.eof:
        raise UserError(f"{name}: the {method} data end too early: the file is cut off")


def _gather(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of at least BLOCK_BYTES."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= BLOCK_BYTES:
            yield waiting[0] if len(waiting) == 1 else b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def _text_only(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Refuse binary data without line ends, of which a parser would collect gigabytes as one line."""
    for part in parts:
        if b"\n" not in part and b"\0" in part:
            raise UserError(f"{name}: binary data, not text")
        yield part


def _ahead(items: Iterator[bytes]) -> Iterator[bytes]:
    """The same items; the next one is made in another thread."""
    with ThreadPoolExecutor(1) as pool:
        item = pool.submit(next, items, None)
        while (value := item.result()) is not None:
            item = pool.submit(next, items, None)
            yield value
