"""The array API standard, 2024.12, over tensors: what `x.__array_namespace__()` gives.

Each function takes its arguments as https://data-apis.org/array-api/2024.12 writes them and calls
an operator of torch's: gradients flow, transforms and devices work as ever.

>>> import pullback.array_api as xp
>>> x = xp.asarray([3.0, 4.0]).requires_grad_()
>>> xp.linalg.vector_norm(x, axis=0).backward()
>>> x.grad
tensor([0.6000, 0.8000])
"""

from __future__ import annotations

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import Any as _Any

from pullback import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pullback.core.listing import only_public as _only_public

from . import (
    _creation,
    _dtypes,
    _elementwise,
    _manipulation,
    _products,
    _searching,
    _statistical,
    fft,
    linalg,
)
from ._creation import *
from ._dtypes import *
from ._elementwise import *
from ._info import __array_namespace_info__
from ._manipulation import *
from ._products import *
from ._searching import *
from ._statistical import *

__array_api_version__ = "2024.12"
# Programs that ask for an earlier one get this: what was added since takes nothing away.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

newaxis = None

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "bool",
    "complex64",
    "complex128",
    "e",
    "fft",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "linalg",
    "nan",
    "newaxis",
    "pi",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
__all__ += _creation.__all__
__all__ += _dtypes.__all__
__all__ += _elementwise.__all__
__all__ += _manipulation.__all__
__all__ += _products.__all__
__all__ += _searching.__all__
__all__ += _statistical.__all__

__dir__ = _only_public(globals())


def __getattr__(name: str) -> _Any:
    """Functions of NumPy's beyond the standard, for which xarray asks: `einsum`, `nanmean`."""
    found = _import_module("pullback._array_function").named(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
