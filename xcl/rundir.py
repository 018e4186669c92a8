# SPDX-License-Identifier: MIT
"""Run directories: runs/<stem>-<n>, the link runs/latest, and the lock that keeps two processes out of one run.

config.yaml              resolved: enough to repeat the run
metrics.jsonl            one JSON object a logged step and an evaluation
model.safetensors        the finished model
checkpoint.safetensors   everything that --resume needs
env.json                 versions, processor, kernels, checksums of the data
train.log                what the screen showed
lock                     while a process trains here
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from xcl.errors import UserError

RUNS = Path("runs")
LATEST = "latest"


@dataclass(frozen=True)
class Run:
    """A run directory and the files in it."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def environment(self) -> Path:
        return self.path / "env.json"

    @property
    def log(self) -> Path:
        return self.path / "train.log"

    @property
    def words(self) -> Path:
        return self.path / "words.tsv"

    @property
    def label_names(self) -> Path:
        return self.path / "labels.txt"

    def __str__(self) -> str:
        return str(self.path)


def stem_of(config: Path) -> str:
    """The stem of run names for a config file, or for a run directory whose config is repeated."""
    if config.is_dir():
        return re.sub(r"-\d+$", "", config.resolve().name)
    return re.sub(r"[^\w.@+-]+", "-", config.stem).lstrip(".-") or "run"


def check_stem(name: str) -> str:
    """name, if it can be part of a folder name. Raises: UserError."""
    if not re.fullmatch(r"[\w@+][\w.@+-]*", name) or len(name) > 100:
        raise UserError(f"--name {name}: use letters, digits and . _ - + @ only, not starting with . or -")
    return name


def create(stem: str, root: Path = RUNS) -> Run:
    """Make the next run directory of a stem; `latest` points to it. Two processes never get the same."""
    root.mkdir(parents=True, exist_ok=True)
    numbers = [n for n, _ in _numbered(stem, root)]
    number = max(numbers, default=0) + 1
    while True:
        path = root / f"{stem}-{number}"
        try:
            path.mkdir()
            break
        except FileExistsError:
            number += 1
    point_latest(path)
    return Run(path)


def point_latest(path: Path) -> None:
    """Point runs/latest to a run; nothing where links are not possible."""
    temporary = path.parent / f".{LATEST}.{os.getpid()}"
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path.name)
        os.replace(temporary, path.parent / LATEST)


def of_name(name: str, root: Path = RUNS) -> list[Run]:
    """Runs with this stem, or the one with this full name, newest first."""
    if (root / name).is_dir():
        return [Run(root / name)]
    return [Run(path) for _, path in sorted(_numbered(name, root), reverse=True)]


def _numbered(stem: str, root: Path) -> Iterator[tuple[int, Path]]:
    for path in root.glob(f"{stem}-*") if root.is_dir() else ():
        number = path.name[len(stem) + 1 :]
        if number.isascii() and number.isdigit() and path.is_dir():
            yield int(number), path


def find(text: str | None, root: Path = RUNS) -> Run:
    """A run by its folder, by its name under runs/, or (None) the latest.

    Raises: UserError saying what was found instead.
    """
    if text is None:
        return Run(_latest(root))
    for path in (Path(text), root / text):
        if path.is_dir():
            if (path / "model.safetensors").exists() or (path / "checkpoint.safetensors").exists():
                return Run(path)
            raise UserError(f"{text}: {_why_not(path)}")
    if Path(text).exists():
        raise UserError(f"{text}: a file, not a run directory (one holds config.yaml and model.safetensors)")
    raise UserError(f"{text}: no such run, neither a folder nor a name under {root}/")


def _why_not(path: Path) -> str:
    if (path / "config.yaml").exists() and (path / "metrics.jsonl").exists():
        return f"this run has saved nothing yet; train it on with: xcl train {path} --resume"
    names = sorted(p.name for p in path.iterdir())
    seen = f"it holds {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}" if names else "it is empty"
    return f"not a run directory: no model.safetensors there, {seen}"


def _latest(root: Path) -> Path:
    link = root / LATEST
    if link.is_dir():
        return root / os.readlink(link) if link.is_symlink() else link
    found = [p.parent for p in root.glob("*/config.yaml")]
    if not found:
        raise UserError(f"no run under {root.absolute()}: name one, or train first with: xcl train CONFIG")
    return max(found, key=lambda p: p.stat().st_mtime)


@contextmanager
def lock(run: Run, notice: Callable[[str], None]) -> Iterator[None]:
    """Hold a run for this process. The lock of a process that died is taken over, with a notice.

    Raises: UserError naming the process and host that hold it.
    """
    path = run.path / "lock"
    fd = _take(path)
    try:
        before = os.read(fd, 200).decode("utf-8", "replace").strip()
        if before:
            notice(f"{run}: taking over from {before}, which has ended without finishing")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(fd)


def _take(path: Path) -> int:
    """An open, locked file descriptor of the lock file."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(fd, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            raise UserError(f"{path.parent}: in use by {owner}") from None
        try:
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except FileNotFoundError:
            pass  # the owner finished and removed it between our opening and locking
        os.close(fd)
