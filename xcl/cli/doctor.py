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

    from xcl.facts import machine_facts

    facts = machine_facts()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        print(f"{name + ':':<{width}}{value}")
