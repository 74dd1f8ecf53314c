"""What written code of every sort calls by name."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import arrays, origin
from pullback.core.explain import cause
from pullback.core.mode import fast, get_mode
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, blanks
from pullback.core.version import UNWRITTEN
from pullback.core.view import View, edge_of
from pullback.operators.arrays.large import LARGE, large

__all__ = ["COMMON"]

COMMON: dict[str, Any] = {
    "Tensor": Tensor,
    "new": object.__new__,
    "blanks": blanks,
    "ndarray": numpy.ndarray,
    "F16": numpy.dtype(numpy.float16),
    "F32": arrays.F32,
    "F64": arrays.F64,
    "numbers32": arrays.numbers32,
    "numbers64": arrays.numbers64,
    "numbers": arrays.numbers,
    "float32": numpy.float32,
    "UNWRITTEN": UNWRITTEN,
    "inherited": cause.inherited,
    "edge_of": edge_of,
    "View": View,
    "fast": fast,
    "get_mode": get_mode,
    "numbering": numbering,
    "getframe": origin.getframe,
    "internal": origin.internal,
    "last_user": origin.last_user,
    "caller": origin.caller,
    "LARGE": LARGE,
    "large": large,
}
