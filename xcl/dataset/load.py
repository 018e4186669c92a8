# SPDX-License-Identifier: MIT
"""A data file as two matrices: parsed once, then mapped from its binary copy.

The copy is named by the file's checksum and by what else its content follows from. A small memo of size, time and
inode spares computing the checksum again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from xcl.dataset import cache, npz
from xcl.dataset.csr import Csr
from xcl.dataset.read import blocks, display_name, is_regular, open_file
from xcl.dataset.text import OnError, Parser, TextStats
from xcl.errors import ResourceError, UserError
from xcl.files import atomic, write_text
from xcl.machine import gib
from xcl.native import Engine

_MEMO = "memo.json"
_SETTLED_SECONDS = 2  # a file changed more recently may change again without a new time
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_building = threading.Lock()


@dataclass(frozen=True)
class IdSpace:
    """What ids mean: the training file decides it, other files follow. bases: what ids in text count from, 0 or 1."""

    feature_base: int
    label_base: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class Dataset:
    """The rows of a file. Ids count from 0 whatever they did in the file.

    x: (n_rows, n_features) with values.  y: (n_rows, n_labels) without.  Both are as wide as `ids` or as the file
    needs, whichever is more.  notices: one line each, what a user should know of the file.
    """

    name: str
    x: Csr
    y: Csr
    ids: IdSpace
    stats: TextStats
    checksum: str
    notices: tuple[str, ...]


def load(
    path: str | Path, engine: Engine, folder: Path, ids: IdSpace | None = None, on_error: OnError = "stop"
) -> Dataset:
    """Read a file of rows: libsvm text, plain or compressed, or .npz.

    folder: where the binary copy is or will be. ids: of the training file, for any other file; None: find out.
    Raises: UserError for a file that is malformed, absent, without rows; ResourceError if the disk is full.
    """
    name = display_name(path)
    if npz.pair_of(path):
        return _load_archive(path, name, ids)
    with _building, open_file(path) as file, _folder_errors(folder, name):
        if is_archive(file):
            return _load_archive(path, name, ids)
        folder.mkdir(parents=True, exist_ok=True)
        if not is_regular(file):
            file = _spool(file, folder)
        checksum = _checksum(file, name, folder / _MEMO)
        bases = "" if ids is None else f"-{ids.feature_base}{ids.label_base}"
        copy = folder / f"{checksum}{bases}{'' if on_error == 'stop' else '-' + on_error}{cache.SUFFIX}"
        found = cache.read(copy, checksum)
        if found is None:
            _build(file, name, copy, checksum, engine, ids, on_error)
            found = cache.read(copy, checksum)
    if found is None:
        raise ResourceError(f"{copy}: was written, but cannot be read back")
    x, y, stats = found
    if x.n_rows == 0:
        raise UserError(f"{name}: no rows; expected lines such as `3,7 12:0.5 40:1`")
    return make_dataset(name, x, y, stats, checksum, ids)


def is_archive(file: IO[bytes]) -> bool:
    """Whether a regular file is a zip archive, such as .npz."""
    return is_regular(file) and os.pread(file.fileno(), 4, 0) == b"PK\x03\x04"


def _load_archive(path: str | Path, name: str, ids: IdSpace | None) -> Dataset:
    x, y, stats = npz.load(path)
    if x.n_rows == 0:
        raise UserError(f"{name}: no rows")
    digest = hashlib.blake2b(digest_size=16)
    for array in (x.indptr, x.indices, x.values, y.indptr, y.indices):
        digest.update(array.data if array is not None else b"")
    return make_dataset(name, x, y, stats, digest.hexdigest(), ids)


def make_dataset(name: str, x: Csr, y: Csr, stats: TextStats, checksum: str, ids: IdSpace | None) -> Dataset:
    """Widths and notices for rows whose ids count from 0."""
    own = id_space(stats)
    n_features, n_labels = own.n_features, own.n_labels
    if ids is not None:
        n_features, n_labels = max(n_features, ids.n_features), max(n_labels, ids.n_labels)
    x, y = Csr(x.indptr, x.indices, x.values, n_features), Csr(y.indptr, y.indices, None, n_labels)
    return Dataset(name, x, y, ids or own, stats, checksum, notices_of(name, stats, ids))


def id_space(stats: TextStats) -> IdSpace:
    """What ids mean in a file read on its own."""
    feature_base, label_base = max(0, stats.feature_base), max(0, stats.label_base)
    return IdSpace(
        feature_base,
        label_base,
        _width(stats.declared_features, stats.max_feature, feature_base),
        _width(stats.declared_labels, stats.max_label, label_base),
    )


def notices_of(name: str, stats: TextStats, ids: IdSpace | None = None) -> tuple[str, ...]:
    """What a user should know of a file, a line each; what ids count from only if the file itself decides it."""
    return tuple(f"{name}: {text}" for text in (_base_notices(stats) if ids is None else []) + text_notices(stats))


def text_notices(stats: TextStats) -> list[str]:
    """What was tolerated in a text, one line each."""

    def say(count: int, one: str, many: str) -> list[str]:
        return [one if count == 1 else many.format(f"{count:,}")] if count else []

    out = say(stats.n_unsorted_rows, "1 row had unsorted features (sorted)", "{} rows had unsorted features (sorted)")
    out += say(stats.n_duplicate_features, "1 duplicate feature (summed)", "{} duplicate features (summed)")
    out += say(stats.n_duplicate_labels, "1 duplicate label (dropped)", "{} duplicate labels (dropped)")
    out += say(stats.n_qid, "1 qid field (ignored)", "{} qid fields (ignored)")
    if stats.n_malformed_rows:
        rows = "1 malformed row" if stats.n_malformed_rows == 1 else f"{stats.n_malformed_rows:,} malformed rows"
        out.append(f"{rows} skipped, first " + "; ".join(stats.malformed))
        if stats.declared_rows > stats.n_rows:
            out.append(f"the header declares {stats.declared_rows:,} rows, {stats.n_rows:,} were read")
    return out


def _base_notices(stats: TextStats) -> list[str]:
    kinds = [kind for kind, base in (("feature", stats.feature_base), ("label", stats.label_base)) if base == 1]
    return [f"{' and '.join(kinds)} ids count from 1"] if kinds else []


def _width(declared: int, highest: int, base: int) -> int:
    return declared if declared >= 0 else highest + 1 - base if highest >= 0 else 0


# ---- checksum and memo


def _checksum(file: IO[bytes], name: str, memo: Path) -> str:
    """blake2b of a file's bytes, remembered by path, size, time and inode."""
    before = _signature(file)
    key = os.path.abspath(name)
    known = _read_memo(memo)
    if known.get(key, [])[:3] == before:
        return str(known[key][3])
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    try:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    except OSError as e:
        raise UserError(f"{name}: {e.strerror}") from None
    checksum = digest.hexdigest()
    if time.time() - before[1] / 1e9 > _SETTLED_SECONDS and os.path.isfile(key):
        _drop_copies(known.get(key), known, key, memo.parent)
        write_text(memo, json.dumps({**_read_memo(memo), key: [*before, checksum]}, indent=1))
    return checksum


