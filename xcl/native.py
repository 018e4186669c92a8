# SPDX-License-Identifier: MIT
"""The only file that imports xcl._native: handles, pointer checks, error codes.

`pointer` is not optional: cffi takes an int32 array for `float *` without a word.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from xcl._native import ffi, lib
from xcl.errors import ResourceError, UserError, WorkError

__all__ = ["DTYPES", "Engine", "check", "ffi", "isa_list", "lib", "pointer", "shuffle", "text", "version", "view"]

_CTYPES = {
    np.dtype(np.float32): "float *",
    np.dtype(np.int32): "int32_t *",
    np.dtype(np.int64): "int64_t *",
    np.dtype(np.uint32): "uint32_t *",
    np.dtype(np.uint64): "uint64_t *",
    np.dtype(np.uint8): "uint8_t *",
}
DTYPES = (np.float32, np.int32, np.int64, np.uint32, np.uint64)  # by xcl_type


def text(pointer: Any) -> str:
    """A C string as str."""
    return str(ffi.string(pointer).decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raise what a status means; nothing for XCL_OK.

    Raises: UserError, ResourceError, WorkError by code; RuntimeError for a state that only a bug of ours can cause.
    """
    if status == lib.XCL_OK:
        return
    message = text(lib.xcl_error_text())
    if status == lib.XCL_ERR_MEMORY:
        raise ResourceError(message)
    if status == lib.XCL_ERR_DIVERGED:
        raise WorkError(message)
    if status == lib.XCL_ERR_STATE:
        raise RuntimeError(message)
    raise UserError(message)


def pointer(array: npt.NDArray[Any] | None, dtype: npt.DTypeLike, writable: bool = False) -> Any:
    """A typed pointer to a C-contiguous array of exactly this dtype, or NULL for None.

    Raises: TypeError on another dtype, ValueError if it is not contiguous or not writable.
    """
    if array is None:
        return ffi.NULL
    if array.dtype != np.dtype(dtype):
        raise TypeError(f"expected {np.dtype(dtype)}, got {array.dtype}")
    if not array.flags.c_contiguous or (writable and not array.flags.writeable):
        raise ValueError("array is not contiguous or not writable")
    if array.size == 0:
        return ffi.NULL
    return ffi.cast(_CTYPES[array.dtype], array.ctypes.data)


def view(address: Any, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A numpy view of memory that C owns; valid as long as the owner says so."""
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, dtype)
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ffi.buffer(address, size), dtype).reshape(shape)


def version() -> str:
    """The engine's version."""
    return text(lib.xcl_version())


def isa_list() -> list[str]:
    """Instruction sets usable on this machine, best first."""
    return text(lib.xcl_isa_list()).split()


def shuffle(seed: int, epoch: int, n: int) -> npt.NDArray[np.int64]:
    """A permutation of 0..n-1, a function of seed and epoch alone."""
    order = np.empty(n, np.int64)
    if n:
        lib.xcl_shuffle(seed, epoch, n, pointer(order, np.int64, writable=True))
    return order


class Engine:
    """Threads and kernels. `isa`: a name of `isa_list()`; default: the variable XCL_ISA, else the best one here.

    Raises: UserError if the name is unknown or not supported by this CPU.
    """

    def __init__(self, threads: int = 1, isa: str | None = None) -> None:
        name = isa or os.environ.get("XCL_ISA") or None
        out = ffi.new("xcl_engine **")
        check(lib.xcl_engine_create(threads, name.encode() if name else ffi.NULL, out))
        self.handle = ffi.gc(out[0], lib.xcl_engine_free)

    @property
    def isa(self) -> str:
        return text(lib.xcl_engine_isa(self.handle))

    @property
    def threads(self) -> int:
        return int(lib.xcl_engine_threads(self.handle))
