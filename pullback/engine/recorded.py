"""The pass whose gradients are tensors (recorded, dual or batched ones).

Sums, casts and stores are operators. Otherwise as the plain pass.
"""

from __future__ import annotations

from heapq import heappop
from typing import Any

from pullback.core import errors, origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, QUIET, AccumulateGrad, Node
from pullback.core.saved import Freed
from pullback.engine import watch
from pullback.engine.accumulate import accumulate as accumulate_array
from pullback.engine.accumulate import broadcast_dims
from pullback.engine.filter import Filter
from pullback.engine.hooks import run_before, run_post_hooks
from pullback.engine.plain import Inbox, annotate, capture, set_evaluating
from pullback.operators.tensor.filling import copied_into


def fitted(g: Any, target: Any, node: Node, index: int) -> Any:
    """`g` summed to the target's shape and cast to its dtype, in operators."""
    shape = g._array.shape
    if shape != target._g_shape:
        dims = broadcast_dims(shape, target._g_shape)
        if dims is None:
            raise errors.gradient_shape(type(node).name(node), index, shape, target._g_shape)
        g = (g.sum(dims, keepdim=True) if dims else g).reshape(target._g_shape)
    if g._array.dtype != target._g_dtype:
        wanted = from_numpy_dtype(target._g_dtype)
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
    pass_frame = origin.passing.set(origin.user_frame(origin.getframe(1)))
    try:
        _loop(inbox, keep_graph, freed, chosen, captured)
        for leaf, total in inbox.leaves.items():
            if chosen is not None and leaf in chosen.captures:
                captured[leaf, 0] = total
            else:
                store(leaf, total, create_graph=create_graph)
    except BaseException:
        _keep_complete_leaves(inbox, chosen, create_graph=create_graph)
        raise
    finally:
        origin.passing.reset(pass_frame)
        inbox.clear()  # a kept traceback must not keep gradients
    return captured


def store(leaf: AccumulateGrad, total: Any, *, create_graph: bool) -> None:
    """Add a tensor to a leaf's `.grad`."""
    if create_graph:
        accumulate(leaf, total)
    else:
        accumulate_array(leaf, total._array, owned=False)


def _keep_complete_leaves(inbox: Inbox, chosen: Filter | None, *, create_graph: bool) -> None:
    """As in the plain pass: leaves for which nothing more could arrive keep what they got."""
    if inbox.failed is None:
        return
    awaited = inbox.awaited_leaves(chosen)
    for leaf, total in inbox.leaves.items():
        if leaf not in awaited and (chosen is None or leaf not in chosen.captures):
            store(leaf, total, create_graph=create_graph)


def _watched() -> Any:
    from pullback.engine import watched  # which imports this module

    return watched


def _loop(
    inbox: Inbox,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None,
    captured: dict[tuple[Any, int], Any],
) -> None:
    heap, nodes, gradients = inbox.heap, inbox.nodes, inbox.gradients
    pruned = None if chosen is None else chosen.edges
    captures = chosen.captures if chosen is not None and chosen.captures_inside else ()
    watched = watch.watcher is not None
    evaluate = _watched().results_of if watched else results_of
    node: Any = None
    following: Any = None  # as in the plain pass: the next node of a chain skips the heap
    g = next_g = results = r = None
    try:
        while True:
            if following is None:
                if not heap:
                    return
                seq = heappop(heap)
                node = nodes[seq]
                del nodes[seq]
                g = gradients.pop(seq)
            if chosen is not None and node in captures:
                capture(node, g, chosen, captured)
                if node not in chosen.edges:
                    g = following = None
                    continue
            edges = node._edges if pruned is None else pruned[node]
            set_evaluating(node)
            if node._cold is None and g is not None and not watched:
                results = node._run_tensors(g, edges)
                if node._cold is not None:
                    results = _with_post_hooks(node, results, (), edges)
            else:
                results = evaluate(node, g, edges)
            if not keep_graph:
                node._release(freed)
            following = None
            index = 0
            for target in edges:
                r = results[index]
                index += 1
                if target is None:
                    continue
                seq = target._seq
                if seq > OUTPUT_SEQ:
                    continue
                if r is None:
                    inbox.put_undefined(target)
                    continue
                array = r._array
                if array.shape != target._g_shape or array.dtype is not target._g_dtype:
                    r = fitted(r, target, node, index - 1)
                if seq < 0:
                    if following is None:
                        following, next_g = target, r
                    elif following is target:
                        if seq in nodes:  # added one by one, as the promised order says
                            inbox.put(target, next_g, owned=False)
                            next_g = r
                        else:
                            next_g = next_g + r
                    else:
                        inbox.put(target, r, owned=False)
                elif seq == LEAF_SEQ:
                    inbox.put_leaf(target, r, owned=False)
                else:
                    inbox.put_output(target, r)
            g = results = r = None
            if following is not None:
                if not heap or following._seq < heap[0]:
                    node, g = following, next_g
                else:
                    inbox.put(following, next_g, owned=False)
                    following = None
                next_g = None
    except BaseException as error:
        annotate(error, node)
        inbox.failed = node
        g = next_g = results = r = None
        raise


origin.engine_loop = _loop.__code__


def results_of(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """What a node and its hooks make of a gradient."""
    cold = node._cold
    results: Any
    if g is not None and (cold is None or cold is QUIET):
        results = node._run_tensors(g, edges)
        return results if node._cold is cold else _with_post_hooks(node, results, (), edges)
    several = node._g_sizes is not None
    gradients: tuple[Any, ...] = tuple(g or [None] * len(node._g_sizes)) if several else (g,)
    gradients = run_before(cold, gradients)
    shown = gradients if cold is not None and cold.post_hooks else ()
    if not node._by_user and all(one is None for one in gradients):
        results = (None,) * len(edges)
    else:
        results = node._run_tensors(list(gradients) if several else gradients[0], edges)
    return _with_post_hooks(node, results, shown, edges)


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
