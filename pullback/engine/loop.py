"""The loop of a pass, written once for gradients that are arrays and once for tensors.

Every node has a creation number smaller than those of the nodes before it, so a heap on that number
is a topological order and needs no count of dependencies. A node whose one live successor is the
newest of all goes straight on to it: chains touch neither heap nor dict. Numbers mostly come in
order, as those of what a `stack` was made of; such a run needs no heap either.

One text serves both: a line that ends in `#: arrays` or `#: tensors` is in that loop alone, one
that ends in `#: watched` only while somebody looks on. Asking at run time instead costs 1 to 7 % of
a pass. Arrays know who owns them, so that sums are made in
place; tensors (recorded, dual or batched ones) are added by operators. While a program is captured,
"traced" is the loop over tensors that asks whether a node is to be run or written down.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, QUIET, run_tensors
from pullback.core.passes import evaluating
from pullback.engine import fitting, hooks, watch
from pullback.engine.ownership import STILL_OURS
from pullback.engine.turns import annotate, capture, undefined
from pullback.operators.arrays.large import add_large
from pullback.operators.arrays.threads import setting
from pullback.operators.writing.writer import define

__all__ = ["loop_over", "source_of", "written"]

_SOURCE = """\
def loop(inbox, keep_graph, freed, chosen, captured, node=None, g=None):
    heap, nodes, gradients = inbox.heap, inbox.nodes, inbox.gradients
    leaves = inbox.leaves
    owned_leaves = inbox.owned_leaves  #: arrays
    pruned = None if chosen is None else chosen.pruned
    captures = chosen.captures if chosen is not None and chosen.captures_inside else None
    watcher = watch.watcher or watch.NOBODY  #: watched
    token = None  #: watched
    started = False  # whether the watcher was told of a turn that is not over  #: watched
    newer = []  # numbers that wait as those in the heap do, each smaller than the one before
    next_g = results = r = total = None
    owned = False  # whether `g` is seen by nobody else
    mine = next_owned = False
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
                owned = seq in inbox.owned  #: arrays
                if owned:  #: arrays
                    inbox.owned.discard(seq)  #: arrays
            if captures is not None and node in captures:
                capture(node, g, chosen, captured)
                if node not in pruned:
                    g = following = None
                    continue
            token, started = watcher.start(node), True  #: watched
            edges = node._edges if pruned is None else pruned[node]
            fresh = True  # whether the results are ours, or may be known to a user  #: arrays
            cold = node._cold
            if cold is None and g is not None:
                set_evaluating(node)  #: tensors
                results = node._run(g, edges)  #: arrays
                results = node._run_tensors(g, edges)  #: tensors
                if node._cold is not None:  # an unpack hook may have added some
                    results = with_new_hooks(node, results, edges)
                    fresh = False  #: arrays
            elif cold is QUIET and g is not None:
                set_evaluating(node)
                results, fresh = node._run(g, edges), False  #: arrays
                results = node._run_tensors(g, edges)  #: tensors
                if node._cold is not QUIET:
                    results = with_new_hooks(node, results, edges)
            else:
                set_evaluating(node)
                given = undefined(node) if g is None else g
                results, fresh = with_hooks(node, given, edges), False  #: arrays
                results = with_hooks(node, given, edges)  #: tensors
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
                mine = fresh and (STILL_OURS)  #: arrays
                if seq < 0:
                    if following is None:
                        following, next_g, next_owned = target, r, mine
                    elif following is target:
                        if seq in nodes:  # added one by one, as the promised order says
                            inbox.put(target, next_g, owned=next_owned)
                            next_g, next_owned = r, mine
                        else:
                            next_g, next_owned = next_g + r, True  #: arrays
                            next_g = next_g + r  #: tensors
                    elif seq not in nodes:
                        nodes[seq] = target
                        gradients[seq] = r
                        if not newer or seq < newer[-1]:
                            newer.append(seq)
                        else:
                            heappush(heap, seq)
                        if mine:  #: arrays
                            inbox.owned.add(seq)  #: arrays
                    else:  # `inbox.put` in line, as below: a call each is a tenth of small passes
                        total = gradients[seq]
                        if total is None:
                            inbox.put(target, r, owned=mine)
                        elif seq in inbox.owned and type(total) is ndarray:  #: arrays
                            add(total, r, total)  #: arrays
                        else:  #: arrays
                            inbox.put(target, r, owned=mine)  #: arrays
                        else:  #: tensors
                            gradients[seq] = total + r  #: tensors
                elif seq == LEAF_SEQ:
                    total = leaves.get(target)
                    if total is None:
                        leaves[target] = r
                        if mine:  #: arrays
                            owned_leaves.add(target)  #: arrays
                    elif type(total) is ndarray and target in owned_leaves:  #: arrays
                        add(total, r, total)  #: arrays
                    else:  #: arrays
                        inbox.put_leaf(target, r, owned=mine)  #: arrays
                    else:  #: tensors
                        leaves[target] = total + r  #: tensors
                else:
                    inbox.put_output(target, r)
            watcher.finish(node, token)  #: watched
            token, started = None, False  #: watched
            g = results = r = None
            if following is not None:
                # All nodes that could still add to `following` are newer, and have run.
                seq = following._seq
                if (not heap or seq < heap[0]) and (not newer or seq < newer[-1]):
                    node, g, owned = following, next_g, next_owned
                elif seq in nodes:
                    inbox.put(following, next_g, owned=next_owned)
                    following = None
                else:
                    nodes[seq] = following
                    gradients[seq] = next_g
                    if not newer or seq < newer[-1]:
                        newer.append(seq)
                    else:
                        heappush(heap, seq)
                    if next_owned:  #: arrays
                        inbox.owned.add(seq)  #: arrays
                    following = None
                next_g = None
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
    watched = watch.watcher is not None
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
    source = _SOURCE.replace("STILL_OURS", STILL_OURS)
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
        "watch": watch,
        **own,
    }
