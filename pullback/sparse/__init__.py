"""`pullback.sparse`: products, reductions and checks of sparse tensors, under torch's names."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent as _all_absent
from pullback.operators.sparse import convert as _convert
from pullback.operators.sparse.diagonals import spdiags
from pullback.operators.sparse.products import (
    sampled_addmm,
    spsolve,
)
from pullback.operators.sparse.products import (
    sparse_addmm as addmm,
)
from pullback.operators.sparse.products import (
    sparse_mm as mm,
)
from pullback.operators.sparse.reduce import (
    sparse_log_softmax as log_softmax,
)
from pullback.operators.sparse.reduce import (
    sparse_softmax as softmax,
)
from pullback.operators.sparse.reduce import (
    sparse_sum as sum,
)
from pullback.sparse.gradients import as_sparse_gradcheck
from pullback.sparse.invariants import check_sparse_tensor_invariants

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]


__getattr__ = _all_absent(__name__)


assert _convert  # its import lets operators take sparse tensors
