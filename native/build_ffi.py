# SPDX-License-Identifier: MIT
"""Give the public header's declarations to cffi: `python -m cffi.gen_src exec-python build_ffi.py out.c`."""

from pathlib import Path

from cffi import FFI

header = Path(__file__).with_name("include") / "xcl.h"
_, _, rest = header.read_text(encoding="utf-8").partition("/* cffi: begin")
declarations, _, _ = rest.partition("*/")[2].partition("/* cffi: end */")

ffibuilder = FFI()
ffibuilder.cdef(declarations)
ffibuilder.set_source("xcl._native", '#include "xcl.h"')
