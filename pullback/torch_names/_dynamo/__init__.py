"""Names of torch's tracing compiler; what compiles here is in `compiled/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.optimized_module import OptimizedModule
from pullback.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)

from . import compiled_autograd, config, eval_frame, exc, external_utils, utils
from .external_utils import is_compiling

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compiled_autograd",
    "config",
    "disable",
    "disallow_in_graph",
    "eval_frame",
    "exc",
    "explain",
    "export",
    "external_utils",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
    "utils",
]

# Marks for the compiler: taken, and without effect where nothing is compiled.
disallow_in_graph = forbid_in_graph = nonstrict_trace = allow_in_graph


def graph_break(msg: str = "") -> None:
    """Where a compiled program would be cut in two."""


skip_frame = graph_break


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Say that sizes of a tensor vary: its programs serve other sizes from the first call on."""
    _mark(t, index, "_dynamo_dynamic_indices")


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Say that sizes of a tensor stay: another size is another program."""
    _mark(t, range(t.ndim) if index is None else index, "_dynamo_static_indices")


def _mark(t: Any, index: Any, name: str) -> None:
    chosen = index if isinstance(index, list | tuple | range) else (index,)
    if not all(-t.ndim <= one < t.ndim for one in chosen):
        raise IndexError(f"There is no dimension {index} in a tensor of {t.ndim} dimensions.")
    setattr(t, name, getattr(t, name, set()) | {one % t.ndim for one in chosen})


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that a tensor stays where it is."""


def optimize(
    backend: str | Callable[..., Any] = "inductor",
    *,
    nopython: bool = False,
    dynamic: bool | None = None,
    disable: bool = False,
    **others: Any,
) -> Callable[[Any], Any]:
    """What makes of a function what `torch.compile` makes of it.

    `nopython` is its `fullgraph`: what cannot be captured raises.
    """
    from pullback.compiled import frontend

    return lambda model: frontend.compile(
        model, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable
    )


def optimize_assert(
    backend: str | Callable[..., Any], *, dynamic: bool | None = None, **others: Any
) -> Callable[[Any], Any]:
    """As `optimize` with `nopython`."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def run(fn: Any = None) -> Any:
    """A function that uses what is compiled already and compiles nothing: the function."""
    return (lambda fn: fn) if fn is None else fn


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Make a back end known by name: a function of a graph module and example inputs."""
    from pullback.compiled import backends

    if compiler_fn is None:
        return lambda fn: register_backend(fn, name)
    return backends.register_backend(compiler_fn, name)


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    """What became of a function: a function of its arguments, or with these the answer."""
    from pullback.compiled import names

    told = names.explain(f)
    return told(*args, **kwargs) if args or kwargs else told


def export(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Not there; `torch.fx.symbolic_trace` and `make_fx` give graphs."""
    raise NotImplementedError(
        "There is no exported format here; torch.fx.symbolic_trace and make_fx give graphs."
    )
