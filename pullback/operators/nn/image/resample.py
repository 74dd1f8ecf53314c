"""interpolate: images in another resolution, by every mode that is a weighted sum along dimensions.

A mode is a function that writes the table of one dimension (taps.py); "area" averages instead.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.core.errors import unsupported
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.operators.arrays.windows import Sizes, check_tensor, remembering, volume
from pullback.operators.nn.image.taps import Taps, declare_resample
from pullback.operators.nn.pool.average import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)

FOUND_IN = {"nn.functional": "interpolate upsample upsample_bilinear upsample_nearest"}

# Tables -------------------------------------------------------------------------------------------


def _ratio(size: int, number: int, align_corners: bool, scale: float | None) -> float:
    """Input positions per output position."""
    if align_corners:
        return (size - 1) / (number - 1) if number > 1 else 0.0
    return 1 / scale if scale else size / number


def _nearest(size: int, number: int, align_corners: bool, scale: float | None) -> Taps:
    return _lookup(size, number, scale, 0.0)


def _nearest_exact(size: int, number: int, align_corners: bool, scale: float | None) -> Taps:
    return _lookup(size, number, scale, 0.5)


def _lookup(size: int, number: int, scale: float | None, shift: float) -> Taps:
    # In single precision, as torch rounds: which of two neighbours it is depends on it.
    ratio = numpy.float32(1 / scale) if scale else numpy.float32(size) / numpy.float32(number)
    rows = numpy.arange(number)
    places = ((rows.astype(numpy.float32) + numpy.float32(shift)) * ratio).astype(numpy.int64)
    return Taps(rows, numpy.minimum(places, size - 1), None, number, size)


def _between(size: int, number: int, align_corners: bool, scale: float | None) -> Taps:
    """Between the two nearest elements."""
    places = _sources(size, number, align_corners, scale)
    if not align_corners:
        places = numpy.maximum(places, 0)
    first = numpy.minimum(places.astype(numpy.int64), size - 1)
    part = numpy.clip(places - first, 0, 1)
    columns = numpy.concatenate([first, numpy.minimum(first + 1, size - 1)])
    rows = numpy.tile(numpy.arange(number), 2)
    return Taps(rows, columns, numpy.concatenate([1 - part, part]), number, size)


def _sources(size: int, number: int, align_corners: bool, scale: float | None) -> Any:
    ratio = _ratio(size, number, align_corners, scale)
    rows = numpy.arange(number)
    return rows * ratio if align_corners else (rows + 0.5) * ratio - 0.5


def _cubic(size: int, number: int, align_corners: bool, scale: float | None) -> Taps:
    """A cubic through the four nearest elements; the first and the last repeat."""
    places = _sources(size, number, align_corners, scale)
    first = numpy.floor(places).astype(numpy.int64)
    columns = [numpy.clip(first + move, 0, size - 1) for move in (-1, 0, 1, 2)]
    weights = [_cubic_filter(places - first - move, -0.75) for move in (-1, 0, 1, 2)]
    rows = numpy.tile(numpy.arange(number), 4)
    return Taps(rows, numpy.concatenate(columns), numpy.concatenate(weights), number, size)


# Filters of the antialiased modes -----------------------------------------------------------------


def _triangle_filter(x: Any) -> Any:
    return numpy.maximum(1 - numpy.abs(x), 0)


def _cubic_filter(x: Any, a: float = -0.5) -> Any:
    x = numpy.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return numpy.where(x <= 1, near, numpy.where(x < 2, far, 0))


def _lanczos_filter(x: Any) -> Any:
    return numpy.where(numpy.abs(x) < 3, numpy.sinc(x) * numpy.sinc(x / 3), 0)


def _filtered(
    kernel: Callable[[Any], Any],
    radius: int,
    size: int,
    number: int,
    align_corners: bool,
    scale: float | None,
) -> Taps:
    """All elements under a filter that is widened where the resolution shrinks."""
    ratio = _ratio(size, number, align_corners, scale)
    width = max(ratio, 1.0)
    rows, columns, weights = [], [], []
    for row in range(number):
        centre = ratio * (row + 0.5)
        start = max(int(centre - radius * width + 0.5), 0)
        end = min(int(centre + radius * width + 0.5), size)
        seen = numpy.arange(start, end)
        values = kernel((seen - centre + 0.5) / width)
        total = values.sum()
        rows.append(numpy.full(seen.size, row))
        columns.append(seen)
        weights.append(values / total if total else values)
    every, seen, values = (numpy.concatenate(parts) for parts in (rows, columns, weights))
    return Taps(every, seen, values, number, size)


_TABLES: dict[str, Callable[..., Taps]] = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _between,
    "bilinear": _between,
    "trilinear": _between,
    "bicubic": _cubic,
    "bilinear antialiased": functools.partial(_filtered, _triangle_filter, 1),
    "bicubic antialiased": functools.partial(_filtered, _cubic_filter, 2),
    "lanczos antialiased": functools.partial(_filtered, _lanczos_filter, 3),
}


@functools.lru_cache(256)
def _table(mode: str, size: int, number: int, align_corners: bool, scale: float | None) -> Taps:
    made = _TABLES[mode](size, number, align_corners, scale)
    made.made_for = (mode, align_corners, scale)
    return made


# Operators, by mode and number of dimensions ------------------------------------------------------

_NAMES = {
    "nearest": ("Nearest", (1, 2, 3)),
    "nearest-exact": ("NearestExact", (1, 2, 3)),
    "linear": ("Linear", (1,)),
    "bilinear": ("Bilinear", (2,)),
    "bicubic": ("Bicubic", (2,)),
    "trilinear": ("Trilinear", (3,)),
    "bilinear antialiased": ("Bilinear", (2,)),
    "bicubic antialiased": ("Bicubic", (2,)),
    "lanczos antialiased": ("Lanczos", (2,)),
}


def _declared(mode: str, name: str, dims: int) -> Any:
    smooth = "Aa" if mode.endswith("antialiased") else ""
    node = f"Upsample{name}{dims}D{smooth}Backward0"
    return declare_resample(f"_upsample_{mode.replace(' ', '_')}{dims}d", node)


_OPERATORS = {
    (mode, dims): _declared(mode, name, dims)
    for mode, (name, allowed) in _NAMES.items()
    for dims in allowed
}
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


# Public forms -------------------------------------------------------------------------------------

_NUMBERS = (int, float)
_BYTES = ("bilinear", "bicubic", "lanczos")  # modes in which images of bytes have an arithmetic


def _each(name: str, value: Any, dims: int) -> tuple[Any, ...]:
    if not isinstance(value, Sequence):
        return (value,) * dims
    if len(value) != dims:
        raise ValueError(
            f"interpolate: {name} must be one number or {dims} of them, got {tuple(value)}."
        )
    return tuple(value)


def _sizes(
    shape: Sizes, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[Sizes, tuple[float | None, ...]]:
    """The output's size, and the scales to take positions by (None: those of the sizes)."""
    old = shape[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor.")
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor goes with scale_factor, not size."
            )
        new = _each("size", size, len(old))
        if not all(type(n) is int or hasattr(n, "__index__") for n in new):
            raise TypeError(f"interpolate: size must be ints, got {size!r}.")
        _check_count(shape, new)
        return new, (None,) * len(old)
    scales = tuple(float(scale) for scale in _each("scale_factor", scale_factor, len(old)))
    if not all(map(math.isfinite, scales)):
        raise RuntimeError(f"interpolate: scale_factor must be finite, got {scale_factor!r}.")
    new = tuple(int(n * scale) for n, scale in zip(old, scales, strict=True))
    _check_count(shape, new)
    return new, (None,) * len(old) if recompute else scales


