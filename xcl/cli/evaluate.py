# SPDX-License-Identifier: MIT
"""xcl evaluate."""

from __future__ import annotations


def evaluate() -> None:
    """Not there yet."""
