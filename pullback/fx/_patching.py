"""Changes of attributes and globals for the time of a trace, taken back in reverse order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Patches", "recording"]

_MISSING = object()


class Patches:
    """Puts values in the place of others; leaving the block puts those back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module."""
        before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        if before is _MISSING:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def item(self, scope: dict[str, Any], name: str, value: Any) -> None:
        """Set a global."""
        before = scope.get(name, _MISSING)
        scope[name] = value
        if before is _MISSING:
            self._undo.append(lambda: scope.pop(name, None) and None)
        else:
            self._undo.append(lambda: scope.__setitem__(name, before))


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
