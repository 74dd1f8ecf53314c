"""Why a tensor has no gradient: what the tensor itself tells, and where it was cut off.

Results without history are made on the fast path, where a look at the user's line would cost a
tenth of the call. So what is known is noted where it is free: a `no_grad` block notes itself once,
and its results carry that note as their version counter (`birth.py`); `detach()` and its like are
few and keep their line. What remains (whose dtype, whose leaf) is read off the tensor when asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.explain.birth import Birth
from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad, Leaf, Node, node_and_number
from pullback.core.origin import Origin, getframe, user_frame
from pullback.core.version import birth

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


FROM_ARRAYS = ("from_numpy()", "tensor() of an array", "as_tensor() of an array")


def remember_cut(tensor: Tensor, how: str) -> None:
    """Note that `how`, called from the user's code, made this tensor without its history."""
    frame = user_frame(getframe(2))
    if frame is not None:
        tensor._cut = (how, frame.f_code, frame.f_lasti)


def explain(tensor: Tensor) -> str:
    """The reason, in a sentence, with the remedy."""
    if tensor.requires_grad:
        return _explain_history(tensor)
    base = tensor._base
    cut: Any = tensor._cut or (None if base is None else base._cut)
    if cut is not None:
        how, code, lasti = cut
        return (
            f"{how} at {Origin(code, lasti)} took it out of the graph. Use the tensor from before, "
            f"or leave the {how} away."
        )
    if not tensor.dtype.is_differentiable:
        return (
            f"It has dtype {tensor.dtype}, and only floating point and complex tensors have "
            "gradients. Comparisons, argmax and casts to integers end the graph."
        )
    if tensor.is_inference():
        return (
            "It was made in inference_mode, whose tensors never take part in a graph. Compute it "
            "outside, or clone() it there and call requires_grad_()."
        )
    made = birth(tensor._cell)
    return _explain_leaf() if made is None else _explain_birth(made)


def _explain_birth(made: Birth) -> str:
    place = "" if made.code is None else f" at {Origin(made.code, made.lasti)}"
    if made.how in ("no_grad", "set_grad_enabled"):
        block = f"{made.how}{place}" if place else "no_grad, or in a hook or backward"
        return (
            f"It was computed with grad mode off ({block}), where nothing is recorded. Compute it "
            "outside of that block, or inside enable_grad()."
        )
    if made.how in FROM_ARRAYS:
        return (
            f"It was made by {made.how}{place}: NumPy arrays carry no history, so a graph that "
            "went into NumPy ends there. Stay in tensors on the way, or, if it is a leaf, call "
            "requires_grad_() on it before the computation."
        )
    return (
        f"It is a leaf made by {made.how}{place}, and nobody asked for its gradient. Pass "
        "requires_grad=True there, or call requires_grad_() on it before the computation."
    )


def _explain_leaf() -> str:
    grad_off = "" if get_mode().grad else " Grad mode is off at this place too."
    return (
        "Nothing was recorded for it: nobody called requires_grad_() on it or on what it was "
        "computed from, or that came through integers or NumPy arrays, which carry no history. Set "
        f"requires_grad=True on the leaf before the computation.{grad_off}"
    )


def _explain_history(tensor: Tensor) -> str:
    """It takes part in a graph; whether anything but zeros can come out of that."""
    edge = tensor._interior_edge()
    if edge is None:
        if tensor._leaf_mark().__class__ is Leaf:
            return "It is a leaf that requires grad: backward() adds to its .grad."
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
