"""`Variable`, the old name of Tensor, and the engine object that old programs reach through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.graph import GradientEdge
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.create.data import tensor

__all__ = ["Variable"]


class ImperativeEngine:
    """The backward engine as an object: a pass with every argument spelt out, and callbacks."""

    def run_backward(
        self,
        tensors: Any,
        grad_tensors: Any,
        keep_graph: bool,
        create_graph: bool,
        inputs: Any = (),
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> tuple[Any, ...]:
        """Run a pass; gradients of `inputs` come back unless `accumulate_grad`."""
        named = (("tensors", tensors), ("grad_tensors", grad_tensors), ("inputs", inputs))
        for name, value in named:
            if not isinstance(value, tuple):
                raise RuntimeError(
                    f"run_backward(): {name} must be a tuple, got {type(value).__name__}."
                )
        if len(tensors) != len(grad_tensors):
            raise RuntimeError(
                f"run_backward(): {len(tensors)} tensors but {len(grad_tensors)} grad_tensors."
            )
        for index, (root, g) in enumerate(zip(tensors, grad_tensors, strict=True)):
            if g is None and (isinstance(root, GradientEdge) or root.requires_grad):
                raise RuntimeError(
                    f"run_backward(): grad_tensors[{index}] is None; give a gradient for each root."
                )
        from pullback.engine.backward import run_explicit  # loads with the first pass

        return run_explicit(
            tensors,
            grad_tensors,
            inputs,
            keep_graph=keep_graph,
            create_graph=create_graph,
            allow_unreachable=allow_unreachable,
            accumulates=accumulate_grad or not inputs,
        )

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call `callback()` at the end of the running pass; an error outside of one."""
        from pullback.engine import task

        task.queue_callback(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether checkpoints may recompute here: not inside a pass with `inputs`."""
        from pullback.engine import task

        return task.is_checkpoint_valid()


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old name of Tensor: `isinstance(t, Variable)` holds for every tensor.

    >>> import pullback as torch
    >>> isinstance(torch.ones(1), torch.autograd.Variable)
    True
    """

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        """A tensor on the same memory; an empty one without data."""
        if data is None:
            return tensor([], requires_grad=requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable() takes a Tensor, got {type(data).__name__}.")
        return data.detach().requires_grad_(requires_grad)


def variable(*args: Any, **kwargs: Any) -> Any:
    """Refused: tensors are made by `tensor()`.

    >>> import pullback as torch
    >>> torch.autograd.variable(1.0)
    Traceback (most recent call last):
        ...
    RuntimeError: autograd.variable(...) is gone; make tensors with tensor(...).
    """
    raise RuntimeError("autograd.variable(...) is gone; make tensors with tensor(...).")


variable.Variable = Variable  # type: ignore[attr-defined]  # programs look it up there

__dir__ = _only_public(globals(), "ImperativeEngine")
