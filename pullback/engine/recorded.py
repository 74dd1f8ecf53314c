"""The pass whose gradients are tensors (recorded, dual or batched ones).

Sums, casts and stores are operators. Otherwise as the plain pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pullback.core import errors, origin
from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, wrap
from pullback.engine.accumulate import accumulate as accumulate_array
from pullback.engine.accumulate import is_dense
from pullback.engine.filter import Filter
from pullback.engine.inbox import Inbox
from pullback.engine.loop import loop_over
from pullback.engine.ownership import is_sole_tensor
from pullback.engine.plain import finish
from pullback.operators.arrays.strides import contiguous_strides, element_strides
from pullback.operators.tensor.filling import copied_into


def _copied(g: Any) -> Any:
    """The gradient in memory of its own; its history shows `CopyBackwards`, as torch's does."""
    return g.clone() if g._node is None else copied_into(g.detach(), g)


def accumulate(leaf_node: AccumulateGrad, g: Any) -> None:
    """Add to `.grad` out of place, keeping the history."""
    leaf = leaf_node.variable
    if not leaf.requires_grad:
        return
    if not leaf.is_leaf:
        raise errors.leaf_moved_inside()
    while True:
        stored = leaf._stored_grad
        version = None if stored is None else stored._cell[0]
        total = _copied(g) if stored is None else stored + g
        with leaf_node.lock:  # not around the sum: that may call a user's saved-tensor hooks
            now = leaf._stored_grad
            if now is stored and (now is None or now._cell[0] == version):
                leaf._stored_grad = total
                return


def run(
    roots: list[tuple[Any, Any]],
    inbox: Inbox,
    *,
    keep_graph: bool,
    create_graph: bool,
    freed: Freed,
    chosen: Filter | None,
) -> dict[tuple[Any, int], Any]:
    """Take the gradients of the roots to the leaves, or to what `chosen` asks for."""
    for edge, g in roots:
        inbox.put_root(edge, g, chosen)
    captured: dict[tuple[Any, int], Any] = {}
    keep = partial(store, create_graph=create_graph)
    frame, outer = origin.user_frame(origin.getframe(1)), origin.passing.get()
    try:
        origin.passing.set(frame)
        try:
            kind = "tensors" if get_mode().tracing is None else "traced"
            loop_over(kind)(inbox, keep_graph, freed, chosen, captured)
        finally:  # a sum that a class of the user's made may be known to it
            inbox.owned.clear()
        finish(inbox, chosen, captured, keep, is_sole_tensor)
    except BaseException:
        inbox.keep_complete_leaves(chosen, keep)
        raise
    finally:
        origin.passing.set(outer)
        inbox.clear()  # a kept traceback must not keep gradients
    return captured


def store(leaf: AccumulateGrad, total: Any, /, *, create_graph: bool, owned: bool) -> None:
    """Add a tensor to a leaf's `.grad`; `owned`: nobody else holds it."""
    if create_graph:
        accumulate(leaf, total)
    elif get_mode().dispatch and total.__class__ is Tensor:
        accumulate_shown(leaf, total, owned=owned)
    else:
        # That nobody holds a plain tensor says nothing of its memory.
        accumulate_any(leaf, total, owned=owned and bool(total._overrides & DISPATCH))


def accumulate_any(leaf: AccumulateGrad, g: Any, *, owned: bool = False) -> None:
    """Add a gradient, array or tensor, to `.grad`, without history."""
    stored = leaf.variable._stored_grad
    if (getattr(g, "_overrides", 0) | (0 if stored is None else stored._overrides)) & DISPATCH:
        _accumulate_answered(leaf, g if isinstance(g, Tensor) else wrap(g), owned=owned)
    else:
        accumulate_array(leaf, getattr(g, "_array", g), owned=owned)


def _accumulate_answered(leaf_node: AccumulateGrad, g: Any, *, owned: bool) -> None:
    """Add a tensor of such a class to `.grad`, by operators that its class answers."""
    leaf = leaf_node.variable
    if not leaf.requires_grad:
        return
    if not leaf.is_leaf:
        raise errors.leaf_moved_inside()
    stored = leaf._stored_grad
    if stored is None:
        # What somebody else holds (another leaf, a hook) must not change with it.
        leaf._stored_grad = g.detach() if owned else g.clone()
    else:
        stored.add_(g)


def accumulate_shown(leaf_node: AccumulateGrad, g: Any, *, owned: bool) -> None:
    """Add a tensor to `.grad` by operators that the user's mode is shown."""
    leaf = leaf_node.variable
    stored, array, like = leaf._stored_grad, g._array, leaf._array
    if stored is not None or not leaf.requires_grad or not leaf.is_leaf:
        _accumulate_answered(leaf_node, g, owned=False)
        return
    dense = is_dense(like)
    fits = array.strides == like.strides if dense else array.flags.c_contiguous
    if fits and array.flags.writeable and (owned or hasattr(array, "_device")):  # without data
        leaf._stored_grad = ports.detached_below(g)
        return
    strides = element_strides(like) if dense else contiguous_strides(array.shape)
    fresh = ports.answered_below("new_empty_strided", g, list(array.shape), list(strides))
    leaf._stored_grad = fresh.copy_(g)
