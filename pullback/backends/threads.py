"""On how many threads products of matrices run: the BLAS library's, through threadpoolctl.

Without threadpoolctl the number is kept and nothing else happens; the environment variables of the
library (OPENBLAS_NUM_THREADS and so on) then decide, before the program starts.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__all__ = [
    *("get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"),
]

_threads: int | None = None
_interop: int | None = None


def _pools() -> Any:
    try:
        return import_module("threadpoolctl")
    except ImportError:
        return None


def _from_environment() -> int:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        if os.environ.get(name, "").isdecimal():
            return max(1, int(os.environ[name]))
    return os.cpu_count() or 1


def _positive(op: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        kind = type(number).__name__
        raise RuntimeError(f"{op}: a number of threads is an int, got {kind}.")
    if number < 1:
        raise RuntimeError(f"{op}: at least one thread is needed, got {number}.")
    return number


def get_num_threads() -> int:
    """How many threads an operator may use.

    >>> import pullback as torch
    >>> torch.get_num_threads() >= 1
    True
    """
    if _threads is not None:
        return _threads
    if pools := _pools():
        found = [pool["num_threads"] for pool in pools.threadpool_info()]
        if found:
            return int(max(found))
    return _from_environment()


def set_num_threads(int: int) -> None:
    """Let operators use so many threads: those that are products of matrices."""
    global _threads
    number = _positive("set_num_threads", int)
    if pools := _pools():
        pools.threadpool_limits(limits=number)
    _threads = number


def get_num_interop_threads() -> int:
    """How many operators may run at a time; here it is a number that is kept."""
    return _interop if _interop is not None else _from_environment()


def set_num_interop_threads(int: int) -> None:
    """Keep a number of operators to run at a time; it can be set once."""
    global _interop
    number = _positive("set_num_interop_threads", int)
    if _interop is not None:
        raise RuntimeError("set_num_interop_threads: it has been set already.")
    _interop = number
