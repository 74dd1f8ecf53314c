"""The fast path of backward() and grad(): one root, plain tensors, nobody who could look on.

Most passes are like that; those of grad() may be recorded too. What the slow path asks step by
step, in a dozen calls of 0.1 to 0.4 us, is here asked at once; whatever is not plain is left to it,
before anything was done.
"""

from __future__ import annotations

from typing import Any

from numpy import empty, ndarray

from pullback.core.mode import (
    NO_GRAD,
    PLAIN,
    Dual,
    Mapped,
    Mode,
    current,
    fast,
    get_mode,
    with_grad,
)
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, Leaf
from pullback.core.origin import getframe, internal, last_user, passing, user_frame
from pullback.core.overriding import FUNCTIONS
from pullback.core.passes import evaluating, running
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import UNWRITTEN
from pullback.engine.accumulate import accumulate
from pullback.engine.filter import Filter, walk_on
from pullback.engine.fitting import as_tensor
from pullback.engine.inbox import Inbox
from pullback.engine.loop import loop_over, written
from pullback.engine.ownership import is_sole_reference
from pullback.engine.plain import finish
from pullback.engine.request import Request, all_is_plain
from pullback.engine.task import run_callbacks
from pullback.operators.arrays.threads import setting
from pullback.operators.dispatch import replaced

_set_mode, _set_running, _set_evaluating = current.set, running.set, evaluating.set
_get_evaluating, _get_passing, _set_passing = evaluating.get, passing.get, passing.set


def leaves_of(inputs: Any) -> list[Any] | None:
    """The accumulators of leaves that some graph holds; None if anything else is among them."""
    found = []
    for one in (inputs,) if inputs.__class__ is Tensor else inputs:
        if one.__class__ is not Tensor and (
            not isinstance(one, Tensor) or one._overrides & FUNCTIONS
        ):
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
    one = empty(array.shape, array.dtype)  # `root_gradient` in line
    one.fill(1)
    made = next(blanks)
    made._array, made._node, made._cell = one, None, UNWRITTEN
    return edge, made


def user_frame_at(depth: int) -> Any:
    """The frame of the user's call, so many above the caller unless that is the package's own."""
    frame: Any = getframe(depth + 1)
    if frame.f_code is not last_user.code and internal[frame.f_code.co_filename]:
        above = frame.f_back  # of a method of ours, which most call
        known = above is not None and above.f_code is last_user.code
        return above if known else user_frame(frame)
    return frame


def chosen_by(edge: Any, wanted: list[Any]) -> Filter | None:
    """Which nodes lead to what is wanted; None: leaves, and `edge` leads to no others."""
    for one in wanted:
        if one._seq != LEAF_SEQ:
            return Filter((edge,), wanted, accumulates=False)
    node = edge if edge._seq < 0 else edge.node
    walk = walk_on([node], {None, node}, dict.fromkeys(wanted))
    return Filter((edge,), wanted, accumulates=False, walk=walk) if walk[2] else None


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


def quick_pass(
    roots: list[tuple[Any, Any]], wanted: list[Any], *, create_graph: bool
) -> list[Any] | None:
    """Gradients for edges, as tensors, of a function transform; None: not plain, nothing was done.

    The graph is kept. Inside of one vmap level or one perturbation gradients are tensors, too.
    """
    mode, plain = get_mode(), fast.plain
    if len(roots) != 1 or plain is None or replaced.kernels or not all_is_plain(in_any_mode=True):
        return None
    usual = mode is plain or mode is fast.no_grad
    if not usual and mode.__class__ is not Dual and mode.__class__ is not Mapped:
        return None
    edge, g = roots[0]
    if edge._seq >= 0 and edge._seq != OUTPUT_SEQ:
        return None
    with_tensors = create_graph or not usual
    if not with_tensors and (g.__class__ is not Tensor or g._array.__class__ is not ndarray):
        return None
    frame = user_frame_at(3) if create_graph else None
    request = Request(roots, True, create_graph, False, wanted, _KEPT)
    request.chosen = chosen_by(edge, wanted)
    request.tensors = with_tensors
    inside = NO_GRAD if usual and not create_graph else with_grad(mode, grad=create_graph)
    captured: dict[Any, Any] = {}
    arrived = run(request, edge, g if with_tensors else g._array, frame, mode, inside, captured)
    found: list[Any] = []
    for one in wanted:
        g = arrived.get(one)
        if g is None and captured:
            g = captured.get((one.node, one.nr) if one._seq == OUTPUT_SEQ else (one, 0))
        found.append(wrap(g) if g.__class__ is ndarray else None if g is None else as_tensor(g))
    return found


_KEPT = Freed(None)  # nothing is freed


def run(
    request: Any,
    edge: Any,
    g: Any,
    frame: Any = None,
    mode: Mode = PLAIN,
    inside: Mode = NO_GRAD,
    captured: dict[Any, Any] | None = None,
) -> dict[Any, Any]:
    """Take a gradient from the one root to the leaves, or into their `.grad`.

    An array, or a tensor if the pass computes with these: its steps then come from the user's
    `frame`. The nodes run in the mode `inside`. What else is wanted comes into `captured`.
    """
    chosen, kind = request.chosen, "tensors" if request.tensors else "arrays"
    inbox = Inbox()
    if request.accumulates:
        request.inbox = inbox  # others are asked for and have no `.grad` that somebody could read
    request.in_mode = inside
    captured = {} if captured is None else captured
    before, outer = _get_evaluating(), None
    try:
        if frame is not None:
            outer = _get_passing()
            _set_passing(frame)
        if inside is not mode:
            _set_mode(inside)
        _set_running(request)
        loop = written.get((kind, False, setting.splits)) or loop_over(kind)
        if edge._seq > 0:
            inbox.put_root(edge, g, chosen)
            loop(inbox, request.keep_graph, request.freed, chosen, captured)
        elif chosen is None or edge in chosen.reached:
            loop(inbox, request.keep_graph, request.freed, chosen, captured, edge, g)
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
            if frame is not None:
                _set_passing(outer)
            _set_mode(mode)
        finally:
            try:
                _set_running(None)
            finally:
                _set_evaluating(before)
    return inbox.leaves
