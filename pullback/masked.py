"""`pullback.masked`: reductions and normalisations of the elements that a mask selects."""

from __future__ import annotations

from pullback.core.process.refused import refused
from pullback.operators.guarding import guard_all as _guard_all
from pullback.operators.reduce import masked as _masked
from pullback.operators.reduce.masked import *  # noqa: F403 (its __all__ is the list)

__all__ = list(_masked.__all__)

__getattr__ = refused(
    __name__,
    "tensors with a mask of their own are a prototype in torch",
    "Pass mask= to the functions of this module, which are all here.",
)

_guard_all(globals(), __all__)
