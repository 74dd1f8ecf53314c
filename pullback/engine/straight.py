"""The straight line of backward() and grad(): one root, plain tensors, nobody who could look on.

Most passes are like that; those of grad() may be recorded too. What the long way asks step by step,
in a dozen calls of 0.1 to 0.4 us, is here asked at once; whatever is not plain is left to that way,
before anything was done.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from numpy import ndarray

from pullback.core.mode import NO_GRAD, PLAIN, current
from pullback.core.node import OUTPUT_SEQ, Leaf
from pullback.core.origin import getframe, internal, last_user, passing, user_frame
from pullback.core.overriding import FUNCTIONS
from pullback.core.passes import evaluating, running
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, blanks
from pullback.core.version import UNWRITTEN
from pullback.engine.accumulate import accumulate
from pullback.engine.arguments import root_gradient
from pullback.engine.filter import Filter, walk_on
from pullback.engine.inbox import Inbox
from pullback.engine.loop import loop_over, written
from pullback.engine.ownership import is_sole_reference
from pullback.engine.plain import finish
from pullback.engine.task import run_callbacks
from pullback.operators.arrays.threads import setting

_set_mode, _set_running, _set_evaluating = current.set, running.set, evaluating.set
_get_evaluating, _get_passing, _set_passing = evaluating.get, passing.get, passing.set


def leaves_of(inputs: Any) -> list[Any] | None:
    """The accumulators of leaves that some graph holds; None if anything else is among them."""
    found = []
    for one in (inputs,) if inputs.__class__ is Tensor else inputs:
        if one.__class__ is not Tensor and (not isinstance(one, Tensor) or one._takes & FUNCTIONS):
            return None
        mark = one._node
        leaf = mark() if mark.__class__ is Leaf else None
        if leaf is None:
            return None
        found.append(leaf)
    return found or None


def start_of(output: Tensor, given: Any) -> tuple[Any, Tensor] | None:
    """Where the gradient of a root goes, and that gradient; None if there is more to be said."""
    edge, array = output._node, output._array
    if edge is not None and edge._special:
        edge = edge()  # of a view, where nothing needs to be made
    if edge is None or array.__class__ is not ndarray:
        return None
    if edge._seq >= 0 and edge._seq != OUTPUT_SEQ:  # a leaf, or nowhere
        return None
    if given.__class__ is Tensor:
        g = given._array
        fits = g.shape == array.shape and g.dtype is array.dtype and g.__class__ is ndarray
        return (edge, given) if fits else None
    if given is not None or array.size != 1 or array.dtype.kind in "cW":
        return None
    return edge, root_gradient(array.shape, array.dtype)


def user_frame_at(depth: int) -> Any:
    """The frame of the user's call, so many above the caller unless that is the package's own."""
    frame = getframe(depth + 1)
    if frame.f_code is not last_user.code and internal[frame.f_code.co_filename]:
        return user_frame(frame)
    return frame


def freed_by(edge: Any, frame: Any) -> Freed:
    """What the nodes of a pass remember that begins at `edge`, called by the user in `frame`."""
    return Freed(frame, (ref(edge),) if edge._seq < 0 else ())


def chosen_by(edge: Any, leaves: list[Any]) -> Filter | None:
    """Which nodes lead to the leaves; None if all that `edge` leads to does, and nowhere else."""
    node = edge if edge._seq < 0 else edge.node
    walk = walk_on([node], {None, node}, dict.fromkeys(leaves))
    return Filter((edge,), leaves, accumulates=False, walk=walk) if walk[2] else None


def tensors_of(leaves: list[Any], arrays: dict[Any, Any]) -> tuple[Tensor, ...] | None:
    """What arrived at the leaves, as tensors; None if something else, or nothing, came to one."""
    found = []
    for leaf in leaves:
        array = arrays.get(leaf)
        if array.__class__ is not ndarray:
            return None
        tensor = next(blanks)  # `wrap` in line
        tensor._array = array
        tensor._node = None
        tensor._cell = UNWRITTEN
        found.append(tensor)
    return tuple(found)


def run(request: Any, edge: Any, g: Any, frame: Any = None) -> dict[Any, Any]:
    """Take a gradient from the one root to the leaves, or into their `.grad`.

    An array, or a tensor if the pass is recorded: its steps then come from the user's `frame`.
    """
    chosen, kind = request.chosen, "arrays"
    inbox = Inbox()
    if request.accumulates:
        request.inbox = inbox  # others are asked for and have no `.grad` that somebody could read
    before, outer = _get_evaluating(), None
    try:
        if request.create_graph:
            kind, outer, request.tensors = "tensors", _get_passing(), True
            _set_passing(frame)
        else:
            _set_mode(NO_GRAD)
        _set_running(request)
        loop = written.get((kind, False, setting.splits)) or loop_over(kind)
        if edge._seq > 0:
            inbox.put_root(edge, g, chosen)
            loop(inbox, request.keep_graph, request.freed, chosen, {})
        elif chosen is None or edge in chosen.reached:
            loop(inbox, request.keep_graph, request.freed, chosen, {}, edge, g)
        if request.accumulates:
            finish(inbox, None, {}, accumulate, is_sole_reference)
        if request.callbacks:
            run_callbacks(request)
    except BaseException:
        if request.accumulates:
            inbox.keep_complete_leaves(None, accumulate)
        inbox.clear()  # a kept traceback must not keep gradients
        raise
    finally:
        if request.early is not None:
            request.early = None  # it knows the request
        # An interrupt may come after each call, and must not keep the next one from being made.
        try:
            if request.create_graph:
                _set_passing(outer)
            else:
                _set_mode(PLAIN)
        finally:
            try:
                _set_running(None)
            finally:
                _set_evaluating(before)
    return inbox.leaves
