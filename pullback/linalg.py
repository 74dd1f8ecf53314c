"""`pullback.linalg`: linear algebra under torch's names.

It is written in the operator families, which say what is found here; linalg.pyi shows the list.
"""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.dispatch import asking as _asking
from pullback.operators.shape.views import diagonal as _diagonal


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """As `torch.diagonal`, of the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _diagonal(A, offset, dim1, dim2)


__all__ = sorted([*_faces.fill(globals(), _names.FACES["linalg"]), "diagonal"])

_asking.public(globals(), __all__)

__dir__ = _only_public(globals())
