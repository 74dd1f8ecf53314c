"""Transforms of functions: derivatives and batches, in any nesting."""

from __future__ import annotations

from pullback.func.forward_mode import hessian, jacfwd, jvp, linearize
from pullback.func.reverse_mode import grad, grad_and_value, jacrev, vjp
from pullback.func.vmap import vmap

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
    "vmap",
]
