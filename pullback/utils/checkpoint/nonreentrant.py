"""The variant without a nested backward: an ordinary graph whose saved tensors are recomputed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pullback.autograd.graph.saved_hooks import packing
from pullback.core import errors
from pullback.core.mode import get_mode
from pullback.core.origin import here
from pullback.core.saved import Packed, pack
from pullback.core.tensor import Tensor
from pullback.core.version import writes
from pullback.utils.checkpoint import settings
from pullback.utils.checkpoint.frames import Frame
from pullback.utils.checkpoint.states import Ambient

CHECKS = ("default", "none")


class Arguments:
    """The positional arguments of a call; tensors among them are kept as a node keeps its inputs.

    So hooks around the call apply to them, among these an outer checkpoint's, and a write to one
    of them is found.
    """

    __slots__ = ("_origin", "kept")

    def __init__(self, args: tuple[Any, ...]) -> None:
        self._origin = here(3)
        self.kept = [_kept(arg) for arg in args]

    def name(self) -> str:
        """For errors, as a node's."""
        return "checkpoint()"

    def read(self) -> list[Any]:
        """The arguments as they were given; an error if one was written since."""
        return [self._value(index, kept) for index, kept in enumerate(self.kept)]

    def _value(self, index: int, kept: Any) -> Any:
        if isinstance(kept, Packed):
            return kept.unpack(None)
        value, version = kept
        if version is not None and value._cell[0] != version:
            cell = value._cell
            raise errors.changed_in_place(
                self,  # type: ignore[arg-type]  # it has what the error asks of a node
                f"args[{index}]",
                value,
                cell[0],
                writes(cell, version),
                version,
            )
        return value


def _kept(arg: Any) -> Any:
    if not isinstance(arg, Tensor):
        return arg, None
    if get_mode().saved_hooks:
        return pack(arg, output=False)
    return arg, arg._cell[0]


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
    contexts = None if context_fn is settings.noop_context_fn else _pair(context_fn())
    if not get_mode().grad:
        return function(*args, **kwargs)
    ambient = Ambient((*args, *kwargs.values()), preserve_rng_state=preserve_rng_state)
    given = Arguments(args)

    def rerun() -> None:
        with contexts[1] if contexts else _NOTHING:
            function(*given.read(), **kwargs)

    override = settings.early_stop.get()
    frame = Frame(
        lambda: ambient.run(rerun),
        early_stop=early_stop if override is None else override,
        check_metadata=determinism_check == "default",
        # The log of debug=True tells the first difference; and users may allow writes to results
        # that contexts of theirs keep.
        watching=contexts is None,
        levels=get_mode().levels,
    )
    unpack = frame.unpack if log is None else log.explaining(frame.unpack)
    with packing(frame.pack, unpack), contexts[0] if contexts else _NOTHING:
        result = function(*args, **kwargs)
        frame.is_complete = True
        if frame.watching:
            for cell in frame.cells:
                frame.versions += cell[:1]
        return result
    raise RuntimeError(
        "checkpoint: the forward context of context_fn suppressed an exception of the function, so "
        "there is no value to return. Let exceptions pass there."
    )


_NOTHING = nullcontext()


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
