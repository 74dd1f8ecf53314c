"""`torch.compile` without a compiler: the function runs as it is, and that is said once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from pullback.compiler.errors import InvalidBackend
from pullback.compiler.optimized_module import OptimizedModule
from pullback.nn.modules.module import Module

__all__ = ["BACKENDS", "compile"]

BACKENDS = ("inductor",)
_KNOWN = (*BACKENDS, "aot_eager", "cudagraphs", "eager")
_MODES = (
    *("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    None,
)
_log = logging.getLogger("pullback.compiler")


@functools.cache
def _say_once() -> None:
    _log.warning("torch.compile: nothing is compiled here, the program runs as it is.")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **further: Any,
) -> Any:
    """A function or module that computes what `model` does; nothing is compiled.

    Works as a decorator, with or without arguments. A module comes back as an OptimizedModule
    around it. That nothing is compiled is logged once (logger "pullback.compiler").

    Example:
        >>> import logging
        >>> logging.getLogger("pullback.compiler").setLevel(logging.ERROR)
        >>> import pullback as torch
        >>> @torch.compile
        ... def double(x):
        ...     return x * 2
        >>> double(torch.tensor(2.0))
        tensor(4.)
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile() takes `mode` or `options`, not both.")
    if mode not in _MODES:
        raise RuntimeError(f"compile(): there is no mode {mode!r}; the modes are {_MODES[:-1]}.")
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            **further,
        )
    if not callable(model):
        found = type(model).__name__
        raise AssertionError(f"compile() takes something callable, not {found}.")  # noqa: TRY004
    if disable:
        return model
    if isinstance(model, Module):
        _check_backend(backend)
        _say_once()
        return OptimizedModule(model)

    @functools.wraps(model)
    def run(*args: Any, **kwargs: Any) -> Any:
        _check_backend(backend)
        _say_once()
        return model(*args, **kwargs)

    run._torchdynamo_orig_callable = model  # type: ignore[attr-defined]  # where libraries look
    return run


def _check_backend(backend: str | Callable[..., Any]) -> None:
    if isinstance(backend, str) and backend not in _KNOWN:
        raise InvalidBackend(f"There is no backend {backend!r}; the backends are {_KNOWN}.")
