"""On how many threads large kernels and products of matrices run.

Kernels that go through large tensors in pieces (activations, softmax, norms, convolutions,
pooling) and single array functions share them out; their results do not depend on the number. Once
several threads are wanted, operators ask for the size of what they are given. Products are the BLAS
library's, which threadpoolctl tells the number; without it OpenBLAS is told of fewer than it began
with, and for others their environment variables decide, before the program starts. Inside of pieces
each product has one thread. Unless a variable says so, nobody gets processors that others use when
pullback is imported.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pullback.operators.arrays import blas, native
from pullback.operators.arrays.large import ready
from pullback.operators.arrays.threads import default_count, setting

__all__ = [
    *("get_num_interop_threads", "get_num_threads", "set_flush_denormal"),
    *("set_num_interop_threads", "set_num_threads"),
]

_interop: int | None = None


def _pools() -> Any:
    try:
        return import_module("threadpoolctl")
    except ImportError:
        return None


@cache
def _threads_of_blas() -> int | None:
    """How many BLAS had when first asked: its environment variable, or the idle processors."""
    return blas.threads()


def _positive(op: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        kind = type(number).__name__
        raise RuntimeError(f"{op}: a number of threads is an int, got {kind}.")
    if number < 1:
        raise RuntimeError(f"{op}: at least one thread is needed, got {number}.")
    if number >= 2**31:
        raise ValueError(f"{op}: {number} threads are more than any machine could run.")
    return number


def get_num_threads() -> int:
    """How many threads an operator may use: the processors that are idle, unless told otherwise.

    >>> import pullback as torch
    >>> torch.get_num_threads() >= 1
    True
    """
    if setting.count is not None:
        return setting.count
    if pools := _pools():
        found = [pool["num_threads"] for pool in pools.threadpool_info()]
        if found:
            return int(max(found))
    return default_count()


def set_num_threads(int: int) -> None:
    """Let operators use so many threads: large kernels, and products where BLAS can be told.

    Results do not depend on it.

    >>> import pullback as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(2)
    >>> torch.get_num_threads()
    2
    >>> torch.set_num_threads(before)
    """
    number = _positive("set_num_threads", int)
    if pools := _pools():
        pools.threadpool_limits(limits=number)
    elif most := _threads_of_blas():
        blas.set_threads(min(number, most))
    setting.count = number
    native.forget()  # kernels are made for a number of threads
    ready()


def get_num_interop_threads() -> int:
    """How many operators may run at a time; here it is a number that is kept."""
    return _interop if _interop is not None else default_count()


def set_num_interop_threads(int: int) -> None:
    """Keep a number of operators to run at a time; it can be set once."""
    global _interop
    number = _positive("set_num_interop_threads", int)
    if _interop is not None:
        raise RuntimeError("set_num_interop_threads: it has been set already.")
    _interop = number


def set_flush_denormal(mode: bool) -> bool:
    """Ask that numbers too small for the usual form become 0; False, since NumPy keeps them.

    >>> import pullback as torch
    >>> torch.set_flush_denormal(True)
    False
    """
    return False
