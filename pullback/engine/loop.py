"""The loop of a pass, written once for gradients that are arrays and once for tensors.

Every node has a creation number smaller than those of the nodes before it, so a heap on that number
is a topological order and needs no count of dependencies. A node whose one live successor is the
newest of all goes straight on to it: chains touch neither heap nor dict. Numbers mostly come in
order, as those of what a `stack` was made of; such a run needs no heap either.

One text serves both: a line that ends in `#: arrays` or `#: tensors` is in that loop alone, one
that ends in `#: watched` only while somebody looks on. Asking at run time instead costs 1 to 7 % of
a pass. Sums of arrays are made in place where that memory is ours alone; tensors (recorded, dual or
batched ones) are added by operators. While a program is captured,
"traced" is the loop over tensors that asks whether a node is to be run or written down.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, QUIET, run_tensors
from pullback.core.passes import evaluating
from pullback.core.writer import define
from pullback.engine import fitting, hooks, node_observers
from pullback.engine.node_steps import annotate, capture, undefined
from pullback.operators.arrays.large import add_large
from pullback.operators.arrays.threads import setting

__all__ = ["loop_over", "source_of", "written"]

_SOURCE = """\
def loop(inbox, keep_graph, freed, chosen, captured, node=None, g=None):
    heap, nodes, gradients = inbox.heap, inbox.nodes, inbox.gradients
    leaves = inbox.leaves
    owned = inbox.owned  # numbers, and leaves, whose sum is ours  #: arrays
    pruned = None if chosen is None else chosen.pruned
    captures = chosen.captures if chosen is not None and chosen.captures_inside else None
    watcher = node_observers.observer or node_observers.NOBODY  #: watched
    token = None  #: watched
    started = False  # whether the watcher was told of a turn that is not over  #: watched
    newer = []  # numbers that wait as those in the heap do, each smaller than the one before
    next_g = results = r = total = None
    following = node  # the next node of a chain; at first, the one root if there is but one
    try:
        while True:
            if following is None:
                if newer and (not heap or newer[-1] < heap[0]):
                    seq = newer.pop()
                elif heap:
                    seq = heappop(heap)
                else:
                    return
                node = nodes[seq]  # an interrupt at any point finds it here or in `nodes`
                del nodes[seq]
                g = gradients.pop(seq)
            if captures is not None and node in captures:
                capture(node, g, chosen, captured)
                if node not in pruned:
                    g = following = None
                    continue
            token, started = watcher.start(node), True  #: watched
            edges = node._edges if pruned is None else pruned[node]
            cold = node._cold
            if cold is None and g is not None:
                set_evaluating(node)  #: tensors
                results = node._run(g, edges)  #: arrays
                results = node._run_tensors(g, edges)  #: tensors
                if node._cold is not None:  # an unpack hook may have added some
                    cold = node._cold
                    results = with_new_hooks(node, results, edges)
            elif cold is QUIET and g is not None:
                set_evaluating(node)
                results = node._run(g, edges)  #: arrays
                results = node._run_tensors(g, edges)  #: tensors
                if node._cold is not QUIET:
                    results = with_new_hooks(node, results, edges)
            else:
                set_evaluating(node)
                given = undefined(node) if g is None else g
                results = with_hooks(node, given, edges)
            token = watcher.ran(token, g, results)  #: watched
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
                array = r._array  #: tensors
                if array.shape != target._g_shape or array.dtype is not target._g_dtype:  #: tensors
                if r.shape != target._g_shape or r.dtype is not target._g_dtype:  #: arrays
                    r = fitted(r, target, node, index - 1)
                if seq < 0:
                    if following is None:
                        following, next_g = target, r
                    elif following is target:
                        if seq in nodes:  # added one by one, as the promised order says
                            inbox.put(target, next_g)  #: arrays
                            total = gradients[seq]  #: tensors
                            gradients[seq] = next_g if total is None else total + next_g  #: tensors
                            next_g = r
                        else:
                            next_g = next_g + r
                    elif seq not in nodes:
                        nodes[seq] = target
                        gradients[seq] = r
                        if not newer or seq < newer[-1]:
                            newer.append(seq)
                        else:
                            heappush(heap, seq)
                    elif seq in owned and type(gradients[seq]) is ndarray:  #: arrays
                        add(gradients[seq], r, gradients[seq])  #: arrays
                    else:
                        # New memory, if no user's code saw it and it is not what came.
                        inbox.put(target, r, fresh=cold is None and r is not g)  #: arrays
                        total = gradients[seq]  #: tensors
                        gradients[seq] = r if total is None else total + r  #: tensors
                elif seq == LEAF_SEQ:
                    total = leaves.get(target)
                    if total is None:
                        leaves[target] = r
                    elif target in owned and type(total) is ndarray:  #: arrays
                        add(total, r, total)  #: arrays
                    else:
                        inbox.put_leaf(target, r, fresh=cold is None and r is not g)  #: arrays
                        leaves[target] = total + r  #: tensors
                else:
                    inbox.put_output(target, r)
            watcher.finish(node, token)  #: watched
            token, started = None, False  #: watched
            results = r = None
            if following is not None:
                # All nodes that could still add to `following` are newer, and have run.
                seq = following._seq
                if (not heap or seq < heap[0]) and (not newer or seq < newer[-1]):
                    node, g = following, next_g
                else:
                    if seq in nodes:
                        fresh = cold is None and next_g is not g  #: arrays
                        inbox.put(following, next_g, fresh=fresh)  #: arrays
                        total = gradients[seq]  #: tensors
                        gradients[seq] = next_g if total is None else total + next_g  #: tensors
                    else:
                        nodes[seq] = following
                        gradients[seq] = next_g
                        if not newer or seq < newer[-1]:
                            newer.append(seq)
                        else:
                            heappush(heap, seq)
                    g = following = None
                next_g = None
            else:
                g = None
    except BaseException as error:
        if started:  #: watched
            watcher.finish(node, token)  #: watched
        annotate(error, node)
        inbox.failed = node
        g = next_g = results = r = total = given = None  # a kept traceback must not keep gradients
        raise
