# SPDX-License-Identifier: MIT
"""xcl: extreme classification from sparse features on ordinary CPUs."""

__version__ = "0.1.0"
