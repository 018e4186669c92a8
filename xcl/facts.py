# SPDX-License-Identifier: MIT
"""Versions, processor, kernels, threads and memory: for `xcl doctor` and env.json."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import xcl
from xcl import machine, native


def machine_facts(n_threads: int | None = None) -> dict[str, str]:
    """Name and value of everything worth knowing about this installation and machine.

    Raises: UserError if XCL_ISA names an unknown instruction set.
    """
    threads = machine.threads(n_threads)
    memory = machine.memory()
    engine = native.Engine(1)
    facts = {
        "xcl": xcl.__version__,
        "engine": native.version(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": machine.processor(),
        "vector features": " ".join(machine.vector_features()) or "unknown",
        "kernels": f"{engine.isa} (usable here: {' '.join(native.isa_list())})",
        "threads": f"{threads.count} ({threads.reason})",
        "memory": f"{machine.gib(memory.available)} available of {machine.gib(memory.total)} ({memory.limit})",
        "huge pages": machine.huge_pages(),
    }
    for package in ("numpy", "scipy", "cffi", "typer", "rich", "pyyaml", "zstandard"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "missing"
    return facts