"""

# By kind, whether somebody looks on, and whether large arrays are split among threads.
written: dict[tuple[str, bool, bool], Any] = {}


def loop_over(kind: str) -> Any:
    """The loop over gradients that are "arrays", "tensors" or "traced"; written when first needed.

    While somebody looks on it is one that tells of each turn, so that the usual ones ask nothing.
    """
    watched = node_observers.observer is not None
    key = kind, watched, setting.splits
    known = written.get(key)
    if known is None:
        lines = source_of(kind, watched=watched).splitlines()
        known = written[key] = define(lines, _scope(kind), f"loop over {kind}")
    return known


def source_of(kind: str, *, watched: bool = False) -> str:
    """The text of one of the loops."""
    wanted = {"tensors" if kind == "traced" else kind, *(("watched",) if watched else ())}
    lines = []
    source = _SOURCE
    if kind == "traced":
        source = source.replace("node._run_tensors(", "run_tensors(node, ")
    for line in source.splitlines():
        code, marked, mark = line.partition("  #: ")
        if not marked or mark in wanted:
            lines.append(code)
    return "\n".join(lines) + "\n"


def _scope(kind: str) -> dict[str, Any]:
    """What the loop names."""
    own: dict[str, Any]
    if kind == "arrays":
        own = {
            "fitted": fitting.fitted,
            "with_hooks": hooks.run_with_hooks,
            "with_new_hooks": hooks.run_new_post_hooks,
        }
    else:
        own = {
            "fitted": fitting.fitted_tensor,
            "with_hooks": hooks.run_tensors_with_hooks,
            "with_new_hooks": hooks.run_new_post_hooks_on_tensors,
        }
    return {
        "__name__": __name__,
        "LEAF_SEQ": LEAF_SEQ,
        "OUTPUT_SEQ": OUTPUT_SEQ,
        "QUIET": QUIET,
        "add": add_large if setting.splits else numpy.add,
        "annotate": annotate,
        "capture": capture,
        "heappop": heappop,
        "heappush": heappush,
        "ndarray": numpy.ndarray,
        "run_tensors": run_tensors,
        "set_evaluating": evaluating.set,  # only where a user's code may look
        "undefined": undefined,
        "node_observers": node_observers,
        **own,
    }
