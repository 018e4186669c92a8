# SPDX-License-Identifier: MIT
"""xcl predict."""

from __future__ import annotations


def predict() -> None:
    """Not there yet."""
