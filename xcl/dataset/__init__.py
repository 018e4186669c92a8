# SPDX-License-Identifier: MIT
"""Data sets: reading, caching, writing, making. Rows come out as `Csr`."""
