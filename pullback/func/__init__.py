"""Torch's surface: transforms of functions, derivatives and batches in any nesting."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public
from pullback.func.as_source import source
from pullback.func.forward_mode import hessian, jacfwd, jvp, linearize
from pullback.func.inspection import debug_unwrap, functionalize
from pullback.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from pullback.func.reverse_mode import grad, grad_and_value, jacrev, vjp
from pullback.func.vmap import vmap

if _TYPE_CHECKING:
    from pullback.func.jacobians import JacobianChoice, jacobian, linear_transpose
    from pullback.func.second_order import hessian_diagonal, laplacian
    from pullback.func.sparse import sparse_hessian, sparse_jacobian
    from pullback.func.sparsity import SparsityPattern, hessian_sparsity, jacobian_sparsity
    from pullback.func.taylor import jet

__all__ = [
    "JacobianChoice",
    "SparsityPattern",
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "hessian_diagonal",
    "hessian_sparsity",
    "jacfwd",
    "jacobian",
    "jacobian_sparsity",
    "jacrev",
    "jet",
    "jvp",
    "laplacian",
    "linear_transpose",
    "linearize",
    "replace_all_batch_norm_modules_",
    "source",
    "sparse_hessian",
    "sparse_jacobian",
    "stack_module_state",
    "vjp",
    "vmap",
]

# Beyond torch's: loaded when asked for, by those who ask.
_LATER = {
    **dict.fromkeys(("JacobianChoice", "jacobian", "linear_transpose"), "jacobians"),
    **dict.fromkeys(("hessian_diagonal", "laplacian"), "second_order"),
    **dict.fromkeys(("sparse_hessian", "sparse_jacobian"), "sparse"),
    **dict.fromkeys(("SparsityPattern", "hessian_sparsity", "jacobian_sparsity"), "sparsity"),
    "jet": "taylor",
}


def _later(name: str) -> _Any:
    if name not in _LATER:
        raise _absent(__name__, name)
    found = globals()[name] = getattr(_import_module(f"{__name__}.{_LATER[name]}"), name)
    return found


# Not as a definition: type checkers would take every name for one that is here.
globals()["__getattr__"] = _later

__dir__ = _only_public(globals())
