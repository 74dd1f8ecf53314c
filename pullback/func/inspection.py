"""Looking into transforms: debug_unwrap; and functionalize, which hides in-place writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.core.pytree import tree_flatten, tree_unflatten
from pullback.core.tensor import Tensor
from pullback.transforms.batched import Batched, base_of

__all__ = ["debug_unwrap", "functionalize"]


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor inside the wrappers of transforms, for printing; itself if there are none."""
    if not isinstance(tensor, Batched):
        return tensor
    return base_of(tensor) if recurse else tensor.value


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that works on copies, and writes to its arguments at the end.

    `remove="mutations_and_views"` also gives results that share no memory with anything.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}."
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        versions = [leaf._version if isinstance(leaf, Tensor) else 0 for leaf in copies]
        inside, named = tree_unflatten(copies, spec)
        output = func(*inside, **named)
        for leaf, copied, version in zip(leaves, copies, versions, strict=True):
            if isinstance(leaf, Tensor) and copied._version != version:
                leaf.copy_(copied)
        results, out_spec = tree_flatten(output)
        if remove == "mutations_and_views":
            results = [
                one.clone() if isinstance(one, Tensor) and one._is_view() else one
                for one in results
            ]
        originals = {id(copied): leaf for leaf, copied in zip(leaves, copies, strict=True)}
        return tree_unflatten([originals.get(id(one), one) for one in results], out_spec)

    return functional
