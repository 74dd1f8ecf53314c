"""`pullback.special`: special functions under torch's names; special.pyi shows the list."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.dispatch import asking as _asking

__all__ = sorted(_faces.fill(globals(), _names.FACES["special"]))

_asking.public(globals(), __all__)

__dir__ = _only_public(globals())
