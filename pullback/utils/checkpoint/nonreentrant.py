"""The variant without a nested backward: an ordinary graph whose saved tensors are recomputed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy

from pullback.autograd.function import Function
from pullback.autograd.saved_hooks import saved_tensors_hooks
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.utils.checkpoint import settings
from pullback.utils.checkpoint.frames import Frame
from pullback.utils.checkpoint.states import Ambient

CHECKS = ("default", "none")


class CheckpointInputs(Function):
    """Saves the tensor arguments of a checkpointed call as any node saves its inputs.

    So hooks around the call apply to them, among these an outer checkpoint's, and a write to one
    of them is found. The node is never run.
    """

    @staticmethod
    def forward(tracked: Tensor, *tensors: Tensor) -> Tensor:
        """Nothing; a result is needed to have a node."""
        return tracked.clone()  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keep all but the first."""
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Never called: no result of the checkpointed function leads here."""
        raise AssertionError


class Arguments:
    """The positional arguments of a call; tensors among them are saved, the rest is kept."""

    __slots__ = ("node", "others")

    def __init__(self, args: tuple[Any, ...]) -> None:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        self.others = [None if isinstance(arg, Tensor) else (arg,) for arg in args]
        tracked = wrap(numpy.empty(0, numpy.float32))
        tracked._set_requires_grad(True)  # noqa: FBT003 (a property's setter by another name)
        self.node: Any = CheckpointInputs.apply(tracked, *tensors).grad_fn

    def read(self) -> list[Any]:
        """The arguments as they were given; an error if one was written since."""
        tensors = iter(self.node.saved_tensors)
        return [next(tensors) if other is None else other[0] for other in self.others]


def run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    preserve_rng_state: bool,
    context_fn: settings.ContextFn,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    """Call `function`, whose saved tensors will be recomputed when backward needs them."""
    if determinism_check not in CHECKS:
        raise ValueError(
            f"checkpoint: determinism_check must be one of {', '.join(map(repr, CHECKS))}, got "
            f"{determinism_check!r}."
        )
    asked = settings.debug.get()
    log = None
    if debug if asked is None else asked:
        log, context_fn = _debugged(context_fn)
    around_forward, around_rerun = _pair(context_fn())
    if not get_mode().grad:
        return function(*args, **kwargs)
    ambient = Ambient((args, kwargs), preserve_rng_state=preserve_rng_state)
    given = Arguments(args)

    def run_again() -> None:
        with ambient.installed(), around_rerun:
            function(*given.read(), **kwargs)

    override = settings.early_stop.get()
    frame = Frame(
        run_again,
        early_stop=early_stop if override is None else override,
        check_metadata=determinism_check == "default",
    )
    unpack = frame.unpack if log is None else log.explaining(frame.unpack)
    with saved_tensors_hooks(frame.pack, unpack), around_forward:
        result = function(*args, **kwargs)
        frame.is_complete = True
        return result
    raise RuntimeError(
        "checkpoint: the forward context of context_fn suppressed an exception of the function, so "
        "there is no value to return. Let exceptions pass there."
    )


def _pair(contexts: Any) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    if not isinstance(contexts, tuple | list) or len(contexts) != 2:
        raise TypeError(
            "checkpoint: context_fn must return two context managers, for the forward and for the "
            f"re-run, got {contexts!r}."
        )
    forward, rerun = contexts
    return forward, rerun


def _debugged(context_fn: settings.ContextFn) -> tuple[Any, settings.ContextFn]:
    if context_fn is not settings.noop_context_fn:
        raise ValueError(
            "checkpoint: debug=True needs the contexts around the function for itself; leave "
            "context_fn away while debugging."
        )
    from pullback.utils.checkpoint.debug import OperatorLog

    log = OperatorLog()
    return log, log.contexts
