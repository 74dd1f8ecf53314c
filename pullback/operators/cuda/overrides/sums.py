"""What the host finds out by looking at values, to choose a shorter way: a device does not look.

Each of these answers so that the way that is right for all values is taken; asking would wait for
the device. And numbers: the host keeps them as arrays of no dimensions, a device takes them as they
are.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.arrays.reductions import axis_of
from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import on_device, replace

__all__ = ["enter"]


def _maybe_nan(array: Any) -> bool:
    return bool(array.dtype.kind in "fV" and array.size)


def _maybe_nan_in(xp: Any, array: Any) -> bool:
    return bool(array.dtype.kind in "fV" and array.size)


def _number(value: Any, dtype: Any) -> Any:
    return dtype.type(value)


def _checked_number(op: str, value: Any, dtype: Any) -> Any:
    from pullback.operators.running import writes

    return writes.number_array(op, value, dtype)[()]


def _checked_finite(op: str, value: Any, dtype: Any) -> Any:
    from pullback.operators.running import writes

    return writes.finite_array(op, value, dtype)[()]


def _one_slice(rows: int, size: int, block: int = 0) -> Any:
    """Everything at once: there is no cache that blocks would stay in."""
    if rows:
        yield slice(0, rows)


def _no_machine_code(formula: str, arrays: Any, *options: Any) -> None:
    """That is the host's."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Indices outside are not looked for; CuPy counts them around the end."""


def _no(*args: Any) -> bool:
    return False


def _few_sums(xp: Any, input: Any, dim: Any, keepdim: Any) -> Any:
    return input.sum(dim, None, None, bool(keepdim))


def _wide_total(xp: Any, array: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Half precision is summed in single."""
    if array.dtype.itemsize == 2 and array.dtype.kind in "fV":
        return array.astype(numpy.float32).sum(axis, None, None, keepdims).astype(array.dtype)
    return array.sum(axis, None, None, keepdims)


def _total(xp: Any, input: Any, dim: Any, keepdim: Any) -> Any:
    return _wide_total(xp, input, axis_of(dim, input.ndim), bool(keepdim))


def _column_totals(xp: Any, x: Any, weights: Any = None) -> Any:
    return x.sum(0) if weights is None else weights.dot(x)


# Of CuPy's special functions those that do not know infinity: ours are taken.
_OWN = frozenset({"i0", "i0e", "i1", "i1e"})


def _scipy_or(xp: Any, op: str, name: str, own: Any, *arrays: Any) -> Any:
    from pullback.core.errors import unsupported
    from pullback.operators.arrays import gamma, scipy_special

    if arrays[0].dtype.kind == "c":
        raise unsupported(op, arrays[0])
    module = xp.cupyx.scipy.special
    if name in _OWN or not hasattr(module, name):
        return on_device(gamma.in_double, found.library.space)(xp, own, *arrays)
    return scipy_special.in_single(xp, getattr(module, name), *arrays)


def _log_total_exp(xp: Any, input: Any, axis: Any) -> Any:
    largest = input.real.max(axis, keepdims=True)
    largest = xp.cupy.where(xp.cupy.isfinite(largest), largest, largest.dtype.type(0))
    total = xp.cupy.exp(input - largest).sum(axis, keepdims=True)
    return xp.cupy.log(total) + largest


def _lgamma(xp: Any, input: Any) -> Any:
    """Infinite at minus infinity, and as ours where CuPy's is infinite near 0."""
    own = xp.cupyx.scipy.special.gammaln
    single = input.astype(numpy.float32) if input.dtype.itemsize == 2 else input
    tiny = xp.cupy.absolute(single) < 1e-300
    made = xp.cupy.where(tiny, -xp.cupy.log(xp.cupy.absolute(single)), own(single))
    made = xp.cupy.where(xp.cupy.isinf(single), single.dtype.type(numpy.inf), made)
    return made.astype(input.dtype, copy=False)


def _erfc(xp: Any, input: Any) -> Any:
    from pullback.operators.arrays import scipy_special

    return scipy_special.in_single(xp, xp.cupyx.scipy.special.erfc, input)


def _euclidean(xp: Any, x: Any, axis: Any, keepdim: Any) -> Any:
    """Scaled by the largest element always: whether squares leave the range is not asked."""
    cupy = xp.cupy
    keepdim = bool(keepdim)
    if not x.size:
        return cupy.sqrt((x.real * x.real).sum(axis, keepdims=keepdim))
    size = cupy.absolute(x)
    largest = size.max(axis, keepdims=True)
    largest = cupy.where(cupy.isfinite(largest) & (largest > 0), largest, largest.dtype.type(1))
    size /= largest
    size *= size
    result = cupy.sqrt(size.sum(axis, keepdims=keepdim))
    return result * largest.reshape(result.shape)


def enter() -> None:
    """Into the table."""
    from pullback.operators.arrays import (
        blocks,
        erf,
        log_sums,
        native,
        reductions,
        scatter,
        scipy_special,
        sorting,
        sums,
    )
    from pullback.operators.nn.pool import places
    from pullback.operators.reduce import norms
    from pullback.operators.running import writes
    from pullback.operators.special import functions

    replace(
        {
            scipy_special.scipy_or: _scipy_or,
            log_sums._log_total_exp: _log_total_exp,
            functions.lgamma: _lgamma,
            erf.erfc: _erfc,
            norms._euclidean: _euclidean,
            places.has_nan: _maybe_nan,
            sorting.has_nan: _maybe_nan_in,
            reductions.is_moderate: _no,
            reductions.number: _number,
            blocks.pieces: _one_slice,
            blocks.slices: _one_slice,
            sums.few_sums: _few_sums,
            sums.sums: _total,
            sums.total: _total,
            sums.column_totals: _column_totals,
            writes.number_array: _checked_number,
            writes.finite_array: _checked_finite,
            scatter.check_bounds: _nothing,
            native.by_machine_code: _no_machine_code,
            native.kernel_of: _no_machine_code,
        }
    )
