"""Why a tensor has no gradient: what the tensor itself tells, and where it was cut off.

Results without history are made on the fast path, where a look at the user's line would cost a
tenth of the call. So what is known is noted where it is free: a `no_grad` block notes itself once,
and its results carry that note as their version counter (`birth.py`); `detach()` and its like are
few and keep their line. Results of operators take the note over (`cause.py`). What remains (whose
dtype, whose leaf) is read off the tensor when asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.explain.birth import Birth, Cut, Ended, FromArray, make_birth
from pullback.core.explain.cause import cause_of, exits_in
from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad, Leaf, Node, node_and_number
from pullback.core.origin import Origin, getframe, internal, user_frame

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor

# Operators that are constant but for their jumps: their derivative is 0 wherever it exists.
_CONSTANT = {
    "RoundBackward0": "round",
    "RoundBackward1": "round",
    "FloorBackward0": "floor",
    "CeilBackward0": "ceil",
    "TruncBackward0": "trunc",
    "SignBackward0": "sign",
    "SgnBackward0": "sgn",
    "HeavisideBackward0": "heaviside",
}


def cut_here(how: str) -> Cut:
    """The note that `how`, called from the user's code, took a tensor out of the graph."""
    frame: Any = getframe(2)
    if internal[frame.f_code.co_filename]:
        frame = user_frame(frame)
        if frame is None:
            return make_birth(Cut, (how, None, 0))
    return make_birth(Cut, (how, frame.f_code, frame.f_lasti))


def explain(tensor: Tensor) -> str:
    """The reason, in a sentence, with the remedy."""
    if tensor.requires_grad:
        return _explain_history(tensor)
    made = cause_of(tensor)
    if tensor.is_inference():
        return (
            "It was made in inference_mode, whose tensors never take part in a graph. Compute it "
            "outside, or clone() it there and call requires_grad_()."
        )
    if not tensor.dtype.is_differentiable and not isinstance(made, Cut):
        where = f" (here {made.how}(){_place(made)})" if isinstance(made, Ended) else ""
        return (
            f"It has dtype {tensor.dtype}, and only floating point and complex tensors have "
            f"gradients. Comparisons, argmax and casts to integers end the graph{where}."
        )
    if made is None:
        return _explain_leaf()
    if isinstance(made, Cut):
        return _explain_cut(made)
    return _explain_end(made) if isinstance(made, Ended) else _explain_birth(made)


def _place(made: Birth) -> str:
    return "" if made.code is None else f" at {Origin(made.code, made.lasti)}"


def _explain_cut(made: Cut) -> str:
    if made.how == "requires_grad = False":
        return (
            f"requires_grad = False{_place(made)} froze what it was computed from, and nothing "
            "else there asked for a gradient. Set requires_grad=True again on what is to be "
            "trained, before the computation."
        )
    return (
        f"{made.how}{_place(made)} took it, or what it was computed from, out of the graph. Use "
        f"the tensor from before, or remove the {made.how}."
    )


def _explain_end(made: Ended) -> str:
    return (
        f"It was computed from the result of {made.how}(){_place(made)}, which has no derivative: "
        "the graph ends there. Indices, comparisons and whole numbers cannot be trained through; "
        "use a smooth stand-in, such as softmax for argmax, or sigmoid for a threshold."
    )


def _explain_birth(made: Birth) -> str:
    place = _place(made)
    if made.how == "inference_mode":
        return (
            "It was computed from a tensor made in inference_mode, and those never take part in a "
            "graph. Compute that one outside, or use no_grad() and requires_grad_()."
        )
    if made.how in ("no_grad", "set_grad_enabled"):
        block = f"{made.how}{place}" if place else "no_grad, or in a hook or backward"
        return (
            "It, or what it was computed from, was computed with grad mode off "
            f"({block}), where nothing is recorded. Compute that outside of the block, or inside "
            "enable_grad()."
        )
    if isinstance(made, FromArray):
        return (
            f"It comes from {made.how}{place}: NumPy arrays carry no history, so a graph that "
            "went into NumPy ends there. Stay in tensors on the way, or, if that is a leaf, call "
            "requires_grad_() on it before the computation."
        )
    return _explain_numbers(made)