def _signature(file: IO[bytes]) -> list[int]:
    status = os.fstat(file.fileno())
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read_memo(memo: Path) -> dict[str, list[int | str]]:
    try:
        known = json.loads(memo.read_text(encoding="utf-8"))
        return {k: v for k, v in known.items() if isinstance(v, list) and len(v) == 4}
    except (OSError, ValueError, AttributeError):
        return {}


def _drop_copies(old: list[int | str] | None, known: dict[str, list[int | str]], key: str, folder: Path) -> None:
    """Remove copies of what a file held before, if no other file holds it."""
    if old is None or any(entry[3] == old[3] for path, entry in known.items() if path != key):
        return
    for copy in folder.glob(f"{old[3]}*{cache.SUFFIX}"):
        copy.unlink(missing_ok=True)


# ---- building the copy


def _build(
    file: IO[bytes], name: str, copy: Path, checksum: str, engine: Engine, ids: IdSpace | None, on_error: OnError
) -> None:
    cache.remove_stale(copy.parent)
    before = _signature(file)
    _check_space(before[0], copy.parent, name)
    bases = (-1, -1) if ids is None else (ids.feature_base, ids.label_base)
    with atomic(copy) as out:
        stats = _parse(file, name, out, copy.parent, checksum, Parser(engine, name, bases, on_error))
        if -1 in (stats.feature_base, stats.label_base):
            # ids contradict the header, but errors are skipped: now 0 is known to be the first id
            again = Parser(engine, name, (max(0, stats.feature_base), max(0, stats.label_base)), on_error)
            _parse(file, name, out, copy.parent, checksum, again)
        if _signature(file) != before:
            raise UserError(f"{name}: changed while it was read; try again")


def _parse(file: IO[bytes], name: str, out: IO[bytes], folder: Path, checksum: str, parser: Parser) -> TextStats:
    file.seek(0)
    with cache.Writer(out, folder) as writer:
        for x, y in parser.parse(blocks(file, name)):
            writer.append(x, y)
        stats = parser.stats
        if -1 not in (stats.feature_base, stats.label_base):
            writer.finish(stats, checksum)
    return stats


def _check_space(n_bytes: int, folder: Path, name: str) -> None:
    """Refuse early when the copy cannot fit. Plain text shrinks to no less than two fifths; packed text grows."""
    needed, free = n_bytes * 2 // 5, shutil.disk_usage(folder).free
    if free < needed:
        raise ResourceError(
            f"{folder}: {gib(free)} free, but the binary copy of {name} takes {gib(needed)} or more; "
            "set data.cache to a folder on a larger disk"
        )


def _spool(pipe: IO[bytes], folder: Path) -> IO[bytes]:
    """What a pipe gives, as a nameless file that can be read twice."""
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    shutil.copyfileobj(pipe, file, 1 << 20)
    file.seek(0)
    return file


class _folder_errors:
    """Turn what the system says about the cache folder into one line."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _FULL:
            raise ResourceError(
                f"{self._folder}: the disk is full; the binary copy of {self._name} does not fit; "
                "set data.cache to a folder on a larger disk"
            ) from None
        raise UserError(
            f"{self._folder}: cannot write the binary copy of {self._name}: {error.strerror}; "
            "set data.cache to another folder"
        ) from None
