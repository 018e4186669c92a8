# SPDX-License-Identifier: MIT
"""metrics.jsonl: one JSON object a line, cut back to the checkpoint when a run is resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """Appends records to a file. keep: bytes of an existing file that stay; what follows was after the checkpoint."""

    def __init__(self, path: Path, keep: int) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 (closed by __exit__)
        self._file.truncate(min(keep, os.fstat(self._file.fileno()).st_size))
        self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, record: dict[str, Any]) -> None:
        """Write a record at once. Raises: ValueError if a number in it is not finite."""
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        """Make what was written survive a power cut; the length of the file."""
        os.fsync(self._file.fileno())
        return self._file.tell()


def last_record(path: Path) -> dict[str, Any]:
    """The last complete record of a file; empty if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    try:
        record = json.loads(lines[-2]) if len(lines) > 1 else {}
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
