"""Formulas of the older interface: what to save, and how to go backward, as two functions.

`save_for_backward(inputs, output)` returns any tree of tensors and other values; `backward(ctx,
saved, *grads)` gets the same tree again, and returns a dict of gradients by argument name.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from pullback.core.mode import Mode, current
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.library.call import executing, kernels, recording
from pullback.library.call.binding import split
from pullback.library.call.node import function_for
from pullback.library.legacy.gradients import by_position, described
from pullback.library.registry import Kernel, Operator, place


class SavedTree(NamedTuple):
    """What stands in the tree where tensors were, and its structure."""

    others: list[Any]
    spec: Any


class _InTensors:
    """Stands in the place of a saved tensor."""


_TENSOR = _InTensors()


class LegacyFormula:
    """The two halves of a formula, as far as they are registered."""

    def __init__(self) -> None:
        self.save: Kernel | None = None
        self.backward: Kernel | None = None
        # Which outputs have gradients; None: all that can.
        self.differentiability: list[bool] | None = None
        self.function: Any = None

    def check_has_formula(self, operator: Operator, tensors: list[Tensor], mode: Mode) -> None:
        """Refuse a call that would be recorded where nothing is registered, kernel or not."""
        if self.save is not None or self.backward is not None:
            return
        if mode.grad and not mode.inference and any(tensor.requires_grad for tensor in tensors):
            raise RuntimeError(
                f"Autograd is not implemented for the operator {operator.qualname}, and an "
                "argument requires grad. Register impl_save_for_backward and impl_backward for "
                "it, or call it under no_grad."
            )

    def run(self, operator: Operator, values: list[Any], kernel: kernels.Chosen, mode: Mode) -> Any:
        """A call of the operator."""
        if self.save is None and self.backward is None:
            try:
                current.set(executing.kernel_mode(mode))
                return executing.computed(operator, kernel, values)
            finally:
                current.set(mode)
        self._check_both(operator)
        return self._recorded(operator, values, kernel, mode)

    def _check_both(self, operator: Operator) -> None:
        pairs = (
            ("save_for_backward", self.save, "backward", self.backward),
            ("backward", self.backward, "save_for_backward", self.save),
        )
        for name, present, other, missing in pairs:
            if present is not None and missing is None:
                raise RuntimeError(
                    f"{operator.qualname} has a {name} function, registered at "
                    f"{place(present.where)}, but no {other} function: a formula needs both. "
                    f"Register the other half with impl_{other}."
                )

    def _recorded(
        self, operator: Operator, values: list[Any], kernel: kernels.Chosen, mode: Mode
    ) -> Any:
        positional, _ = split(operator.schema, values)
        flat_args = recording.flattened(operator, positional)
        ctx = recording.started(
            operator, positional, flat_args, values, mode, self._function(operator)
        )
        try:
            current.set(executing.kernel_mode(mode))
            result = executing.computed(operator, kernel, values)
            self._save(operator, ctx, values, result)
            self._mark(operator, ctx, result)
        finally:
            current.set(mode)
        ctx._given = [described(value) for value in values]
        return recording.with_history(operator, ctx, flat_args, result, mode)

    def _save(self, operator: Operator, ctx: Any, values: list[Any], result: Any) -> None:
        assert self.save is not None
        tree = self.save.function(arguments_tuple(operator, values), result)
        leaves, spec = tree_flatten(tree)
        ctx.save_for_backward(*(leaf for leaf in leaves if isinstance(leaf, Tensor)))
        others = [_TENSOR if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        ctx._tree = SavedTree(others, spec)

    def _mark(self, operator: Operator, ctx: Any, result: Any) -> None:
        """Say which outputs have no gradient."""
        if self.differentiability is None:
            return
        results = result if isinstance(result, tuple) else (result,)
        fixed: list[Tensor] = []
        for index, (value, carries) in enumerate(zip(results, self.differentiability, strict=True)):
            listed = value if isinstance(value, list) else [value]
            tensors = [one for one in listed if isinstance(one, Tensor)]
            if not carries:
                fixed += tensors
            elif len(tensors) != len(listed):
                raise RuntimeError(
                    f"{operator.qualname}: output_differentiability says that output {index} has a "
                    f"gradient, but it is a {type(value).__name__} and no tensor. Say False there."
                )
        ctx.mark_non_differentiable(*fixed)

    def _function(self, operator: Operator) -> Any:
        """The Function whose nodes the operator's calls have."""
        if self.function is None:
            name = f"{operator.schema.name.partition('::')[2]}_customop"
            function = function_for(operator, name, __name__)
            backward = staticmethod(lambda ctx, *grads: self._run_backward(ctx, grads))
            function.backward = function._backward_cls._formula = backward
            self.function = function
        return self.function

    def _run_backward(self, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        operator: Operator = ctx._operator
        assert self.backward is not None
        tensors = iter(ctx.saved_tensors)
        others, spec = ctx._tree
        saved = tree_unflatten([next(tensors) if one is _TENSOR else one for one in others], spec)
        left = iter(grads)
        given = []
        for one, length in zip(operator.schema.returns, ctx._out_lengths, strict=True):
            listed = one.type.is_tensor_list
            given.append([next(left) for _ in range(length)] if listed else next(left))
        returned = self.backward.function(object(), saved, *given)
        return by_position(operator, self.backward, ctx._given, returned)


def arguments_tuple(operator: Operator, values: list[Any]) -> Any:
    """The arguments as a named tuple `<op>_args`."""
    names = [argument.name for argument in operator.schema.arguments]
    kind = f"{operator.schema.name.partition('::')[2]}_args"
    # `rename`: names that begin with an underscore are not allowed; the fields keep their place.
    made: Any = namedtuple(kind, names, rename=True)  # type: ignore[misc]  # names known at run time
    return made(*values)
