"""The plain pass: arrays only, leaves are served at the end because nobody watches the order.

Every node has a creation number smaller than those of the nodes before it, so a heap on that number
is a topological order and needs no count of dependencies. A node whose one live successor is the
newest of all goes straight on to it: chains touch neither heap nor dict. `ordered.py` is the pass
for everything else; the tests run the same programs through both.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.node import (
    LEAF_SEQ,
    OUTPUT_SEQ,
    QUIET,
    AccumulateGrad,
    OperatorNode,
    Output,
)
from pullback.core.passes import evaluating
from pullback.core.saved import Freed
from pullback.engine import watch
from pullback.engine.accumulate import accumulate, fitted
from pullback.engine.filter import Filter
from pullback.engine.hooks import (
    run_new_post_hooks,
    run_tensor_hooks,
    run_with_hooks,
    tensors_of,
)

add = numpy.add
ndarray = numpy.ndarray
set_evaluating = evaluating.set  # only where a user's code may look; put back where the pass began


class Inbox:
    """Gradients that wait: for nodes (by number), for leaves, and which of them are ours alone."""

    __slots__ = ("failed", "gradients", "heap", "leaves", "nodes", "owned", "owned_leaves")

    def __init__(self) -> None:
        self.failed: OperatorNode | None = None
        self.heap: list[int] = []
        self.nodes: dict[int, OperatorNode] = {}
        self.gradients: dict[int, Any] = {}
        self.owned: set[int] = set()
        self.leaves: dict[AccumulateGrad, Array] = {}
        self.owned_leaves: set[AccumulateGrad] = set()

    def put(self, node: OperatorNode, g: Array, *, owned: bool) -> None:
        """A gradient for a node of one output."""
        seq = node._seq
        before = self.gradients.get(seq)
        if before is None:
            self.gradients[seq] = g
            if seq not in self.nodes:
                self.nodes[seq] = node
                heappush(self.heap, seq)
            if owned:
                self.owned.add(seq)
        elif seq in self.owned and type(before) is numpy.ndarray:
            add(before, g, before)
        else:
            self.gradients[seq] = before + g
            self.owned.add(seq)

    def put_leaf(self, leaf: AccumulateGrad, g: Array, *, owned: bool) -> None:
        """A gradient for a leaf."""
        before = self.leaves.get(leaf)
        if before is None:
            self.leaves[leaf] = g
            if owned:
                self.owned_leaves.add(leaf)
        elif leaf in self.owned_leaves and type(before) is numpy.ndarray:
            add(before, g, before)
        else:
            self.leaves[leaf] = before + g
            self.owned_leaves.add(leaf)

    def put_output(self, output: Output, g: Array) -> None:
        """A gradient for one output of a node of several."""
        node: Any = output.node
        seq = node._seq
        slots = self.gradients.get(seq)
        if slots is None:
            slots = self.gradients[seq] = [None] * len(node._g_sizes)
            if seq not in self.nodes:
                self.nodes[seq] = node
                heappush(self.heap, seq)
        before = slots[output.nr]
        slots[output.nr] = g if before is None else before + g

    def put_root(self, edge: Any, g: Array, chosen: Filter | None) -> None:
        """The gradient that a pass starts from."""
        seq = edge._seq
        node = edge.node if seq == OUTPUT_SEQ else edge
        if chosen is not None and node not in chosen.reached:
            return
        if seq == LEAF_SEQ:
            self.put_leaf(edge, g, owned=False)
        elif seq == OUTPUT_SEQ:
            self.put_output(edge, g)
        elif seq < 0:
            self.put(edge, g, owned=False)

    def put_undefined(self, target: Any) -> None:
        """No gradient for a node or output, which runs all the same; leaves stay as they are."""
        seq = target._seq
        if seq == OUTPUT_SEQ:
            target = target.node
            seq = target._seq
        if seq < 0 and seq not in self.nodes:
            self.gradients[seq] = None
            self.nodes[seq] = target
            heappush(self.heap, seq)

    def deliver(self, node: Any, edges: tuple[Any, ...], results: Any) -> None:
        """Pass on what a node returned that ran without any gradient."""
        for index, (target, r) in enumerate(zip(edges, results, strict=True)):
            if target is None or target._seq > OUTPUT_SEQ:
                continue
            if r is None:
                self.put_undefined(target)
                continue
            r = fitted(r, target, node, index)
            if target._seq < 0:
                self.put(target, r, owned=False)
            elif target._seq == LEAF_SEQ:
                self.put_leaf(target, r, owned=False)
            else:
                self.put_output(target, r)

    def keep_complete_leaves(self, chosen: Filter | None) -> None:
        """After a failure, what has arrived for leaves that nothing more could have arrived for.

        Those are the leaves that the ordered pass would have served by then.
        """
        awaited = self.awaited_leaves(chosen)
        for leaf, total in self.leaves.items():
            if leaf not in awaited and (chosen is None or leaf not in chosen.captures):
                accumulate(leaf, total, owned=leaf in self.owned_leaves)

    def awaited_leaves(self, chosen: Filter | None) -> set[Any]:
        """Leaves to which the node that failed, or one that has not run, still leads."""
        seen: set[Any] = set()
        stack: list[Any] = [*self.nodes.values(), self.failed]
        while stack:
            edge = stack.pop()
            target = edge.node if isinstance(edge, Output) else edge
            if target is None or target in seen:
                continue
            seen.add(target)
            stack.extend(target._edges if chosen is None else chosen.edges.get(target, ()))
        return seen

    def clear(self) -> None:
        """Let go of everything."""
        self.failed = None
        for part in (self.heap, self.nodes, self.gradients, self.owned):
            part.clear()
        self.leaves.clear()
        self.owned_leaves.clear()


def run(
    roots: list[tuple[Any, Any]],
    inbox: Inbox,
    *,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None = None,
    loop: Any = None,
) -> dict[tuple[Any, int], Any]:
    """Take the gradients of the roots to the leaves, or to what `chosen` asks for."""
    for edge, g in roots:
        inbox.put_root(edge, g._array, chosen)
    captured: dict[tuple[Any, int], Any] = {}
    try:
        if inbox.heap:
            if watch.watcher is not None:
                loop = _watched().loop
            elif loop is None:
                loop = _loop
            loop(inbox, keep_graph, freed, chosen, captured)
        finish(inbox, chosen, captured)
    except BaseException:
        if inbox.failed is not None:
            inbox.keep_complete_leaves(chosen)
        inbox.clear()  # a kept traceback must not keep gradients
        raise
    return captured


def finish(inbox: Inbox, chosen: Filter | None, captured: dict[tuple[Any, int], Any]) -> None:
    """Hand the leaves what arrived for them."""
    store = accumulate if watch.watcher is None else _watched().store
    for leaf, total in inbox.leaves.items():
        if chosen is not None and leaf in chosen.captures:
            captured[leaf, 0] = total
        else:
            store(leaf, total, owned=leaf in inbox.owned_leaves)


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
    leaves, owned_leaves = inbox.leaves, inbox.owned_leaves
    pruned = None if chosen is None else chosen.edges
    captures = chosen.captures if chosen is not None and chosen.captures_inside else None
    node: Any = None
    g: Any = None
    next_g: Any = None
    results: Any = None
    r: Any = None
    owned = False  # whether `g` is seen by nobody else
    following = None
    try:
        while True:
            if following is None:
                if not heap:
                    return
                seq = heappop(heap)
                node = nodes[seq]  # an interrupt at any point finds it here or in `nodes`
                del nodes[seq]
                g = gradients.pop(seq)
                owned = seq in inbox.owned
                if owned:
                    inbox.owned.discard(seq)
            if captures is not None and node in captures:
                assert chosen is not None
                capture(node, g, chosen, captured)
                if node not in chosen.edges:
                    g = following = None
                    continue
            if g is None:
                run_undefined(node, inbox, keep_graph, freed, chosen)
                following = None
                continue
            edges = node._edges if pruned is None else pruned[node]
            fresh = True  # whether the results are the engine's own, or may be known to a user
            cold = node._cold
            if cold is None:
                results = node._run(g, edges)
            elif cold is QUIET:
                set_evaluating(node)
                results, fresh = node._run(g, edges), False
                if node._cold is not QUIET:
                    results = run_new_post_hooks(node, results, edges)
            else:
                set_evaluating(node)
                results, fresh = run_with_hooks(node, g, edges), False
            if not keep_graph:
                node._release(freed)
            following = None
            index = 0
            for target in edges:
                r = results[index]
                index += 1
                if target is None:
                    continue
                if r is None:
                    inbox.put_undefined(target)
                    continue
                seq = target._seq
                if seq > OUTPUT_SEQ:
                    continue
                if r.shape != target._g_shape or r.dtype is not target._g_dtype:
                    r = fitted(r, target, node, index - 1)
                # A rule's result is new unless it is its argument or a view; those are still ours
                # alone if the argument was, no second edge may hold it too, and no element of it
                # is repeated.
                mine = fresh and (
                    (r is not g and r.base is None)
                    or (owned and len(edges) == 1 and (r is g or 0 not in r.strides))
                )
                if seq < 0:
                    if following is None:
                        following, next_g, next_owned = target, r, mine
                    elif following is target:
                        if seq in nodes:  # added one by one, as the promised order says
                            inbox.put(target, next_g, owned=next_owned)
                            next_g, next_owned = r, mine
                        else:
                            next_g, next_owned = next_g + r, True
                    elif seq not in nodes:
                        nodes[seq] = target
                        gradients[seq] = r
                        heappush(heap, seq)
                        if mine:
                            inbox.owned.add(seq)
                    else:
                        inbox.put(target, r, owned=mine)
                elif seq == LEAF_SEQ:
                    if target in owned_leaves and type(leaves[target]) is ndarray:
                        add(leaves[target], r, leaves[target])
                    else:
                        inbox.put_leaf(target, r, owned=mine)
                else:
                    inbox.put_output(target, r)
            g = results = r = None
            if following is not None:
                # All nodes that could still add to `following` are newer, and have run.
                if not heap or following._seq < heap[0]:
                    node, g, owned = following, next_g, next_owned
                else:
                    inbox.put(following, next_g, owned=next_owned)
                    following = None
                next_g = None
    except BaseException as error:
        annotate(error, node)
        inbox.failed = node
        g = next_g = results = r = None  # a kept traceback must not keep gradients
        raise


def capture(node: Any, g: Any, chosen: Filter, captured: dict[tuple[Any, int], Any]) -> None:
    """Keep the gradient that arrived at a node for the caller of grad()."""
    gradients = g if node._g_sizes is not None else (g,)
    if g is None:
        gradients = (None,) * (len(node._g_sizes) if node._g_sizes is not None else 1)
    # A node that runs as well passes its tensors' hooks later; one that does not has them run here.
    cold = node._cold
    if node not in chosen.edges and cold is not None and (cold.tensor_hooks or cold.retained):
        gradients = run_tensor_hooks(cold, tuple(tensors_of(gradients)))
    for number in chosen.captures[node]:
        captured[node, number] = gradients[number]


def run_undefined(
    node: Any,
    inbox: Inbox,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None,
) -> None:
    """Run a node whose consumers all returned no gradient; its hooks are called all the same."""
    edges = node._edges if chosen is None else chosen.edges[node]
    g = None if node._g_sizes is None else [None] * len(node._g_sizes)
    set_evaluating(node)
    results = run_with_hooks(node, g, edges)
    if not keep_graph:
        node._release(freed)
    inbox.deliver(node, edges, results)


def annotate(error: BaseException, node: Any) -> None:
    """Add the forward line of the node at fault to an exception, once; None: before the first."""
    if node is None:
        return
    notes = getattr(error, "__notes__", ())
    if not any(note.startswith("in the backward of") for note in notes):
        where = f", recorded at {node._origin}" if node._origin is not None else ""
        error.add_note(f"in the backward of {type(node).name(node)}{where}")
