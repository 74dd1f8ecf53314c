"""Why a tensor has no gradient: what the tensor itself tells, and where it was cut off.

Operators record nothing about results without history, since that would cost every call under
no_grad. The places where a tensor is taken out of the graph on purpose are few, and remember their
line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.mode import get_mode
from pullback.core.origin import Origin, getframe, user_frame

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor


def remember_cut(tensor: Tensor, how: str) -> None:
    """Note that `how`, called from the user's code, made this tensor without its history."""
    frame = user_frame(getframe(2))
    if frame is not None:
        tensor._cut = (how, frame.f_code, frame.f_lasti)


def explain(tensor: Tensor) -> str:
    """The reason, in a sentence, with the remedy."""
    if tensor.requires_grad:
        return "It requires grad: backward() reaches its leaves, and fills .grad of those."
    cut: Any = tensor._cut
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
    grad_off = "" if get_mode().grad else " Grad mode is off at this place too."
    return (
        "Nothing was recorded for it: either nobody called requires_grad_() on it or on what it "
        "was "
        "computed from, or it was computed under no_grad, or it came from a NumPy array. Set "
        f"requires_grad=True on the leaf before the computation.{grad_off}"
    )
