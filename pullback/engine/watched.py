"""The plain pass with somebody looking on: the same results, each node announced.

A loop of its own, so that the plain one asks nothing of every node; without that one's short cut
for chains, which would leave no clear end of a node's turn.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, QUIET, AccumulateGrad
from pullback.core.saved import Freed
from pullback.engine import ordered, recorded, watch
from pullback.engine.accumulate import accumulate, fitted
from pullback.engine.filter import Filter
from pullback.engine.hooks import run_new_post_hooks, run_with_hooks
from pullback.engine.plain import Inbox, annotate, capture, run_undefined, set_evaluating


def loop(
    inbox: Inbox,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None,
    captured: dict[tuple[Any, int], Any],
) -> None:
    """Run the nodes for which a gradient waits, newest first, and those they lead to."""
    heap, nodes, gradients = inbox.heap, inbox.nodes, inbox.gradients
    watcher: Any = watch.watcher or watch.NOBODY
    start, ran, finish = watcher.start, watcher.ran, watcher.finish
    node: Any = None
    token: Any = None
    started = False
    g = results = None
    try:
        while heap:
            seq = heappop(heap)
            node = nodes[seq]
            del nodes[seq]
            g = gradients.pop(seq)
            owned = seq in inbox.owned
            if owned:
                inbox.owned.discard(seq)
            if chosen is not None and node in chosen.captures:
                capture(node, g, chosen, captured)
                if node not in chosen.edges:
                    continue
            token, started = start(node), True
            if g is None:
                run_undefined(node, inbox, keep_graph, freed, chosen)
            else:
                edges = node._edges if chosen is None else chosen.edges[node]
                fresh = node._cold is None
                results = node._run(g, edges) if fresh else _run_cold(node, g, edges)
                token = ran(token, g, results)
                if not keep_graph:
                    node._release(freed)
                _deliver(inbox, node, edges, results, g, owned, fresh)
            finish(node, token)
            started = False
            g = results = token = None
    except BaseException as error:
        if started:
            finish(node, token)
        annotate(error, node)
        inbox.failed = node
        g = results = None  # a kept traceback must not keep gradients
        raise


def _run_cold(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    set_evaluating(node)
    if node._cold is not QUIET:
        return run_with_hooks(node, g, edges)
    results = node._run(g, edges)
    return results if node._cold is QUIET else run_new_post_hooks(node, results, edges)


def _deliver(
    inbox: Inbox,
    node: Any,
    edges: tuple[Any, ...],
    results: Any,
    g: Any,
    owned: bool,
    fresh: bool,
) -> None:
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
        # As in the plain pass.
        mine = fresh and (
            (r is not g and r.base is None)
            or (owned and len(edges) == 1 and (r is g or 0 not in r.strides))
        )
        if seq < 0:
            if seq in inbox.nodes:
                inbox.put(target, r, owned=mine)
                continue
            inbox.nodes[seq] = target
            inbox.gradients[seq] = r
            heappush(inbox.heap, seq)
            if mine:
                inbox.owned.add(seq)
        elif seq == LEAF_SEQ:
            inbox.put_leaf(target, r, owned=mine)
        else:
            inbox.put_output(target, r)


def store(leaf: AccumulateGrad, total: Any, *, owned: bool) -> None:
    """Add to a leaf's `.grad`, announced."""
    watcher: Any = watch.watcher or watch.NOBODY
    token = watcher.start(leaf)
    try:
        accumulate(leaf, total, owned=owned)
        token = watcher.ran(token, total, ())
    finally:
        watcher.finish(leaf, token)


def results_of(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """A node's turn in the recorded pass, announced."""
    watcher: Any = watch.watcher or watch.NOBODY
    token = watcher.start(node)
    try:
        results = recorded.results_of(node, g, edges)
        token = watcher.ran(token, g, results)
    finally:
        watcher.finish(node, token)
    return results


def visit(task: Any, plan: Any, inbox: Any, ready: Any, node: Any) -> None:
    """A node's turn in the ordered pass, announced unless it is only asked what arrived."""
    watcher: Any = watch.watcher or watch.NOBODY
    if node not in plan.runs:
        ordered.visit(task, plan, inbox, ready, node)
        return
    token = watcher.start(node)

    def run(task: Any, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
        nonlocal token
        results = ordered.apply(task, node, gradients, edges)
        token = watcher.ran(token, list(gradients), results)
        return results

    try:
        ordered.visit(task, plan, inbox, ready, node, run)
    finally:
        watcher.finish(node, token)