def _check_count(shape: Sizes, new: Sizes) -> None:
    """Refuse what no memory holds before tables for it are made."""
    if volume((*shape[:2], *new)) >= 1 << 60:
        raise RuntimeError(f"interpolate: from {shape} to {new} is larger than any memory.")


def _check(shape: Sizes, mode: str, align_corners: bool | None, antialias: bool) -> None:
    dims = len(shape) - 2
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        raise ValueError(f"interpolate: mode {mode!r} takes no align_corners.")
    if antialias and (mode not in ("bilinear", "bicubic", "lanczos") or dims != 2):
        raise ValueError(
            "interpolate: antialias is for modes 'bilinear', 'bicubic' and 'lanczos' on 4 "
            f"dimensions; got mode {mode!r} and shape {shape}."
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("interpolate: mode 'lanczos' needs antialias=True.")
    known = (f"{mode} antialiased" if antialias else mode, dims) in _OPERATORS
    if not known and not (mode == "area" and dims in _AREA):
        raise NotImplementedError(
            f"interpolate: no mode {mode!r} for input of shape {shape}; 'nearest', "
            "'nearest-exact' and 'area' take 3 to 5 dimensions, 'linear' 3, 'bilinear' and "
            "'bicubic' 4, 'trilinear' 5."
        )


@functools.lru_cache(256)
def _chosen(
    shape: Sizes,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> tuple[Any, Any]:
    """The operator, and its tables (for "area", the size)."""
    _check(shape, mode, align_corners, antialias)
    new, scales = _sizes(shape, size, scale_factor, recompute)
    if mode == "area":
        return _AREA[len(new)], new
    if min(new) < 1 or 0 in shape[1:]:
        raise RuntimeError(f"interpolate: from {shape} to {new}: only the batch may have size 0.")
    key = f"{mode} antialiased" if antialias else mode
    return _OPERATORS[key, len(new)], _tables(key, shape[2:], new, bool(align_corners), scales)


def _tables(key: str, shape: Sizes, new: Sizes, align_corners: bool, scales: Any) -> Any:
    # As many elements are the same ones where lines go through them, whatever the scale says.
    same = key in ("linear", "bilinear", "trilinear")
    return tuple(
        None if same and n == o else _table(key, n, o, align_corners, scale)
        for n, o, scale in zip(shape, new, scales, strict=True)
    )


def resampled(input: Any, mode: str, size: Any, align_corners: bool, scales: Any) -> Any:
    """Images in another resolution, by all that decides it."""
    new = tuple(size)
    tables = _tables(mode, tuple(input.shape[2:]), new, align_corners, tuple(scales))
    return _OPERATORS[mode, len(new)](input, tables)


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resize images (n, channels, ...) to a given size or by a scale factor.

    >>> import pullback as torch
    >>> x = torch.tensor([[[1.0, 3.0]]])
    >>> torch.nn.functional.interpolate(x, scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if not isinstance(input, Tensor):
        check_tensor("interpolate", input)
    options = [size]
    chosen = remembering(_chosen, options)
    if scale_factor is not None and type(scale_factor) not in _NUMBERS:
        chosen = _chosen.__wrapped__
    operator, tables = chosen(
        input._array.shape,
        *options,
        scale_factor,
        mode,
        align_corners,
        recompute_scale_factor,
        antialias,
    )
    kind = input._array.dtype.kind
    if kind != "f" and mode != "area":
        if kind in "bic":
            raise unsupported("interpolate", input._array)
        bytes_too = mode.startswith("nearest") or mode in _BYTES
        if kind == "u" and not (bytes_too and input._array.dtype.itemsize == 1):
            raise unsupported(f"interpolate (mode {mode!r})", input._array)
    return operator(input, tables)


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated; use {instead}.", UserWarning, stacklevel=stacklevel())


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """The old name of `interpolate`."""
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with mode "nearest"."""
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with mode "bilinear" and aligned corners."""
    _deprecated("upsample_bilinear", "interpolate with mode='bilinear', align_corners=True")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
