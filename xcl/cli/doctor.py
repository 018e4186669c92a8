# SPDX-License-Identifier: MIT
"""xcl doctor: what a bug report needs."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Print versions, processor, chosen kernels, threads and memory, as a bug report needs them.

    The variable XCL_ISA forces an instruction set: XCL_ISA=portable xcl train ...

    \b
    Example:
      xcl doctor
    """
    import json

    facts = machine_facts()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        print(f"{name + ':':<{width}}{value}")


def machine_facts(n_threads: int | None = None) -> dict[str, str]:
    """Name and value of everything worth knowing about this installation and machine.

    Raises: UserError if XCL_ISA names an unknown instruction set.
    """
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import xcl
    from xcl import machine, native

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
