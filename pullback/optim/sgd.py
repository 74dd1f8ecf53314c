"""SGD: steps along the gradient, with or without momentum."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.scaled import average, subtract_scaled
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, decayed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    g = decayed(x, g, options)
    momentum = options["momentum"]
    if momentum != 0:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = g.detach().clone() if not g.requires_grad else +g
        elif options["dampening"] == 0:
            buffer.mul_(momentum).add_(g)
        else:
            buffer.mul_(momentum).add_(g * (1 - options["dampening"]))
        g = g + buffer * momentum if options["nesterov"] else buffer
    rate = options["lr"]
    if isinstance(rate, Tensor):
        x.sub_(g * rate)
    else:
        x.sub_(g, alpha=rate)


# In operators each finds out which line of the user's it serves, and asks for memory of its own.
def _on_arrays(x: Array, g: Array, state: dict[str, Array], options: dict[str, Any]) -> None:
    """`_rule`, in buffers that all blocks share."""
    momentum, decay, dtype = options["momentum"], options["weight_decay"], x.dtype
    if momentum == 0 and decay == 0 and not options["maximize"]:
        # One pass, in as few calls as give what blocks would give: the last may be a small one.
        whole = x.size - x.size % BLOCK
        for part in (slice(0, whole), slice(whole, None)):
            value = x[part]
            if value.size:
                subtract_scaled(value, value, g[part], alpha=options["lr"])
        return
    kept, taken = numpy.array(momentum, dtype), numpy.array(1 - options["dampening"], dtype)
    pull = numpy.array(decay, dtype)
    rooms = numpy.empty((2, min(x.size, BLOCK)), dtype)
    for block in slices(x.size, 1, BLOCK):
        value, given = x[block], g[block]
        room, other = rooms[:, : value.size]
        if options["maximize"]:
            given = numpy.negative(given, room)
        if decay != 0:
            given = numpy.add(given, numpy.multiply(value, pull, other), room)
        if momentum != 0:
            buffer = state["momentum_buffer"][block]
            if options["dampening"] == 0:
                average(buffer, momentum, given, 1)
            else:
                buffer *= kept
                buffer += numpy.multiply(given, taken, other)
            if options["nesterov"]:
                given = numpy.add(given, numpy.multiply(buffer, kept, other), room)
            else:
                given = buffer
        subtract_scaled(value, value, given, alpha=options["lr"])


def _on_device(
    kernels: Any, x: Any, g: Any, arrays: dict[str, Any], options: dict[str, Any],
    state: dict[str, Any],
) -> bool:  # fmt: skip
    """`_rule` in one launch, but for the first step with momentum, which makes the buffer."""
    buffer = arrays.get("momentum_buffer")
    if options["momentum"] != 0 and buffer is None:
        return False
    kernels.sgd(
        x, g, buffer if options["momentum"] != 0 else None, options["lr"], options["momentum"],
        1 - options["dampening"], options["weight_decay"], nesterov=options["nesterov"],
        turned=options["maximize"],
    )  # fmt: skip
    return True


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    With gradient `g` (plus `weight_decay * p`): `b = momentum * b + (1 - dampening) * g`, first `b
    = g`; then `p = p - lr * b`, or with Nesterov's momentum `p = p - lr * (g + momentum * b)`.

    Args:
        params: Parameters, or a list of dicts, each a group with options of its own.
        lr: Learning rate.
        momentum: Weight of the past gradients; 0 keeps no buffer.
        dampening: Share of each new gradient that the momentum leaves out.
        weight_decay: Coefficient of the L2 penalty.
        nesterov: Whether to use Nesterov's momentum; needs momentum and no dampening.
        maximize: Whether to ascend.
        foreach: Whether to update all parameters together; chosen if not given.
        differentiable: Whether the step itself is recorded.
        fused: Whether to run the update as one kernel where there is one.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5000, 1.0000], requires_grad=True)
    """

    _rule = staticmethod(_rule)
    _kernel = staticmethod(_on_arrays)
    _on_device = staticmethod(_on_device)
    _as_real = False  # linear in the gradient: complex numbers are as good
    _ignores_foreach = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        learning_rate(lr)
        not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov=True needs a momentum above 0, and dampening 0.")
        names = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        super().__init__(params, arguments(locals(), names))

    def _needs_state(self, group: dict[str, Any]) -> bool:
        return bool(group["momentum"] != 0)

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {}  # the first gradient becomes the momentum, so the rule makes it

    def _step_sparse(self, p: Any, g: Any, options: dict[str, Any]) -> None:
        if options["weight_decay"] != 0:
            raise RuntimeError(
                "SGD takes sparse gradients only without weight decay, which would make every "
                "element change."
            )
        if options["momentum"] != 0:
            state = self.state[p]  # a sparse momentum: of the elements that ever had a gradient
            _rule(p, g, state, options)
            state["momentum_buffer"] = state["momentum_buffer"].coalesce()
        else:
            p.add_(g, alpha=options["lr"] if options["maximize"] else -options["lr"])


sgd = on_lists(
    "sgd",
    _rule,
    "params d_p_list momentum_buffer_list",
    "has_sparse_grad foreach fused grad_scale found_inf",
    "weight_decay momentum lr dampening nesterov maximize",
    as_real=False,
)
