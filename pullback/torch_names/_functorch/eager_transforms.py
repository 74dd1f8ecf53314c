"""The derivatives under torch's private path, and the choice of arguments by number."""

from __future__ import annotations

from typing import Any

from pullback.autograd.functional import _construct_standard_basis_for
from pullback.func import debug_unwrap, functionalize, hessian, jacfwd, jacrev, jvp, linearize, vjp
from pullback.transforms.arguments import checked_argnums

__all__ = [
    "_construct_standard_basis_for",
    "_slice_argnums",
    "debug_unwrap",
    "functionalize",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


def _slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` (an int or a tuple of ints) names.

    >>> from pullback._functorch.eager_transforms import _slice_argnums
    >>> _slice_argnums((1, 2, 3), -1), _slice_argnums((1, 2, 3), (1, 0))
    ((3,), (2, 1))
    """
    chosen = tuple(args[number] for number in checked_argnums("argnums", argnums, len(args)))
    return chosen if as_tuple or isinstance(argnums, tuple) else chosen[0]
