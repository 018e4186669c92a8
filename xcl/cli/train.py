# SPDX-License-Identifier: MIT
"""xcl train."""

from __future__ import annotations


def train() -> None:
    """Not there yet."""
