"""`pullback.sparse`: products, reductions and checks of sparse tensors, under torch's names."""

from __future__ import annotations

from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in ("SparseSemiStructuredTensor", "to_sparse_semi_structured"):
        raise NotImplementedError(
            f"sparse.{name}: matrices with two of four elements are a format of accelerators; "
            "use to_sparse_csr(), or a mask."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


assert _convert  # its import lets operators take sparse tensors
