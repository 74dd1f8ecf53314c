"""vmap over the components of nested tensors.

They differ in size, so no operator takes all of them at once: the function runs for each, as torch
runs each operator for each, and what it returns is nested again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.transforms.arguments import name_of

__all__ = ["over_components"]


def over_components(
    func: Callable[..., Any],
    leaves: list[Any],
    spec: Any,
    dims: list[int | None],
    out_dims: Any,
    kwargs: dict[str, Any],
) -> Any:
    """`func` of each component, with the part of the other mapped arguments that belongs to it."""
    from pullback.operators.nested.parts import of_components  # which few need

    if out_dims != 0:
        raise RuntimeError(
            f"vmap({name_of(func)}): results over nested tensors are nested, and have their batch "
            f"in dim 0; out_dims is {out_dims!r}."
        )
    columns = [_parts(func, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
    size = len(next(column for column in columns if column is not None))
    made = []
    for index in range(size):
        inside = [
            leaf if column is None else column[index]
            for leaf, column in zip(leaves, columns, strict=True)
        ]
        made.append(func(*tree_unflatten(inside, spec), **kwargs))
    flat = [tree_flatten(one) for one in made]
    if not all(isinstance(part, Tensor) for parts, _ in flat for part in parts):
        raise ValueError(f"vmap({name_of(func)}): returned something that is no Tensor.")
    results = [of_components(parts) for parts in zip(*(parts for parts, _ in flat), strict=True)]
    return tree_unflatten(results, flat[0][1])


def _parts(func: Any, leaf: Any, dim: int | None) -> Any:
    """What a mapped argument is for each component; None of what is the same for all."""
    if dim is None:
        return None
    if getattr(leaf, "is_nested", False) and dim != 0:
        raise RuntimeError(
            f"vmap({name_of(func)}): components of a nested tensor differ in dim {dim}; only dim "
            "0, the batch, can be mapped."
        )
    return leaf.unbind(dim)
