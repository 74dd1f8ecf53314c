"""Calls that leave the fast path: most of them find their way back to it.

What fast_path.py writes calls this: a call by keyword, or with numbers that are converted, is
bound and comes back; the rest goes through calling.py.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core.mode import fast, get_mode
from pullback.core.tensor import Tensor
from pullback.library.call import alias_check
from pullback.library.call.binding import bind, split
from pullback.library.call.calling import PLAIN_CLASSES, call, may_override
from pullback.library.registry import Operator


class _Missing:
    """The value of a parameter that was not passed."""


MISSING: Any = _Missing()


def bail_out(
    operator: Operator, args: tuple[Any, ...], surplus: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """The call as it was made, without the parameters that were filled in."""
    given = list(args)
    if not surplus:
        arguments = operator.schema.arguments
        while given:
            argument = arguments[len(given) - 1]
            filled = argument.has_default_value() and given[-1] is argument.default
            if given[-1] is not MISSING and not filled:
                break
            given.pop()
    kwargs = {name: value for name, value in named.items() if value is not MISSING}
    passed = (*given, *surplus)
    mode = get_mode()
    is_ready = operator.plain_kernel is not None or operator.open_kernel is not None
    if is_ready and (mode is fast.plain or mode is fast.no_grad or mode is fast.forward):
        return _bound(operator, passed, kwargs)
    return call(operator, passed, kwargs)


def _bound(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that is usual but for its keywords or numbers takes the fast path after all."""
    if may_override(args) or may_override(kwargs.values()):
        return call(operator, args, kwargs)
    values = bind(operator.schema, args, kwargs)
    for argument, value in zip(operator.schema.arguments, values, strict=True):
        if value is None:
            if argument.type.text == "Tensor":  # an undefined tensor
                return call(operator, args, kwargs)
        elif isinstance(value, Tensor) and (
            value.__class__ not in PLAIN_CLASSES or value._array.__class__ is not ndarray
        ):
            return call(operator, args, kwargs)
    positional, keywords = split(operator.schema, values)
    return operator.fast_path(None, *positional, **keywords)


def check_aliases(operator: Operator, args: tuple[Any, ...], result: Tensor) -> None:
    """Refuse a result that shares memory with an argument, as alias_check.py says it."""
    kernel = operator.plain_kernel
    module = getattr(kernel, "__module__", None) or "an unknown module"
    alias_check.check(operator, args, result, module)
