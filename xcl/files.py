# SPDX-License-Identifier: MIT
"""Files that are whole or absent: written under a temporary name, synced, renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic(path: Path) -> Iterator[IO[Any]]:
    """A binary file (readable and writable) that takes the name `path` when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as e:
        temporary.unlink(missing_ok=True)
        if isinstance(e, OSError) and e.filename is None:
            e.filename = str(path)  # a full disk names no file
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """A small text file, atomically."""
    with atomic(path) as file:
        file.write(text.encode("utf-8"))


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def free_bytes(folder: Path) -> int:
    """Free disk space for this user."""
    return shutil.disk_usage(folder).free
