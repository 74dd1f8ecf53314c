"""Kernels of users for operators that are there already, as torch.library registers them.

While there is any, all operators leave their fast path, and calls run with one dispatch mode more,
outermost: it asks for a kernel by the name of the overload. So a kernel stands below autograd, and
what is recorded around it is the operator's own history; backward passes compute with tensors and
meet it too. A kernel for Autograd is called before anything is recorded. Inside a kernel its own
operator is the built-in one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pullback.core.mode import Mode, changed, current, detour
from pullback.core.ports import ports
from pullback.operators.declare import Op

__all__ = ["ELSEWHERE", "add", "answer", "kernels", "remove", "write"]

ELSEWHERE: Any = object()  # what `answer` says of calls that are for others
# (above autograd or not, "aten::name.overload") -> the kernels, of which the last one is used.
kernels: dict[tuple[bool, str], tuple[Callable[..., Any], ...]] = {}
_changing = threading.Lock()
# Overloads whose kernels run now in this context; None: a built-in kernel runs.
_running: ContextVar[frozenset[str] | None] = ContextVar(
    "pullback_replaced_running", default=frozenset()
)


def add(name: str, kernel: Callable[..., Any], *, above: bool) -> None:
    """Use a kernel for an overload from now on, above autograd or below."""
    with _changing:
        kernels[above, name] = (*kernels.get((above, name), ()), kernel)
        detour("kernels", needed=True)


def remove(name: str, kernel: Callable[..., Any], *, above: bool) -> None:
    """Use what was there before that kernel."""
    with _changing:
        rest = tuple(one for one in kernels.get((above, name), ()) if one is not kernel)
        if rest:
            kernels[above, name] = rest
        else:
            kernels.pop((above, name), None)
        detour("kernels", needed=bool(kernels))


class _Kernels:
    """A dispatch mode that runs the kernel of an overload, or the built-in one."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = func.name()
        own = kernels.get((False, name))
        if own is None:
            return _run(func, None, args, kwargs)
        return _run(own[-1], name, args, kwargs)


_MODE = _Kernels()


def _run(function: Any, name: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before = _running.get()
    try:
        _running.set(None if name is None or before is None else before | {name})
        return function(*args, **kwargs)
    finally:
        _running.set(before)


def _is_asked(mode: Mode) -> bool:
    return _running.get() is not None and not mode.levels and not mode.dispatch


def answer(op: Op, called: str, bound: dict[str, Any], mode: Mode) -> Any:
    """A call as the user's kernels do it, or ELSEWHERE."""
    if not _is_asked(mode):
        return ELSEWHERE
    func, args, kwargs, finish = ports.overload_of(op, called, bound)
    name, running = func.name(), _running.get() or ()
    if name in running:
        return _run(op.function, None, (), bound) if called == op.name else ELSEWHERE
    above = kernels.get((True, name)) or kernels.get((True, name.partition(".")[0]))
    if above is not None:
        made = _run(above[-1], name, args, kwargs)
        return made if finish is None else finish(made)
    if (False, name) not in kernels:
        return ELSEWHERE
    before = mode
    try:
        current.set(changed(mode, dispatch=(_MODE,)))
        return op.function(**bound)
    finally:
        current.set(before)


def write(op: Op, called: str, bound: dict[str, Any], mode: Mode) -> Mode:
    """The mode in which an in-place form runs: with the user's kernels, where it has one."""
    if not _is_asked(mode):
        return mode
    func, _, _, _ = ports.overload_of(op, called, bound)
    name = func.name()
    if name in (_running.get() or ()) or (False, name) not in kernels:
        return mode
    return changed(mode, dispatch=(_MODE,))
