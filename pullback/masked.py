"""`pullback.masked`: reductions and normalisations of the elements that a mask selects."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent as _all_absent
from pullback.operators.guarding import guard_all as _guard_all
from pullback.operators.reduce import masked as _masked
from pullback.operators.reduce.masked import *  # noqa: F403 (its __all__ is the list)

__all__ = list(_masked.__all__)

__getattr__ = _all_absent(__name__)

_guard_all(globals(), __all__)
