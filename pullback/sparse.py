"""`pullback.sparse`: products, reductions and checks of sparse tensors, under torch's names."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.sparse import convert as _convert
from pullback.operators.sparse.gradcheck import as_sparse_gradcheck as as_sparse_gradcheck
from pullback.operators.sparse.invariants import (
    check_sparse_tensor_invariants as check_sparse_tensor_invariants,
)
from pullback.operators.sparse.typed import TYPES as _TYPES

globals().update(_TYPES)

__all__ = sorted(
    [
        *_faces.fill(globals(), _names.FACES["sparse"]),
        "as_sparse_gradcheck",
        "check_sparse_tensor_invariants",
    ]
)


_refuse_others(globals())


assert _convert  # its import lets operators take sparse tensors

__dir__ = _only_public(globals())