def _explain_numbers(made: Birth) -> str:
    """A leaf; its numbers may have come from tensors, by `item()` in the same function."""
    place = _place(made)
    left = [] if made.code is None else exits_in(made.code)
    if any(one.lasti == made.lasti and one.how == made.how for one in left):
        return (
            f"{made.how}{place} copied the values of tensors that have a history, and not the "
            "history. Use stack() or cat() to put tensors together, or the tensor itself."
        )
    if left:
        named = ", ".join(f"{one.how}{_place(one)}" for one in left[-3:])
        return (
            f"It comes from {made.how}{place}, which was given Python numbers. Values that leave "
            f"for Python carry no history, and here some did: {named}. Stay in tensors on the way "
            "(stack() and cat() put them together), or, if it is a leaf, pass requires_grad=True."
        )
    return (
        f"It is, or was computed from, a leaf made by {made.how}{place}, and nobody asked for its "
        "gradient. Pass requires_grad=True there, or call requires_grad_() on it before the "
        "computation."
    )


def _explain_leaf() -> str:
    grad_off = "" if get_mode().grad else " Grad mode is off at this place too."
    return (
        "Nothing was recorded for it: none of its inputs require grad, or the computation passed "
        "through integers or NumPy arrays, which carry no history. Set requires_grad=True on the "
        f"leaf, or call requires_grad_() on it, before the computation.{grad_off}"
    )


def _explain_own_leaf(leaf: Tensor) -> str:
    """A leaf can tell whether a graph knows it, but not whether the loss belongs to that."""
    known = leaf._leaf_mark()() is not None
    filled = "" if leaf._stored_grad is None else " Its .grad has been filled before."
    if known:
        return (
            "It is a leaf that requires grad, and a graph leads to it: backward() from what was "
            "computed with that adds to its .grad. Whether a loss is among it says "
            f"autograd.graph.unused(loss, model).{filled}"
        )
    return (
        "It is a leaf that requires grad, but no graph that is alive leads to it: it was not used, "
        "or what was computed from it is gone or was computed under no_grad. backward() adds to "
        "its .grad if the loss is computed from it; autograd.graph.unused(loss, model) says which "
        f"parameters a loss misses.{filled}"
    )


def _explain_history(tensor: Tensor) -> str:
    """It takes part in a graph; whether anything but zeros can come out of that."""
    edge = tensor._interior_edge()
    if edge is None:
        if tensor._leaf_mark().__class__ is Leaf:
            return _explain_own_leaf(tensor)
        return (
            "It is a view that was taken where nothing was recorded (no_grad, or before its base "
            "required grad): it requires grad as its base does, but its gradient leads nowhere. "
            "Take the view again, with grad mode on."
        )
    constants, reaches_leaf = _constants_on_the_way(edge)
    if constants and not reaches_leaf:
        named = ", ".join(
            f"{_CONSTANT[type(node).__name__]}"
            + ("" if node._origin is None else f" at {node._origin}")
            for node in constants
        )
        return (
            f"It has a history, but every way to its leaves goes through {named}, whose derivative "
            "is 0: the gradients will be zeros. Leave the rounding away in training, or let the "
            "gradient pass it: `x + (x.round() - x).detach()`."
        )
    return (
        "It requires grad: backward() reaches its leaves, and fills .grad of those. To see its own "
        "gradient call retain_grad() on it before backward()."
    )


def _constants_on_the_way(edge: Any) -> tuple[list[Node], bool]:
    """Nodes of rounding operators met first, and whether a leaf is reached around them."""
    found: list[Node] = []
    reaches_leaf = False
    seen: set[Node] = set()
    stack = [node_and_number(edge)[0]]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ in _CONSTANT:
            found.append(node)
        elif isinstance(node, AccumulateGrad):
            reaches_leaf = True
        else:
            stack.extend(node_and_number(one)[0] for one in node._edges)
    return found[:3], reaches_leaf
