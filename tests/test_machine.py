# SPDX-License-Identifier: MIT
"""What the machine lets us use, against made-up /proc and /sys files."""

import os
import subprocess
import sys

import pytest

from xcl import machine
from xcl.machine import gib


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Replace the files that machine reads; paths below the cgroup folder are relative."""
    held = {}
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "_text", lambda p: held.get(str(p).removeprefix(f"{tmp_path}/"), ""))
    monkeypatch.setattr(machine, "_affinity", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return held


def test_threads_are_the_least_of_all_limits(files, monkeypatch):
    assert machine.threads().count == 8
    files |= {"/proc/self/cgroup": "0::/a/b\n", "a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}
    assert machine.threads() == machine.Threads(2, "cgroup quota of 2.5 processors")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.threads().reason == "OMP_NUM_THREADS"
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert machine.threads().count == 2
    assert machine.threads(5) == machine.Threads(5, "asked for")


def test_a_quota_below_one_is_one_thread(files):
    files |= {
        "/proc/self/cgroup": "4:cpu,cpuacct:/x\n",
        "cpu/x/cpu.cfs_quota_us": "50000",
        "cpu/x/cpu.cfs_period_us": "100000",
    }
    assert machine.threads().count == 1


def test_memory_is_the_least_of_all_limits(files):
    files["/proc/meminfo"] = "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n"
    assert machine.memory() == machine.Memory(6000 * 1024, "free memory", 8000 * 1024)
    files |= {
        "/proc/self/cgroup": "0::/job\n",
        "job/memory.max": "3000000\n",
        "job/memory.current": "1000000\n",
        "job/memory.stat": "anon 7\ninactive_file 500000\n",
        "memory.max": "max\n",
    }
    assert machine.memory() == machine.Memory(2_500_000, "cgroup memory limit", 8000 * 1024)


def test_address_space_limits_count():
    code = "from xcl import machine; m = machine.memory(); print(m.limit, m.available < 3 << 30)"
    command = f"ulimit -v {3 << 20}; exec {sys.executable} -c '{code}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env={**os.environ})
    assert done.stdout == "ulimit -v True\n", done.stderr


def test_missing_files_are_no_error(files):
    assert machine.memory().available > 0
    assert machine.huge_pages() == "not available" and machine.vector_features() == []
    assert machine.processor()


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 KiB"), (-5, "0 KiB"), (2048, "2 KiB"), (3 << 20, "3.0 MiB"), (12 << 30, "12 GiB"), (5e12, "4.5 TiB")],
)
def test_sizes_for_people(n, text):
    assert gib(n) == text
