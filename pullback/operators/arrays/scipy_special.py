"""SciPy's special functions, an extra that is imported when first needed.

Some operators need it. Others have a way of their own and ask it only where it is faster.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array, Namespace
from pullback.core.errors import unsupported
from pullback.core.layout import cast_kept
from pullback.operators.arrays.gamma import in_double

__all__ = ["from_scipy", "in_single", "scipy_or", "scipy_special"]


@cache
def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def scipy_special(xp: Namespace) -> Any:
    """SciPy's module, for CuPy's arrays that of its own SciPy; None where it is not installed."""
    return _imported("scipy.special" if xp is numpy else "cupyx.scipy.special")


def from_scipy(xp: Namespace, op: str, name: str, *arrays: Array) -> Array:
    """SciPy's function `name` for an operator that has no other way."""

    def missing(xp: Namespace, *arrays: Array) -> Array:
        from pullback.installed import install_command

        raise ImportError(
            f"{op} needs SciPy (the extra pullback[full]), which is not installed: "
            f"{install_command('scipy')}"
        )

    return scipy_or(xp, op, name, missing, *arrays)


def scipy_or(xp: Namespace, op: str, name: str, own: Callable[..., Array], *arrays: Array) -> Array:
    """SciPy's function `name`, 1.2 to 60 times as fast as ours; our `own` in float64 without it."""
    dtype = arrays[0].dtype
    usual = dtype is F32 or dtype is F64
    if not usual and dtype.kind == "c":
        raise unsupported(op, arrays[0])
    module = scipy_special(xp)
    if module is None:
        return in_double(xp, own, *arrays)
    function = getattr(module, name)
    return function(*arrays) if usual else in_single(xp, function, *arrays)


def in_single(xp: Namespace, function: Any, *arrays: Array) -> Array:
    """One of SciPy's functions; half precision, for which it has no loops, by way of single."""
    dtype = arrays[0].dtype
    if dtype.itemsize == 2:
        return function(*[cast_kept(array, F32) for array in arrays]).astype(dtype)
    return function(*arrays)
