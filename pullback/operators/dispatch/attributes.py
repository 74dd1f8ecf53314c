"""What only looks at a tensor (`x.shape`, `x.size()`, `x.requires_grad_()`), made to ask.

A class with a `__torch_function__` of its own is asked for these too, as torch does: a property is
reported as its `__get__` or `__set__`. The class itself gets properties and methods that ask, so
that other tensors know nothing of it. Inside handlers that pass a call on they are as always.
"""

from __future__ import annotations

from functools import cache, wraps
from inspect import getattr_static
from types import FunctionType
from typing import Any

from pullback.core.overriding import FUNCTIONS, excluded, unwrapped
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.dispatch import dispatch

__all__ = ["take_over"]

# Not the user's: how tensors are made, and what asks in other ways.
_NAMES = """
    __class_getitem__ __delattr__ __getattr__ __getattribute__ __hash__ __init_subclass__ __new__
    __setattr__ __torch_function__ grad_dtype why_no_grad
"""
_APART = frozenset(_NAMES.split())


def take_over(cls: type[Tensor]) -> None:
    """Let `cls`, which has a handler of its own, be asked for what Tensor's attributes tell."""
    for name, own in list(vars(Tensor).items()):
        public = name[0] != "_" or name.startswith("__") or name in ("_base", "_grad", "_version")
        if not public or name in _APART or getattr_static(cls, name) is not own:
            continue  # private, or defined by the class
        if isinstance(own, property):
            setattr(cls, name, _property(name))
        elif isinstance(own, FunctionType) and _only_looks(own):
            setattr(cls, name, _method(name))


# What a tensor holds is shown as it is, whatever class asks.
unwrapped.update(vars(Tensor)[name].__get__ for name in ("_base", "_grad", "grad"))


def _only_looks(function: FunctionType) -> bool:
    """Whether it is none of the functions that ask by themselves (asking.py, intercept.py)."""
    from pullback.operators.dispatch.asking import asks

    return not asks(function)


@cache
def _property(name: str) -> property:
    own: property = vars(Tensor)[name]

    def get(self: Any) -> Any:
        if excluded.get() & FUNCTIONS:
            return own.__get__(self)
        return _answer(own.__get__, self)

    def put(self: Any, value: Any) -> None:
        if excluded.get() & FUNCTIONS:
            own.__set__(self, value)
        else:
            _answer(own.__set__, self, value)

    def remove(self: Any) -> None:
        if excluded.get() & FUNCTIONS:
            own.__delete__(self)
        else:
            _answer(own.__delete__, self)

    return property(get, own.fset and put, own.fdel and remove, own.__doc__)


def _answer(function: Any, *args: Any) -> Any:
    taken, answer = dispatch.overloaded(function, args, {})
    return answer if taken else function(*args)


@cache
def _method(name: str) -> Any:
    own: Any = vars(Tensor)[name]

    @wraps(own)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if excluded.get() & FUNCTIONS:
            return own(self, *args, **kwargs)
        function, given, named = ports.spelled(own, (self, *args), kwargs)
        taken, answer = dispatch.overloaded(function, given, named)
        return answer if taken else own(self, *args, **kwargs)

    return method
