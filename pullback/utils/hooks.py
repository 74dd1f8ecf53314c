"""Hooks: their handles, which of them survive pickling, and those that watch a whole module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pullback.autograd.function import Function
from pullback.core.hooks import RemovableHandle
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.operators.tensor.pickling import warn_of_hooks

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that pickling a tensor may drop without a warning.

    >>> from pullback.utils.hooks import unserializable_hook
    >>> @unserializable_hook
    ... def hook(g):
    ...     return g
    >>> hook.__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each backward hook that pickling would drop, unless it is marked.

    >>> import pullback as torch
    >>> torch.utils.hooks.warn_if_has_hooks(torch.ones(1))
    """
    warn_of_hooks(tensor)


class BackwardHookFunction(Function):
    """Passes tensors on as they are: one node through which all of their gradients go."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same tensors."""
        ctx.mark_non_differentiable(*[one for one in tensors if not one.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        """The same gradients."""
        return gradients


class BackwardHook:
    """Calls hooks with the gradients of a module's inputs and outputs, once both are known.

    `nn.Module` makes one for each call that full backward hooks are to watch, passes the
    arguments through `setup_input_hook` and the result through `setup_output_hook`.

    >>> import pullback as torch
    >>> def shown(module, grad_input, grad_output):
    ...     print(module, grad_input, grad_output)
    >>> watch = torch.utils.hooks.BackwardHook("twice", [shown], [])
    >>> x = torch.ones(1, requires_grad=True)
    >>> inside, _ = watch.setup_input_hook((x, "an option"))
    >>> watch.setup_output_hook(inside * 2).backward()
    twice (tensor([2.]), None) (tensor([1.]),)
    """

    def __init__(
        self,
        module: Any,
        user_hooks: Sequence[Callable[..., Any]],
        user_pre_hooks: Sequence[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = -1
        self.n_outputs = -1
        # Which of them are tensors; None where gradients will not pass there.
        self.input_tensors_index: list[int] | None = None
        self.output_tensors_index: list[int] | None = None

    def setup_input_hook(self, args: Any) -> Any:
        """The arguments, to be used in place of those given."""
        replaced, self.n_inputs, self.input_tensors_index = _through_one_node(
            args, self._input_gradients_known
        )
        return replaced

    def setup_output_hook(self, args: Any) -> Any:
        """The results, to be used in place of those given."""
        replaced, self.n_outputs, self.output_tensors_index = _through_one_node(
            args, self._output_gradients_known
        )
        return replaced

    def _input_gradients_known(self, gradients: Any, _: Any) -> tuple[Any, ...]:
        if self.grad_outputs is None:
            # Not by way of the module's results: a second derivative, whose graph has the inputs.
            return tuple(gradients)
        assert self.input_tensors_index is not None
        given = _spread(gradients, self.input_tensors_index, self.n_inputs)
        for hook in self.user_hooks:
            returned = hook(self.module, given, self.grad_outputs)
            if returned is None:
                continue
            given = _checked("grad_input", returned, self.n_inputs)
        self.grad_outputs = None
        return tuple(given[index] for index in self.input_tensors_index)

    def _output_gradients_known(self, _: Any, gradients: Any) -> tuple[Any, ...]:
        assert self.output_tensors_index is not None
        given = _spread(gradients, self.output_tensors_index, self.n_outputs)
        for hook in self.user_pre_hooks:
            returned = hook(self.module, given)
            if returned is None:
                continue
            given = _checked("grad_output", returned, self.n_outputs)
        self.grad_outputs = given
        if self.input_tensors_index is None:
            self._fire_without_inputs()
        return tuple(given[index] for index in self.output_tensors_index)

    def _fire_without_inputs(self) -> None:
        """No input requires grad: the hooks are called when the outputs' gradients are known."""
        if self.user_hooks:
            warnings.warn(
                f"A full backward hook of {type(self.module).__name__} is called with the "
                "gradients of its outputs alone: none of its inputs requires grad.",
                UserWarning,
                stacklevel=stacklevel(),
            )
        nothing = (None,) * self.n_inputs
        for hook in self.user_hooks:
            returned = hook(self.module, nothing, self.grad_outputs)
            if returned is not None and any(one is not None for one in _tuple(returned)):
                raise RuntimeError(
                    "A full backward hook returned gradients for inputs, but none of the inputs of "
                    f"{type(self.module).__name__} requires grad: return None, or a tuple of None."
                )
        self.grad_outputs = None


def _through_one_node(args: Any, hook: Callable[..., Any]) -> tuple[Any, int, list[int] | None]:
    """The arguments, the tensors among them as results of one node that has the hook.

    Also how many there are, and which of them are tensors; None if no gradient will pass.
    """
    given = args if isinstance(args, tuple) else (args,)
    index = [place for place, arg in enumerate(given) if isinstance(arg, Tensor)]
    tensors = [given[place] for place in index]
    if not get_mode().grad or not any(one.requires_grad for one in tensors):
        return args, len(given), None
    passed = BackwardHookFunction.apply(*tensors)
    node = next(one.grad_fn for one in passed if one.grad_fn is not None)
    node.register_hook(hook)
    replaced = list(given)
    for place, tensor in zip(index, passed, strict=True):
        replaced[place] = tensor
    return _like(args, replaced), len(given), index


def _like(args: Any, values: list[Any]) -> Any:
    """The values as a tuple of the same kind, or the only one where there was no tuple."""
    if not isinstance(args, tuple):
        return values[0]
    make: Callable[[list[Any]], Any] = getattr(type(args), "_make", tuple)
    return make(values)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _spread(gradients: Sequence[Any], index: Sequence[int], count: int) -> tuple[Any, ...]:
    """The gradients in the places of the tensors, None in all others."""
    spread: list[Any] = [None] * count
    for place, g in zip(index, gradients, strict=True):
        spread[place] = g
    return tuple(spread)


def _checked(what: str, returned: Any, count: int) -> tuple[Any, ...]:
    # A single tensor stands for itself; only a tuple is taken apart.
    values = _tuple(returned)
    if len(values) != count:
        raise RuntimeError(
            f"A full backward hook returned {len(values)} values for {what}, but {count} are "
            "expected: one for each, None for what is no tensor."
        )
    return values


__dir__ = _only_public(globals())
