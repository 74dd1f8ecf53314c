"""`once_differentiable`: a backward that is not made of differentiable operators, and says so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.mode import get_mode
from pullback.core.node import LARGEST_SEQUENCE_NUMBER, AccumulateGrad, Output
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new
from pullback.operators.running.outputs import SeveralOutputs


class Error(SeveralOutputs):
    """The history of what must not be differentiated: raises when a gradient arrives."""

    __slots__ = ("message",)

    _prefix = "torch::autograd::"

    message: str

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        raise RuntimeError(self.message)

    _run_tensors = _run

    def _sequence_nr(self) -> int:
        return LARGEST_SEQUENCE_NUMBER


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that can be run, but not be differentiated itself.

    It runs with grad mode off; differentiating its results raises, instead of giving wrong second
    derivatives. Stands below `@staticmethod`.

    >>> import pullback as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.x = x.numpy()
    ...         return x * x
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         return g * torch.tensor(2 * ctx.x)
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(Square.apply(x), x)
    (tensor(6.),)
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            returned = fn(ctx, *grads)
        if not get_mode().grad:
            return returned
        if not any(isinstance(g, Tensor) and g.requires_grad for g in _flat(grads)):
            return returned
        values = returned if isinstance(returned, tuple) else (returned,)
        guarded = _guarded(values, type(ctx).__name__)
        return guarded if isinstance(returned, tuple) else guarded[0]

    return wrapper


def _flat(grads: tuple[Any, ...]) -> list[Any]:
    # With boxed_grads_call the gradients come in one list.
    return grads[0] if len(grads) == 1 and isinstance(grads[0], list) else list(grads)


def _guarded(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """Aliases of the tensors among `values` that require grad and lead to an Error node only."""
    leaves = [v.detach().requires_grad_() for v in values if isinstance(v, Tensor)]
    node = new(Error)
    node.message = (
        f"{name} is differentiated twice, but its backward is marked @once_differentiable. Write "
        "it in differentiable operators and take the mark off, or ask for no second derivatives."
    )
    made = iter(leaves)
    node._edges = tuple(
        AccumulateGrad.of(next(made)) if isinstance(v, Tensor) else None for v in values
    )
    node._g_sizes = tuple((leaf._array.shape, leaf._array.dtype) for leaf in leaves)
    node._cold = node._code = None
    node._lasti = 0
    node._seq = numbering.next()
    results = []
    number = 0
    for value in values:
        if not isinstance(value, Tensor):
            results.append(value)
            continue
        alias = value.detach()
        alias._node = Output(node, number, *node._g_sizes[number])
        results.append(alias)
        number += 1
    return tuple(results)
