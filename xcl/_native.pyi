# SPDX-License-Identifier: MIT
"""The compiled extension, made from native/include/xcl.h. Its types are C's: `xcl.native` checks them."""

from typing import Any

ffi: Any
lib: Any
