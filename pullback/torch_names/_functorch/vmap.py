"""`restore_vmap`: a map whose results are given with the dimension each is mapped along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._C._functorch import (  # type: ignore[import-not-found]
    _add_batch_dim,  # noqa: F401  # torch has it here
    _remove_batch_dim,
)
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import broadcast_prefix, tree_flatten, tree_unflatten
from pullback.func.vmap import vmap
from pullback.transforms.batched import Batched
from pullback.transforms.mapping import entered, mapped

__all__ = ["restore_vmap", "vmap"]


def _broadcast_to_and_flatten(tree: Any, treespec: Any, is_leaf: Any = None) -> list[Any] | None:
    """One value for each leaf of a structure, from a tree that is a prefix of it; None if none."""
    return broadcast_prefix(tree, tree_unflatten([0] * treespec.num_leaves, treespec))


def _get_name(func: Callable[..., Any]) -> str:
    """What messages call a function."""
    return str(getattr(func, "__name__", None) or repr(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """All examples of a result along `out_dim`; where that is None, the result must be unmapped."""
    if out_dim is None:
        if isinstance(batched_output, Batched):
            raise ValueError(
                f"vmap({name}, ...): out_dim is None for a result that differs from example to "
                "example; give the dimension that they are to stand along."
            )
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): {name} must return tensors, got {type(batched_output).__name__}."
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def restore_vmap(
    func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str
) -> Callable[..., Any]:
    """As `vmap`, but the results come as they are: `(outputs, out_dims)`.

    A result that no mapped argument went into is not expanded, its out dim is None.

    >>> import pullback as torch
    >>> from pullback._functorch.vmap import restore_vmap
    >>> restore_vmap(lambda x, y: (x + 1, y), (0, None), 2, "error")(torch.zeros(2), 5)
    ((tensor([1., 1.]), 5), (0, None))
    """

    def restored(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = broadcast_prefix(in_dims, args)
        if dims is None:
            raise ValueError(f"restore_vmap: in_dims={in_dims!r} does not fit the arguments.")
        with mapped(batch_size, randomness) as level:
            inside = [entered(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
            output = func(*tree_unflatten(inside, spec), **kwargs)
        results, out_spec = tree_flatten(output)
        own = [one.__class__ is Batched and one.level is level for one in results]
        values = [one.value if m else one for one, m in zip(results, own, strict=True)]
        out_dims = [one.bdim if m else None for one, m in zip(results, own, strict=True)]
        return tree_unflatten(values, out_spec), tree_unflatten(out_dims, out_spec)

    return restored
