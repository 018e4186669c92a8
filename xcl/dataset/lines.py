# SPDX-License-Identifier: MIT
"""Lines of UTF-8 text files, packed or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from xcl.dataset.read import blocks, display_name, open_file
from xcl.errors import UserError

CHUNK_LINES = 20_000


def chunks(path: Path) -> Iterator[list[str]]:
    """Lists of lines without their ends, CHUNK_LINES or fewer each. Raises: UserError naming line and column."""
    waiting: list[str] = []
    with open_file(path) as file:
        for found in decoded(blocks(file, display_name(path)), display_name(path)):
            waiting += found
            while len(waiting) >= CHUNK_LINES:
                yield waiting[:CHUNK_LINES]
                waiting = waiting[CHUNK_LINES:]
    if waiting:
        yield waiting


def decoded(parts: Iterable[bytes], name: str) -> Iterator[list[str]]:
    """The lines that each part of a text completes, the last one too if it has no end. Raises: as `chunks`."""
    n_lines = 0
    rest = b""
    for part in chain(parts, [None]):
        whole, newline, rest = (rest + part).rpartition(b"\n") if part is not None else (rest, b"", b"")
        lines = _decode(whole + newline, name, n_lines)
        n_lines += len(lines)
        if lines:
            yield lines


def read(path: Path) -> list[str]:
    """All lines of a file without their ends. Raises: as `chunks`."""
    return list(chain.from_iterable(chunks(path)))


def _decode(data: bytes, name: str, n_before: int) -> list[str]:
    try:
        text = data.decode("utf-8-sig" if n_before == 0 else "utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start)
        column = e.start - (data.rfind(b"\n", 0, e.start) + 1)
        raise UserError(
            f"{name}:{n_before + line + 1}:{column + 1}: byte 0x{data[e.start]:02x} is not UTF-8 text"
        ) from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
