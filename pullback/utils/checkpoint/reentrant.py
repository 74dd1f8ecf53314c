"""The variant with a nested backward: runs without graph, then again with one inside backward."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from pullback.autograd.function import Function
from pullback.autograd.grad_mode import enable_grad
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.engine.backward import backward
from pullback.engine.task import is_checkpoint_valid
from pullback.utils.checkpoint.states import Ambient

__all__ = ["CheckpointFunction", "check_backward_validity", "detach_variable"]


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values as leaves that require grad where the originals do.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True) * 2
    >>> torch.utils.checkpoint.detach_variable((x, "text"))
    (tensor([2.], requires_grad=True), 'text')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"detach_variable() takes a tuple of values, got {type(inputs).__name__}."
        )
    return tuple(
        one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one
        for one in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor among the arguments requires grad: no gradient will pass.

    >>> import pullback as torch
    >>> torch.utils.checkpoint.check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):
        warnings.warn(
            "checkpoint(use_reentrant=True): none of the tensor arguments requires grad, so the "
            "result does not either, whatever parameters the function uses. Use "
            "use_reentrant=False.",
            UserWarning,
            stacklevel=stacklevel(),
        )


class CheckpointFunction(Function):
    """Runs a function without recording it; its backward runs it again, and then its backward.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = torch.utils.checkpoint.CheckpointFunction.apply(torch.exp, True, x)
    >>> y.grad_fn.name()
    'CheckpointFunctionBackward'
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """What the function gives."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.ambient = Ambient(args, preserve_rng_state=preserve_rng_state)
        ctx.save_for_backward(*[arg for arg in args if isinstance(arg, Tensor)])
        ctx.others = [None if isinstance(arg, Tensor) else (arg,) for arg in args]
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Gradients of the arguments, from a backward of its own."""
        if not is_checkpoint_valid():
            raise RuntimeError(
                "checkpoint(use_reentrant=True) cannot be used in grad() or backward(inputs=...): "
                "its own backward does not know what is asked for. Pass use_reentrant=False to "
                "checkpoint(), or call backward() without inputs."
            )
        tensors = iter(ctx.saved_tensors)
        args = tuple(next(tensors) if other is None else other[0] for other in ctx.others)
        inputs = detach_variable(args)
        with ctx.ambient.installed(), enable_grad():
            outputs = ctx.run_function(*inputs)
        _run_backward(outputs, gradients)
        own = (one._stored_grad if isinstance(one, Tensor) else None for one in inputs)
        return None, None, *own


def _run_backward(outputs: Any, gradients: tuple[Any, ...]) -> None:
    listed = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = [
        (output, g)
        for output, g in zip(listed, gradients, strict=True)
        if isinstance(output, Tensor) and output.requires_grad
    ]
    if not pairs:
        raise RuntimeError(
            "checkpoint(use_reentrant=True): no result of the function requires grad when it is "
            "run again, so this checkpoint is unnecessary; call the function as it is."
        )
    backward([output for output, _ in pairs], [g for _, g in pairs])
