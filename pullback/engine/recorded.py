"""The pass whose gradients are tensors (recorded, dual or batched ones).

Sums, casts and stores are operators. Otherwise as the plain pass.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from pullback.core import errors, origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import get_mode
from pullback.core.node import OUTPUT_SEQ, AccumulateGrad, Node
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, wrap
from pullback.engine.accumulate import accumulate as accumulate_array
from pullback.engine.accumulate import broadcast_dims, dtype_there
from pullback.engine.filter import Filter
from pullback.engine.hooks import run_before, run_post_hooks
from pullback.engine.inbox import Inbox
from pullback.engine.loop import loop_over
from pullback.operators.tensor.filling import copied_into


def fitted(g: Any, target: Any, node: Node, index: int) -> Any:
    """`g` summed to the target's shape and cast to its dtype, in operators."""
    shape = g._array.shape
    if shape != target._g_shape:
        dims = broadcast_dims(shape, target._g_shape)
        if dims is None:
            raise errors.gradient_shape(type(node).name(node), index, shape, target._g_shape)
        g = (g.sum(dims, keepdim=True) if dims else g).reshape(target._g_shape)
    there = target._g_dtype if g._array.dtype == target._g_dtype else dtype_there(target)
    if there is not None and g._array.dtype != there:
        wanted = from_numpy_dtype(there)
        if g.dtype.is_complex and not wanted.is_complex:
            if not hasattr(type(node), "op"):
                raise errors.gradient_complex(type(node).name(node), index, wanted)
            g = g.real
        g = g.to(wanted)
    return g


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
    frame, outer = origin.user_frame(origin.getframe(1)), origin.passing.get()
    try:
        origin.passing.set(frame)
        loop_over("tensors")(inbox, keep_graph, freed, chosen, captured)
        for leaf, total in inbox.leaves.items():
            if chosen is not None and leaf in chosen.captures:
                captured[leaf, 0] = total
            else:
                alone = getrefcount(total) <= _ALONE
                store(leaf, total, create_graph=create_graph, owned=alone)
    except BaseException:
        _keep_complete_leaves(inbox, chosen, create_graph=create_graph)
        raise
    finally:
        origin.passing.set(outer)
        inbox.clear()  # a kept traceback must not keep gradients
    return captured


def _count_alone() -> int:
    """References that `getrefcount` counts of what only a table that is gone through holds."""
    for _, one in {0: object()}.items():  # noqa: PERF102 (as the loop in `run` is)
        return getrefcount(one)
    return 0


_ALONE = _count_alone()


def store(leaf: AccumulateGrad, total: Any, *, create_graph: bool, owned: bool = False) -> None:
    """Add a tensor to a leaf's `.grad`; `owned`: nobody else holds it."""
    if create_graph:
        accumulate(leaf, total)
    elif get_mode().dispatch and total.__class__ is Tensor:
        accumulate_shown(leaf, total)
    else:
        # That nobody holds a plain tensor says nothing of its memory.
        accumulate_any(leaf, total, owned=owned and bool(total._takes & DISPATCH))


def accumulate_any(leaf: AccumulateGrad, g: Any, *, owned: bool = False) -> None:
    """Add a gradient, array or tensor, to `.grad`, without history."""
    stored = leaf.variable._stored_grad
    if (getattr(g, "_takes", 0) | (0 if stored is None else stored._takes)) & DISPATCH:
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


def accumulate_shown(leaf_node: AccumulateGrad, g: Any) -> None:
    """Add a tensor to `.grad` by operators that the user's mode is shown."""
    leaf = leaf_node.variable
    stored, array, like = leaf._stored_grad, g._array, leaf._array
    if stored is not None or not leaf.requires_grad or not leaf.is_leaf:
        _accumulate_answered(leaf_node, g, owned=False)
    elif array.base is None and array.strides == like.strides and array.flags.writeable:
        leaf._stored_grad = ports.detached_below(g)
    else:
        size = array.itemsize
        strides = tuple(step // size for step in like.strides)
        fresh = ports.answered_below("new_empty_strided", g, list(array.shape), list(strides))
        leaf._stored_grad = fresh.copy_(g)


def _keep_complete_leaves(inbox: Inbox, chosen: Filter | None, *, create_graph: bool) -> None:
    """As in the plain pass: leaves for which nothing more could arrive keep what they got."""
    if inbox.failed is None:
        return
    awaited = inbox.awaited_leaves(chosen)
    for leaf, total in inbox.leaves.items():
        if leaf not in awaited and (chosen is None or leaf not in chosen.captures):
            store(leaf, total, create_graph=create_graph)


def run_with_hooks(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """What a node and its hooks make of a gradient, or of none."""
    several = node._g_sizes is not None
    gradients = run_before(node._cold, tuple(g) if several else (g,))
    cold = node._cold
    shown = gradients if cold is not None and cold.post_hooks else ()
    results: Any
    if not node._by_user and all(one is None for one in gradients):
        results = (None,) * len(edges)
    else:
        results = node._run_tensors(list(gradients) if several else gradients[0], edges)
    return _with_post_hooks(node, results, shown, edges)


def run_new_post_hooks(node: Any, results: Any, edges: tuple[Any, ...]) -> Any:
    """Post-hooks that a node got while it ran: nobody kept its gradients for them."""
    return _with_post_hooks(node, results, (), edges)


def _with_post_hooks(
    node: Any, results: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]
) -> Any:
    if node._cold is None or not node._cold.post_hooks:
        return results
    fit = (
        None
        if edge is None or edge._seq > OUTPUT_SEQ or r is None
        else fitted(r, edge, node, index)
        for index, (edge, r) in enumerate(zip(edges, results, strict=True))
    )
    return run_post_hooks(node, tuple(fit), gradients)
