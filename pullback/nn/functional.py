"""`nn.functional`: the functions that layers are made of.

They are written in the operator families, which say that they are found here; functional.pyi shows
the whole list.
"""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.dispatch import asking as _asking

__all__ = sorted(_faces.fill(globals(), _names.FACES["nn.functional"]))

_asking.public(globals(), __all__)

from pullback.nn import grad as grad  # noqa: E402  # torch's module has it under this name, too

_refuse_others(globals())

__dir__ = _only_public(globals())
