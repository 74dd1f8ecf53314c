"""Subclasses of Tensor with a `__torch_function__` of their own, which takes operator calls.

The straight line of an operator must not pay for them. It begins by reading `_array` of its
operands and leaves for the interpreter where that is an AttributeError; for instances of such a
class it is, for that one reader, and the interpreter asks them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from pullback.core.origin import getframe

__all__ = ["classes", "disabled", "guard", "run"]

# The classes that were guarded; operators look for overrides among their arguments if there is any.
classes: list[str] = []
# Set while a class's own handler has handed the call on.
disabled: ContextVar[bool] = ContextVar("pullback_overrides_disabled", default=False)


def guard(cls: type, slot: Any) -> None:
    """Make operators ask instances of `cls`; `slot` is where all tensors keep their array."""

    def read(self: Any) -> Any:
        if getframe(1).f_code.co_name == "written" and not disabled.get():
            raise AttributeError("_array: this class takes operator calls by __torch_function__")
        return slot.__get__(self)

    cls._array = property(read, slot.__set__)  # type: ignore[attr-defined]  # a slot becomes a property
    classes.append(cls.__qualname__)


def run(cls: type, base: type, func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function as if no class took calls; tensors that it makes become `cls`."""
    before = disabled.get()
    try:
        disabled.set(True)
        made = func(*args, **(kwargs or {}))
    finally:
        disabled.set(before)
    for one in made if isinstance(made, tuple | list) else (made,):
        if type(one) is base:
            one.__class__ = cls
    return made
