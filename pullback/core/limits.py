"""The limits of dtypes: what `finfo` and `iinfo` say."""

from __future__ import annotations

import importlib
from typing import Any, final

import numpy

from pullback.core.dtype import OF_NUMBERS, ReadOnly, as_dtype, bool_, default, dtype, named_dtype

__all__ = ["finfo", "iinfo"]

# None is a mistake here, as it is for torch.
_NOT_GIVEN: Any = object()
_OF_USERS = 256  # NumPy counts the dtypes of other packages from here


class _Info(ReadOnly):
    """What finfo and iinfo share: equality by dtype, no hash, as torch has it."""

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: str

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]  # how Python spells "unhashable"

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return type(self), (named_dtype(self.dtype),)

    def _show(self, *names: str) -> str:
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"{type(self).__name__}({values}, dtype={self.dtype})"


@final
class finfo(_Info):  # noqa: N801  torch's name
    """The numerical limits of a floating-point dtype, the default dtype if none is given.

    A complex dtype answers for its real part. TypeError for integers and bool.

    Example:
        >>> import pullback as torch
        >>> info = torch.finfo(torch.float32)
        >>> info.bits, info.dtype, info.eps
        (32, 'float32', 1.1920928955078125e-07)
        >>> torch.finfo(torch.float16)  # doctest: +ELLIPSIS
        finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, ...)
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")

    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: dtype = _NOT_GIVEN) -> None:
        given = default.dtype if type is _NOT_GIVEN else as_dtype(type)
        if not given.is_differentiable:
            raise TypeError(f"finfo needs a floating-point dtype, got {given}; use iinfo")
        if given.numpy.char == OF_NUMBERS:
            raise TypeError(f"finfo: numbers of type {given} have no fixed limits")
        real = given.to_real()
        if real.numpy.num < _OF_USERS:
            limits = numpy.finfo(real.numpy)
        else:
            limits = importlib.import_module("ml_dtypes").finfo(real.numpy)
        smallest_normal = float(limits.smallest_normal)
        self._set(
            bits=8 * real.itemsize,
            dtype=real._name,
            eps=float(limits.eps),
            max=float(limits.max),
            min=float(limits.min),
            # From the digits: NumPy's own value is rounded to the dtype that it describes.
            resolution=1.0 if real.itemsize == 1 else float(f"1e-{limits.precision}"),
            smallest_normal=smallest_normal,
            tiny=smallest_normal,
        )

    def __repr__(self) -> str:
        return self._show("resolution", "min", "max", "eps", "smallest_normal", "tiny")


@final
class iinfo(_Info):  # noqa: N801  torch's name
    """The smallest and largest value of an integer dtype.

    TypeError for floating-point dtypes, complex dtypes and bool.

    Example:
        >>> import pullback as torch
        >>> info = torch.iinfo(torch.int8)
        >>> info.bits, info.min, info.max, info.dtype
        (8, -128, 127, 'int8')
        >>> info
        iinfo(min=-128, max=127, dtype=int8)
    """

    __slots__ = ()

    max: int
    min: int

    def __init__(self, type: dtype) -> None:
        given = as_dtype(type)
        if given.is_differentiable:
            raise TypeError(f"iinfo needs an integer dtype, got {given}; use finfo")
        if given is bool_:
            raise TypeError("iinfo needs an integer dtype, got torch.bool, which has no limits")
        limits = numpy.iinfo(given.numpy)
        self._set(bits=limits.bits, dtype=given._name, max=int(limits.max), min=int(limits.min))

    def __repr__(self) -> str:
        return self._show("min", "max")
