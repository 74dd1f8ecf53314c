"""Kernels as machine code, where llvmlite is installed: one pass over memory, not one a function.

A family asks for a kernel by its formula, or its name (`compiled/eager/formulas.py`), where arrays
are large enough for it to pay. The answer is the results, or None: then it is done by NumPy. Which
of the two depends on dtypes, sizes, strides and options alone, so that equal calls give equal bits.

The first call of a geometry has its kernel made: 10 to 40 ms, 2 to 5 from the cache on disk.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

from pullback.core.arrays import F32, F64, I64, Array
from pullback.core.ports import ports
from pullback.operators.arrays import programs
from pullback.operators.arrays.direct import are_plain
from pullback.operators.dispatch.observers import compiling

__all__ = ["MANY", "by_machine_code", "forget", "is_available", "is_wanted", "kernel_of",
           "makes_kernels", "rows_of", "setting"]  # fmt: skip

MANY = 2048  # elements, from which on it pays to go over them once and not several times
# Formulas that read whole numbers as well.
_WITH_PLACES = frozenset({programs.PUT_PLACES, programs.CLASS_LOSSES, programs.CLASS_SLOPES})
_MOST = 128  # geometries of one formula: a program whose sizes always vary would compile for ever


class _Setting:
    """Whether kernels are machine code here: None until a large array first asks."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on: bool | None = None


setting = _Setting()
_kernels: dict[Any, Any] = {}  # what a call looks like -> its kernel; None: NumPy's way
_by_shapes: dict[Any, list[Any]] = {}  # the same by shapes and options alone
_counts: Counter[Any] = Counter()
_making = threading.RLock()
# Whether a geometry that was not met yet gets a kernel: not for results that nobody will read.
makes_kernels: ContextVar[bool] = ContextVar("makes_kernels", default=True)


def is_available() -> bool:
    """Whether llvmlite is installed, without loading it."""
    return find_spec("llvmlite") is not None


def by_machine_code(formula: Any, arrays: tuple[Array, ...], *options: Any) -> Any:
    """The results of a formula, a tuple of arrays; None where NumPy should do it.

    The formula is a pointwise operator's own (operators/formula), or one by its name.
    """
    shapes = (formula, options, *[one.shape for one in arrays])
    for kernel in _by_shapes.get(shapes, ()) if setting.on else ():
        made = kernel.run(*arrays)  # which looks at dtypes and strides, half as long as we would
        if made is not None:
            return made
    kernel = kernel_of(formula, arrays, *options)
    if kernel is None:
        return None
    made = kernel.run(*arrays)
    return kernel.run_beside(arrays) if made is None else made


def kernel_of(formula: Any, arrays: tuple[Array, ...], *options: Any) -> Any:
    """The kernel for arrays like these, for who calls it many times; None where NumPy should."""
    if (not setting.on and not is_wanted()) or not are_plain(arrays):
        return None
    key = (formula, options, *[(one.shape, one.strides, one.dtype) for one in arrays])
    kernel = _kernels.get(key, _kernels)
    return _made(key, formula, arrays, options) if kernel is _kernels else kernel


def is_wanted() -> bool:
    """Whether kernels are machine code; the environment may say no."""
    if setting.on is None:
        setting.on = os.environ.get("PULLBACK_NATIVE", "1") != "0" and is_available()
    return setting.on


def _made(key: Any, formula: Any, arrays: tuple[Array, ...], options: tuple[Any, ...]) -> Any:
    """The kernel of a geometry that was not met before."""
    known = (F32, F64, I64) if formula in _WITH_PLACES else (F32, F64)
    if any(all(one.dtype is not kind for kind in known) for one in arrays):
        return None
    if not makes_kernels.get():
        return None  # and it is not noted: the next call may want one
    with _making:
        if key in _kernels or _counts[formula] >= _MOST:
            return _kernels.get(key)
        with compiling(str(getattr(formula, "name", formula))):
            kernel = _kernels[key] = ports.native_kernel(formula, arrays, options)
        _counts[formula] += 1
        if kernel is not None:
            shapes = (formula, options, *[one.shape for one in arrays])
            _by_shapes.setdefault(shapes, []).append(kernel)
        return kernel


def rows_of(size: int) -> tuple[int, int]:
    """Into how many rows of how many elements a flat array is cut for threads to share."""
    columns = min(size & -size, _ROW)
    return (size // columns, columns) if columns >= 64 else (1, size)


_ROW = 4096  # elements at most


def forget() -> None:
    """Have all kernels made anew: for another number of threads, or none of them."""
    with _making:
        _kernels.clear()
        _by_shapes.clear()
        _counts.clear()


def _in_child() -> None:
    """No other thread is there that would release it."""
    global _making
    _making = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
