"""`pullback.masked`: reductions and normalisations of the elements that a mask selects."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.guarding import guard_all as _guard_all

__all__ = sorted(_faces.fill(globals(), _names.FACES["masked"]))

_refuse_others(globals())

_guard_all(globals(), __all__)

__dir__ = _only_public(globals())
