"""Muon: momentum of matrices, made nearly orthogonal before it is used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative, real_and_dense
from pullback.optim.optimizer import (
    Optimizer,
    ParamsT,
    _to_scalar,
    _use_grad_for_differentiable,
    evaluated,
)

__all__ = ["Muon"]

EPS = 1e-7
# Of the quintic polynomial that brings singular values near 1 in few steps.
DEFAULT_A, DEFAULT_B, DEFAULT_C = 3.4445, -4.7750, 2.0315
DEFAULT_NS_STEPS = 5
_MOST_STEPS = 100


def _zeropower_via_newtonschulz(
    grad: Any, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Tensor:
    """The matrix with its singular values brought to about 1, by Newton and Schulz's iteration.

    torch computes it in bfloat16. So do we, in effect: float32 rounded to bfloat16's eight bits
    after each operation, which needs no such dtype.
    """
    if ns_steps >= _MOST_STEPS:
        raise ValueError(f"ns_steps must be below {_MOST_STEPS}; it is {ns_steps}.")
    if grad.dim() != 2:
        raise ValueError(f"Muon is for matrices, and got a gradient of {grad.dim()} dimensions.")
    if len(ns_coefficients) != 3:
        raise ValueError(f"ns_coefficients are three numbers; got {len(ns_coefficients)}.")
    a, b, c = ns_coefficients
    x = _rounded(grad.detach()._array.astype(numpy.float32))
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    norm = _rounded(numpy.asarray(numpy.linalg.norm(x), numpy.float32))
    x = _rounded(x / max(norm, _rounded(numpy.float32(eps))))
    for _ in range(ns_steps):
        square = _rounded(x @ x.T)
        inner = _rounded(b * square + c * (square @ square))
        x = _rounded(a * x + inner @ x)
    return wrap(numpy.ascontiguousarray(x.T if tall else x))


def _rounded(x: Any) -> Array:
    """float32 with the 16 lower bits rounded away, to the nearest and half to even."""
    bits = numpy.asarray(x, numpy.float32).view(numpy.uint32)
    rounded = bits + (((bits >> 16) & 1) + numpy.uint32(0x7FFF))
    result: Array = (rounded & numpy.uint32(0xFFFF0000)).view(numpy.float32)
    return numpy.where(numpy.isnan(x), numpy.float32(numpy.nan), result)


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: Any) -> float:
    """The learning rate for a matrix of this shape."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn is None or adjust_lr_fn == "original":
        return lr * math.sqrt(max(1, rows / columns))
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr


def _step(p: Any, g: Any, buffer: Any, options: dict[str, Any]) -> None:
    lr, momentum = _to_scalar(options["lr"]), options["momentum"]
    buffer.lerp_(g, 1 - momentum)
    update = g.lerp(buffer, momentum) if options["nesterov"] else buffer
    update = _zeropower_via_newtonschulz(
        update, options["ns_coefficients"], options["ns_steps"], options["eps"]
    )
    p.mul_(1 - lr * options["weight_decay"])
    p.sub_(update.to(p.dtype) * _adjust_lr(lr, options["adjust_lr_fn"], p.shape))


class Muon(Optimizer):
    """Steps along momentum whose singular values are all about 1; for hidden layers' matrices.

    Other parameters (biases, embeddings) want an optimizer of their own. `adjust_lr_fn` scales the
    learning rate by the matrix's shape: "original", or "match_rms_adamw" to reuse AdamW's rates.

    >>> import pullback as torch
    >>> x = torch.eye(2).mul(3).requires_grad_()
    >>> optimizer = torch.optim.Muon([x], lr=0.1, weight_decay=0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach().round(decimals=1)
    tensor([[2.9000, 0.0000],
            [0.0000, 2.9000]])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (DEFAULT_A, DEFAULT_B, DEFAULT_C),
        eps: float = EPS,
        ns_steps: int = DEFAULT_NS_STEPS,
        adjust_lr_fn: str | None = None,
    ) -> None:
        learning_rate(lr)
        not_negative(momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f'adjust_lr_fn is "original", "match_rms_adamw" or None; it is {adjust_lr_fn!r}.'
            )
        names = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
        super().__init__(params, arguments(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon is for matrices, and a parameter has shape {tuple(p.shape)}; give "
                        "it to another optimizer."
                    )

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, first recomputes the loss, which is returned."""
        loss = evaluated(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    _step(p, real_and_dense(p.grad, "Muon"), self._buffer_of(p), group)
        return loss

    def _buffer_of(self, p: Any) -> Tensor:
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(p)
        kept: Tensor = state["momentum_buffer"]
        return kept


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of Muon on tensors and their momenta given as lists."""
    if foreach:
        raise RuntimeError("Muon steps matrices one by one; leave foreach out.")
    names = "lr weight_decay momentum nesterov ns_coefficients ns_steps eps adjust_lr_fn"
    options = arguments(locals(), names)
    for p, g, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        _step(p, real_and_dense(g, "Muon"), buffer, options)
