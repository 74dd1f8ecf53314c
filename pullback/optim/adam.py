"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor
from pullback.operators.arrays import programs
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.native import MANY, by_machine_code, rows_of
from pullback.operators.arrays.scaled import average, subtract_scaled
from pullback.operators.create.sizes import zeros_like
from pullback.operators.pointwise.extrema import maximum
from pullback.optim.checks import arguments, betas_below_one, learning_rate, not_negative
from pullback.optim.elementwise import (
    ElementwiseOptimizer,
    average_in,
    average_square_in,
    counter,
    decayed,
    unwritten,
)
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    lr, (beta1, beta2) = options["lr"], options["betas"]
    step = state["step"] = state["step"] + 1
    g = decoupled_or_decayed(x, g, options)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    average_in(mean, g, beta1)
    average_square_in(square, g, beta2)
    if options["amsgrad"]:
        largest = state["max_exp_avg_sq"]
        largest.copy_(maximum(unwritten(largest, largest, square), square))
        square = largest
    # Both averages began at zero and are too small at first. The correction of the square is moved
    # out of the root, to where it is a number: a pass over the elements less.
    root = (1 - beta2**step) ** 0.5
    rate = lr * root / (1 - beta1**step)
    way = mean / (square.sqrt() + options["eps"] * root)
    if isinstance(rate, Tensor):
        x.sub_(way.mul_(rate))
    else:
        x.sub_(way, alpha=rate)


# In operators each finds out which line of the user's it serves, and asks for memory of its own.
def _on_arrays(x: Array, g: Array, state: dict[str, Any], options: dict[str, Any]) -> None:
    """`_rule`, in buffers that all blocks share."""
    (beta1, beta2), decay = options["betas"], options["weight_decay"]
    step = state["step"] = state["step"] + 1
    root = (1 - beta2**step) ** 0.5
    rate = options["lr"] * root / (1 - beta1**step)
    decoupled = options.get("decoupled_weight_decay")
    strength = 1 - options["lr"] * decay if decoupled else decay
    if x.size >= MANY and not options["amsgrad"]:
        numbers = (beta1, 1 - beta1, beta2, 1 - beta2, options["eps"] * root, rate, strength)
        flat = (x, g, state["exp_avg"], state["exp_avg_sq"])
        rows = [one.reshape(rows_of(x.size)) for one in flat]
        arrays = (*rows, numpy.array(numbers, x.dtype))
        how = ("apart" if decoupled else "added") if decay != 0 else ""
        if by_machine_code(programs.ADAM, arrays, how, bool(options["maximize"])) is not None:
            return
    smallest, pull = numpy.array(options["eps"] * root, x.dtype), numpy.array(strength, x.dtype)
    rooms = numpy.empty((2, min(x.size, BLOCK)), x.dtype)
    for block in slices(x.size, 1, BLOCK):
        value, given, mean, square = (
            x[block],
            g[block],
            state["exp_avg"][block],
            state["exp_avg_sq"][block],
        )
        room, other = rooms[:, : value.size]
        if options["maximize"]:
            given = numpy.negative(given, room)
        if decay != 0 and decoupled:
            value *= pull
        elif decay != 0:
            given = numpy.add(given, numpy.multiply(value, pull, other), room)
        average(mean, beta1, given, 1 - beta1)
        average(square, beta2, numpy.multiply(given, given, other), 1 - beta2)
        if options["amsgrad"]:
            largest = state["max_exp_avg_sq"][block]
            square = numpy.maximum(largest, square, out=largest)
        numpy.sqrt(square, other)
        other += smallest
        subtract_scaled(value, value, numpy.divide(mean, other, other), alpha=rate)


def _on_device(
    kernels: Any, x: Any, g: Any, arrays: dict[str, Any], options: dict[str, Any],
    state: dict[str, Any],
) -> bool:  # fmt: skip
    """`_rule` in one launch; the count of steps is the host's, or the device's where captured."""
    step = state["step"]
    if options["capturable"]:
        count = arrays["step"]
        if type(count) is not type(x) or count.dtype.char != "f":
            return False
    elif type(arrays["step"]) is type(x):
        return False  # looking at it would wait
    else:
        count = step.item() + 1
        step.fill_(count)
    kernels.adam(
        x, g, arrays["exp_avg"], arrays["exp_avg_sq"], arrays.get("max_exp_avg_sq"), count,
        options["lr"], options["betas"], options["eps"], options["weight_decay"],
        decoupled=bool(options.get("decoupled_weight_decay")), turned=options["maximize"],
    )  # fmt: skip
    return True


def decoupled_or_decayed(x: Any, g: Any, options: dict[str, Any]) -> Any:
    """The gradient, with weight decay in it; or without, and the parameter shrunk by itself."""
    if not options.get("decoupled_weight_decay"):
        return decayed(x, g, options)
    if options["weight_decay"] != 0:
        x.mul_(1 - options["lr"] * options["weight_decay"])
    return -g if options["maximize"] else g


class Adam(ElementwiseOptimizer):
    """Adam: steps by running averages of the gradient, divided by the root of those of its square.

    With gradient `g` at step `t`: `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) *
    g**2`; then `p = p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)`.

    Args:
        params: Parameters, or a list of dicts, each a group with options of its own.
        lr: Learning rate, about the size of a step.
        betas: Decay rates (beta1, beta2) of the two averages.
        eps: Added to the denominator.
        weight_decay: Coefficient of the L2 penalty, added to the gradient; `AdamW` decays
            otherwise.
        amsgrad: Whether to divide by the largest average of squares so far.
        foreach: Whether to update all parameters together; chosen if not given.
        maximize: Whether to ascend.
        capturable: Whether steps can be captured in a CUDA graph.
        differentiable: Whether the step itself is recorded.
        fused: Whether to run the update as one kernel where there is one.
        decoupled_weight_decay: Whether to shrink the parameters instead, as `AdamW` does.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _rule = staticmethod(_rule)
    _kernel = staticmethod(_on_arrays)
    _on_device = staticmethod(_on_device)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        learning_rate(lr, foreach=foreach, capturable=capturable)
        not_negative(eps=eps, weight_decay=weight_decay)
        betas_below_one(betas)
        _check_tensor_betas(betas, foreach=foreach, capturable=capturable)
        names = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable "
            "differentiable fused decoupled_weight_decay"
        )
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
        return {"step": counter(), **{name: zeros_like(p) for name in names}}


def _check_tensor_betas(betas: Any, *, foreach: bool | None, capturable: bool) -> None:
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(tensors) and not all(tensors):
        raise ValueError("Both betas are numbers, or both are tensors.")
    if any(tensors) and foreach and not capturable:
        raise ValueError("With foreach=True and capturable=False betas have to be numbers.")


adam = on_lists(
    "adam",
    _rule,
    "params grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
    "foreach capturable differentiable fused grad_scale found_inf has_complex "
    "decoupled_weight_decay",
    "amsgrad beta1 beta2 lr weight_decay eps maximize",
)
