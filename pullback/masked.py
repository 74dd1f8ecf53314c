"""`pullback.masked`: reductions and normalisations of the elements that a mask selects."""

from __future__ import annotations

from pullback.operators.reduce import masked as _masked
from pullback.operators.reduce.masked import *  # noqa: F403 (its __all__ is the list)

__all__ = list(_masked.__all__)
