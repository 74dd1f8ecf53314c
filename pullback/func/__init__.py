"""Torch's surface: transforms of functions, derivatives and batches in any nesting."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
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

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "source",
    "stack_module_state",
    "vjp",
    "vmap",
]

_refuse_others(globals())

__dir__ = _only_public(globals())
