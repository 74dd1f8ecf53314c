"""The older vmap, under the name that older programs import: results are Tensors or tuples of them.

Everything else is `pullback.vmap`; random numbers are refused here, since nothing says whether
examples share them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from pullback.core import origin
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_unflatten
from pullback.func.vmap import checked_inputs, placed
from pullback.transforms.arguments import name_of
from pullback.transforms.mapping import entered, mapped

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: int | tuple[int, ...] = 0
) -> Callable[..., Any]:
    """Map `func` over a dimension of its arguments; use `pullback.vmap`.

    >>> import warnings
    >>> import pullback as torch
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch._vmap_internals.vmap(torch.sum)(torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    warnings.warn(
        "_vmap_internals.vmap is the older form of vmap; use vmap of the package itself.",
        FutureWarning,
        stacklevel=origin.stacklevel(),
    )
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: int | tuple[int, ...] = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """As `vmap`, without the warning; a result may be None if that is allowed."""

    @functools.wraps(func)
    def mapped_function(*args: Any) -> Any:
        leaves, spec, dims, size = checked_inputs(func, in_dims, args)
        _check_out_dims(func, out_dims)
        with mapped(size) as level:
            inside = [entered(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
            output = func(*tree_unflatten(inside, spec))
        results = _results(func, output, none=allow_none_pass_through)
        places = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(results)
        if len(places) != len(results):
            raise ValueError(
                f"vmap({name_of(func)}, out_dims={out_dims!r}): one dim for each of the "
                f"{len(results)} results is needed, or one for all."
            )
        made = tuple(
            None if one is None else placed(func, out_dims, one, dim, level)
            for one, dim in zip(results, places, strict=True)
        )
        return made[0] if isinstance(output, Tensor) else made

    return mapped_function


def _check_out_dims(func: Any, out_dims: Any) -> None:
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,)
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise ValueError(
                f"vmap({name_of(func)}, out_dims={out_dims!r}): out_dims must be an int, or a "
                "tuple of ints with one for each result."
            )


def _results(func: Any, output: Any, *, none: bool) -> tuple[Any, ...]:
    """What the function returned, as a tuple of Tensors (or None, where that may pass)."""
    results = output if isinstance(output, tuple) else (output,)
    for one in results:
        if not isinstance(one, Tensor) and not (none and one is None):
            raise ValueError(
                f"vmap: {name_of(func)} must return a Tensor or a tuple of Tensors, found "
                f"{type(one).__name__}; the newer vmap of the package takes any nesting."
            )
    return results
