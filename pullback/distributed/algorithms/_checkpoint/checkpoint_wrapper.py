"""`checkpoint_wrapper`: a module around another one that keeps no activations of it.

The wrapper is not seen in a state dict: its keys are those of the module inside, so that files of
wrapped and of plain models are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from pullback.autograd.graph import save_on_cpu
from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.module import Module
from pullback.utils.checkpoint import checkpoint

__all__ = [
    *("ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper"),
    *("apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper"),
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which of the two ways of `torch.utils.checkpoint` is taken."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module, ABC):
    """A module around another one, whose attributes and state dict are those of the inner."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(_with_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module inside."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules[_CHECKPOINT_WRAPPED_MODULE], name)

    def __getitem__(self, key: int) -> Any:
        inner: Any = self._checkpoint_wrapped_module
        return inner[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Parameters under the names that they have in the module inside."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


def _without_prefix(module: Module, state: Any, prefix: str, metadata: Any) -> Any:
    _renamed(state, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
    return state


def _with_prefix(state: Any, prefix: str, *args: Any) -> None:
    _renamed(state, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


def _renamed(state: Any, old: str, new: str) -> None:
    for key in [key for key in state if key.startswith(old)]:
        state[new + key[len(old) :]] = state.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """Runs the module inside by `checkpoint`: backward computes its activations once more."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            self.checkpoint_fn: Any = partial(
                checkpoint, use_reentrant=reentrant, **checkpoint_fn_kwargs
            )
        else:
            self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result, with no activations kept."""
        inner: Any = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:
            # The reentrant way takes positional arguments alone.
            names, count = tuple(kwargs), len(args)

            def run(*values: Any) -> Any:
                return inner(*values[:count], **dict(zip(names, values[count:], strict=True)))

            return self.checkpoint_fn(run, *args, *kwargs.values())
        return self.checkpoint_fn(inner, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """Keeps the activations of the module inside in host memory until backward wants them."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        inner: Any = self._checkpoint_wrapped_module
        with save_on_cpu(pin_memory=True):
            return inner(*args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """A module around `module` that keeps none of its activations, but computes them twice.

    Args:
        module: What to wrap.
        checkpoint_impl: Which of the two ways of `torch.utils.checkpoint` is taken.
        checkpoint_fn: A function to call in place of `checkpoint`.
        **checkpoint_fn_kwargs: More arguments for it, as `preserve_rng_state`.

    Example:
        >>> import pullback as torch
        >>> from pullback.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        ...     checkpoint_wrapper)
        >>> layer = checkpoint_wrapper(torch.nn.Linear(2, 3))
        >>> list(layer.state_dict()), layer.in_features
        (['weight', 'bias'], 2)
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> OffloadWrapper:
    """A module around `module` that keeps its activations in host memory."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[[Module, bool, int], bool] | None = None,
) -> None:
    """Wrap modules inside a model, in place: those for which `check_fn` holds.

    Args:
        model: The model; itself it is not wrapped.
        checkpoint_wrapper_fn: What to wrap them with.
        check_fn: Whether a module is wrapped.
        auto_wrap_policy: Another way to say so, a function of the module, of whether its children
            are asked too, and of its number of parameters.
    """
    if auto_wrap_policy is not None:
        policy = auto_wrap_policy

        def check_fn(module: Module) -> bool:
            count = sum(one.numel() for one in module.parameters())
            return policy(module, False, count)

    _wrap_children(model, checkpoint_wrapper_fn, check_fn, {})


def _wrap_children(
    module: Module, wrap: Callable[[Module], Module], check: Callable[[Module], bool], seen: Any
) -> None:
    """Inner ones first; a module that is in two places is wrapped once."""
    for name, child in list(module.named_children()):
        if child not in seen:
            _wrap_children(child, wrap, check, seen)
            seen[child] = wrap(child) if check(child) else child
        if seen[child] is not child:
            setattr(module, name, seen[child])


__dir__ = _only_public(globals())
