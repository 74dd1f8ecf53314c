"""`nn.functional`: the functions that layers are made of.

They are written in the operator families, which say that they are found here; functional.pyi shows
the whole list.
"""

from __future__ import annotations

from pullback.core.explain.absent import all_absent as _all_absent
from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.watching import asking as _asking

__all__ = sorted(_faces.fill(globals(), _names.FACES["nn.functional"]))

_asking.public(globals(), __all__)


__getattr__ = _all_absent(__name__)

__dir__ = _only_public(globals())
