"""FunctionCtx: what a custom Function's forward tells autograd through its `ctx`."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core import origin
from pullback.core.tensor import Tensor


class FunctionCtx:
    """The methods of `ctx`. Each call replaces what an earlier one said.

    The attributes they set (`to_save`, `dirty_tensors`, ...) are read when forward is done.

    >>> import pullback as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    to_save: Any
    dirty_tensors: Any
    non_differentiable: Any
    saved_for_forward: Any
    materialize_grads: Any

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or intermediates for `ctx.saved_tensors` in backward.

        They are checked for in-place changes since, go through saved-tensor hooks, and are freed as
        soon as backward has run. Anything that is no tensor goes on `ctx` as an attribute.

        >>> import pullback as torch
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * g * x
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor(6.)
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `ctx.saved_tensors` in jvp; dropped when apply is done."""
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise AssertionError(
                    f"save_for_forward takes tensors and None, but argument {index} is a "
                    f"{type(tensor).__name__}. Store other values as attributes: `ctx.value = ...`."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward changed in place. Each of them must be returned too."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient. Backward still gets an argument for each."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True, the default) or None where no gradient arrived."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Does nothing: shared memory is found without help."""
        warnings.warn(
            "mark_shared_storage has no effect: tensors that share memory are tracked anyway. "
            "Leave the call out.",
            FutureWarning,
            stacklevel=origin.stacklevel(),
        )
