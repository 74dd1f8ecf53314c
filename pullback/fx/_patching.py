"""Changes of attributes and globals while a program is traced, in any number of threads at once."""

from __future__ import annotations

import builtins
import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Patches", "recording", "usual", "usual_item"]

_MISSING = object()


@dataclass(slots=True)
class _Patched:
    owner: Any  # kept, so that its id stays its own
    before: Any
    traces: int = 0


# Traces of several threads overlap in any order: the first one that needs a change makes it, the
# last one takes it back. What is put in place serves all of them.
_lock = threading.RLock()
_patched: dict[tuple[int, str], _Patched] = {}


class Patches:
    """Puts values in the place of others; leaving the block puts those back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()

    def attribute(self, owner: type, name: str, value: Any) -> None:
        """Set an attribute of a class."""
        self._put(
            owner,
            name,
            vars(owner),
            lambda given: setattr(owner, name, given),
            lambda: delattr(owner, name),
            lambda: value,
        )

    def item(self, scope: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
        """Set a global to what `make` makes of the usual one, which may be one of Python's own."""
        self._put(
            scope,
            name,
            scope,
            lambda given: scope.__setitem__(name, given),
            lambda: scope.__delitem__(name),
            lambda: make(scope[name] if name in scope else getattr(builtins, name)),
        )

    def _put(
        self,
        owner: Any,
        name: str,
        values: Mapping[str, Any],
        write: Callable[[Any], None],
        remove: Callable[[], None],
        value: Callable[[], Any],
    ) -> None:
        key = id(owner), name

        def undo() -> None:
            with _lock:
                patched = _patched[key]
                patched.traces -= 1
                if patched.traces:
                    return
                del _patched[key]
                if patched.before is not _MISSING:
                    write(patched.before)
                elif name in values:
                    remove()

        with _lock:
            if key not in _patched:
                new = value()
                _patched[key] = _Patched(owner, values.get(name, _MISSING))
                write(new)
            _patched[key].traces += 1
            self._undo.append(undo)


def usual(scope: dict[str, Any]) -> list[tuple[str, Any]]:
    """The globals of a scope as they are without a trace."""
    with _lock:
        # A list first: other threads may load names meanwhile.
        found = [
            (name, _patched.get((id(scope), name)), value) for name, value in list(scope.items())
        ]
    return [(name, value if patched is None else patched.before) for name, patched, value in found]


def usual_item(scope: dict[str, Any], name: str) -> Any:
    """A global as it is without a trace, or None."""
    with _lock:
        patched = _patched.get((id(scope), name))
        found = scope.get(name) if patched is None else patched.before
    return None if found is _MISSING else found


def recording(function: Any, kind: str = "call_function", target: Any = None) -> Any:
    """A function that becomes a node when an argument is a proxy."""
    from pullback.fx.node import map_aggregate
    from pullback.fx.proxy import Proxy

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []

        def look(value: Any) -> Any:
            if isinstance(value, Proxy):
                found.append(value)
            return value

        map_aggregate((args, kwargs), look)
        if not found:
            return function(*args, **kwargs)
        made = target if target is not None else function
        proxy = found[0].tracer.create_proxy(kind, made, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy

    return recorded
