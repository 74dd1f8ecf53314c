"""Operators as Python's operators: what they do not know is left to the other operand.

`x + thing` must answer NotImplemented for a thing that has an `__radd__`, where `add(x, thing)`
raises.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.create.exchange import operand
from pullback.operators.create.numbers import as_number, is_number
from pullback.operators.declare import Op, unwritten
from pullback.operators.dispatch.dispatch import DUNDERS, QUIET, Unanswered, any_handler, overloaded
from pullback.operators.running import inplace, interpret

__all__ = ["caught", "gives_way", "reflected", "written_in_place"]


_KNOWN = frozenset((Tensor, int, float))
_OTHERS = (numbers.Number, numpy.ndarray, numpy.generic)


def gives_way(function: Any, sign: str = "") -> Any:
    """What a sign calls: the operator, but operands it does not know get their turn (`__radd__`).

    An operand that overrides calls itself is asked as the `sign`, not as the operator that it is.

    For a declared operator that is the same code with another way out of the fast path, so the
    usual call costs nothing.
    """
    op = getattr(function, "op", None)
    if op is None:
        return caught(function)
    call = functools.partial(_call_or_give_way, sign)
    made = unwritten(op, op.name, call=call, sign=True)
    made.__doc__ = function.__doc__
    made.op = op  # as the operator's own function has it
    DUNDERS.add(made)
    return made


def _call_or_give_way(sign: str, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # A method without its tensor. The first question is quick, numbers' own takes 0.3 us.
    if args and not isinstance(args[0], Tensor) and isinstance(args[0], numbers.Number):
        if op.name == "rsub":
            return NotImplemented
        raise errors.not_a_tensor(op.name, "self", args[0])
    is_plain = True
    for one in args:
        if type(one) in _KNOWN or isinstance(one, Tensor):
            continue
        is_plain = False
        if not _is_operand(one):
            return NotImplemented
        if sign and hasattr(type(one), "__torch_function__"):
            taken, answer = ports.met_by(sign, args)
            return answer if taken else NotImplemented
    try:
        return interpret.call(op, args if is_plain else tuple(map(_as_tensor, args)), kwargs)
    except Unanswered:
        return NotImplemented


def _write_or_give_way(op: Op, called: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not all(map(_is_operand, args)):
        return NotImplemented
    try:
        return inplace.call_inplace(op, called, tuple(map(_as_tensor, args)), kwargs)
    except TypeError as error:
        if isinstance(error, Unanswered) or not all(map(_is_value, args)):
            return NotImplemented
        raise


def _as_tensor(value: Any) -> Any:
    """An array beside a sign is a tensor; functions and methods, called by name, refuse it.

    And so is a number of a type that NumPy does not know.
    """
    if type(value) in _KNOWN:
        return value
    if isinstance(value, numpy.ndarray):
        return operand(value)
    return as_number(value) if is_number(value) else value


def caught(function: Any) -> Any:
    """As `gives_way`, for a plain function of operators."""

    @functools.wraps(function)
    def sign(input: Any, other: Any) -> Any:
        try:
            return function(_as_tensor(input), _as_tensor(other))
        except TypeError as error:
            if isinstance(error, Unanswered) or not _is_value(other):
                return NotImplemented
            raise

    DUNDERS.add(sign)
    return sign


def reflected(function: Any) -> Any:
    """The sign of `function` with its operands exchanged.

    An operand that overrides calls is asked as the sign that it is, before `function` could ask it.
    """

    def sign(input: Any, other: Any) -> Any:
        if other.__class__ not in QUIET and any_handler(other):
            taken, answer = overloaded(made, (input, other), {})
            if taken:
                return answer
        return function(other, input)

    signature = inspect.signature(sign)
    sign.__wrapped__ = function  # type: ignore[attr-defined]  # whose family it belongs to
    made = caught(sign)
    made.__module__ = function.__module__
    made.__signature__ = signature  # names that it has itself
    return made


def written_in_place(function: Any, name: str | None = None) -> Any:
    """The sign of an in-place form."""
    made = inplace.inplace_of(function, name, bail_out=_write_or_give_way)
    DUNDERS.add(made)
    return made


def _is_operand(value: Any) -> bool:
    """Whether operators know what to do with it; others may know what to do with a tensor."""
    return _is_value(value) or hasattr(type(value), "__torch_function__")


def _is_value(value: Any) -> bool:
    """Whether operators compute with it."""
    if type(value) in _KNOWN or isinstance(value, (Tensor, *_OTHERS)):
        return True
    return is_number(value)
