# SPDX-License-Identifier: MIT
"""What this machine lets us use: processor, threads, memory. Reads /proc and /sys; what is not there is left out."""

from __future__ import annotations

import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Threads:
    """How many threads to use, and the reason in words."""

    count: int
    reason: str


@dataclass(frozen=True)
class Memory:
    """Bytes that this process may still take, and what sets the limit."""

    available: int
    limit: str
    total: int


def threads(wanted: int | None = None) -> Threads:
    """wanted, or the least of what affinity, cgroup quota and OMP_NUM_THREADS allow."""
    if wanted is not None:
        return Threads(wanted, "asked for")
    options = [Threads(_affinity(), "processors of this process")]
    quota = _cpu_quota()
    if quota is not None:
        options.append(Threads(max(1, int(quota)), f"cgroup quota of {quota:g} processors"))
    omp = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if omp.isdigit() and int(omp) > 0:
        options.append(Threads(int(omp), "OMP_NUM_THREADS"))
    return min(options, key=lambda option: option.count)


def memory() -> Memory:
    """The least of free memory, cgroup limit and ulimit -v."""
    info = _fields("/proc/meminfo")
    total = info.get("MemTotal", 0) * 1024 or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    options = [(info["MemAvailable"] * 1024 if "MemAvailable" in info else total, "free memory")]
    group = _cgroup_memory()
    if group is not None:
        options.append((group, "cgroup memory limit"))
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        options.append((limit - _fields("/proc/self/status").get("VmSize", 0) * 1024, "ulimit -v"))
    available, reason = min(options)
    return Memory(max(0, available), reason, total)


def resident_bytes() -> int:
    """Memory of this process now; its peak where /proc is missing."""
    status = _fields("/proc/self/status")
    return status.get("VmRSS", 0) * 1024 or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_bytes() -> int:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor() -> str:
    """The processor's name."""
    for line in _text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return platform.processor() or platform.machine()


def vector_features() -> list[str]:
    """Vector instruction sets that the processor reports."""
    for line in _text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            wanted = ("sse4_2", "avx", "fma", "amx", "asimd", "sve", "bf16", "neon")
            return [flag for flag in value.split() if flag.startswith(wanted)]
    return []


def huge_pages() -> str:
    """The kernel's setting for transparent huge pages: always, madvise, never, or "not available"."""
    setting = _text("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.partition("[")[2].partition("]")[0] or "not available"


def gib(n_bytes: float) -> str:
    """Bytes for people: 1.5 GiB, 12 MiB."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if n_bytes >= size:
            value = n_bytes / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return f"{max(0, n_bytes) / 1024:.0f} KiB"


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _fields(path: str) -> dict[str, int]:
    """Lines of the form `Name:  123 kB`."""
    out = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            out[name] = int(words[0])
    return out


def _cgroup_folders(controller: str) -> list[Path]:
    """This process' cgroup and its parents, in version 2 and version 1 trees."""
    folders = []
    for line in _text("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" or controller in names.split(","):
            root = _CGROUPS if number == "0" else _CGROUPS / controller
            here = root / path.lstrip("/")
            folders += [here, *[p for p in here.parents if p == root or root in p.parents]]
    return folders


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _cpu_quota() -> float | None:
    quotas = []
    for folder in _cgroup_folders("cpu"):
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            quotas.append(int(words[0]) / int(words[1]))
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and period:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _cgroup_memory() -> int | None:
    """Bytes left below the tightest limit; page cache that can be dropped counts as free."""
    left = []
    for folder in _cgroup_folders("memory"):
        for limit_file, used_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _number(folder / limit_file), _number(folder / used_file)
            if limit is not None and used is not None and limit < 1 << 60:
                left.append(limit - used + _inactive_file(folder))
    return min(left, default=None)


def _inactive_file(folder: Path) -> int:
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
