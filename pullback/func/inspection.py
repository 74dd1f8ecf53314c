"""Looking into transforms: debug_unwrap; and functionalize, which hides in-place writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.core.mode import Mode, changed, current, settle
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.transforms.batched import Batched, base_of
from pullback.transforms.functional_level import FunctionalLevel, tell

__all__ = ["debug_unwrap", "functionalize"]


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor inside the wrappers of transforms, for printing; itself if there are none.

    >>> import pullback as torch
    >>> torch.func.debug_unwrap(torch.tensor([1.0]))
    tensor([1.])
    """
    if not isinstance(tensor, Batched):
        return tensor
    return base_of(tensor) if recurse else tensor.value


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function whose operators change nothing in place; it writes to its arguments at the end.

    What watches operators (a dispatch mode) sees no writes, and with
    `remove="mutations_and_views"` no views.

    >>> import pullback as torch
    >>> x = torch.ones(2)
    >>> torch.func.functionalize(lambda v: v.add_(1) * 2)(x), x
    (tensor([4., 4.]), tensor([2., 2.]))
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}."
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        before = settle()
        leaves, spec = tree_flatten((args, kwargs))
        copies = [_copied(leaf, before) for leaf in leaves]
        versions = [leaf._version if isinstance(leaf, Tensor) else 0 for leaf in copies]
        inside, named = tree_unflatten(copies, spec)
        level = FunctionalLevel(keeps_views=remove == "mutations")
        try:
            current.set(changed(before, levels=(*before.levels, level)))
            output = func(*inside, **named)
        finally:
            current.set(before)
            level.open = False
        for leaf, copied, version in zip(leaves, copies, versions, strict=True):
            if isinstance(leaf, Tensor) and copied._version != version:
                leaf.copy_(copied)
        results, out_spec = tree_flatten(output)
        originals = {id(copied): leaf for leaf, copied in zip(leaves, copies, strict=True)}
        return tree_unflatten([originals.get(id(one), one) for one in results], out_spec)

    return functional


def _copied(leaf: Any, mode: Mode) -> Any:
    """A copy of a tensor, made unseen by dispatch modes."""
    if not isinstance(leaf, Tensor):
        return leaf
    try:
        current.set(changed(mode, dispatch=()))
        copied = leaf.clone()
    finally:
        current.set(mode)
    tell("stands_for", copied, leaf)
    return copied
