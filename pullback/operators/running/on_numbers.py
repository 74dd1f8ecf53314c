"""Operators on tensors of fractions, long floats, intervals and other objects (core/numbers).

The declared meaning of an operator runs on them as it is, since what it asks of NumPy comes by the
array's own class. Before that, the table of the type may have the whole operator, and some have a
way of their own (operators/numbers). What comes out is looked at, element by element: nothing else
may pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.numbers.array import SPACE, NumberArray, converted, numbers_among, operand, taken
from pullback.core.numbers.floats import RoundedError
from pullback.core.numbers.types import (
    MixedNumbersError,
    NoMeaningError,
    NumberType,
    no_meaning,
    of_element,
)
from pullback.core.tensor import Tensor, wrap
from pullback.operators.choice import is_choice
from pullback.operators.declare import Op

__all__ = ["CLEAR", "among", "as_tensor", "compute"]

# Errors that say all there is to say.
CLEAR = (MixedNumbersError, RoundedError)


def as_tensor(value: Any) -> Any:
    """A single number of such a type as a tensor, where an operator takes numbers; others as is."""
    if isinstance(value, Tensor | int | float | complex | str | numpy.ndarray | numpy.generic):
        return value
    numbers = of_element(value)
    if numbers is None:
        return value
    single = numpy.empty((), object)
    single[()] = value
    return wrap(taken(single, numbers))


def among(arrays: dict[str, Any]) -> bool:
    """Whether any input is of such numbers."""
    return any(
        type(one) is NumberArray
        or (type(one) is tuple and any(type(part) is NumberArray for part in one))
        for one in arrays.values()
    )


def compute(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """The results of an operator."""
    numbers = numbers_among(arrays.values())
    for name, value in arrays.items():
        for one in value if type(value) is tuple else (value,):
            _check_mixed(op, name, one, numbers)
    arrays = {name: _of_one_type(value, numbers) for name, value in arrays.items()}
    try:
        made = _computed(op, numbers, arrays, options)
        if len(op.outputs) == 1 and op.outputs != ("*",):
            return _result(op, numbers, made, op.outputs[0])
        names = op.outputs if len(op.outputs) > 1 else [""] * len(made)
        return [_result(op, numbers, *one) for one in zip(made, names, strict=True)]
    except NoMeaningError as error:
        raise error.inside(op.name) from None
    except RoundedError as error:
        why = f"it is computed with the float {error.value!r}, which was rounded"
        raise no_meaning(op.name, numbers, why) from None


def _of_one_type(value: Any, numbers: NumberType) -> Any:
    if type(value) is tuple:
        return tuple(_of_one_type(one, numbers) for one in value)
    if type(value) is NumberArray and value.numbers is not numbers:
        return converted(value, numbers.numpy)
    return value


def _check_mixed(op: Op, name: str, value: Any, numbers: NumberType) -> None:
    """Refuse floats beside numbers, where no promotion has."""
    kind = getattr(value, "dtype", None)
    if kind is not None and type(value) is not NumberArray and kind.kind in "fcVW":
        raise MixedNumbersError(
            f"{op.name.strip('_')}: {name} has dtype {kind}, whose elements are rounded, beside "
            f"numbers of type {numbers.name}. Convert it with .to({numbers.name}) first."
        )


def _computed(op: Op, numbers: NumberType, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    from pullback.operators.numbers import KERNEL_OVERRIDES  # families, which know this module

    instead: Callable[..., Any] | None = KERNEL_OVERRIDES.get(op.name)
    if instead is not None:
        return instead(numbers, **arrays, **options)
    own = numbers.functions.get(op.name)
    if own is not None and op.kind == "elementwise" and _is_bare(op, options):
        values = [operand(numbers, one) for one in arrays.values()]
        made = numpy.frompyfunc(own, len(values), 1)(*values)
        return taken(_objects(made), numbers, op.name)
    return meaning(op)(SPACE, **arrays, **options)


def _is_bare(op: Op, options: dict[str, Any]) -> bool:
    """Whether a call is of its tensors alone."""
    return all(options[param.name] == param.default for param in op.params if not param.is_tensor)


def meaning(op: Op) -> Callable[..., Any]:
    """The declared forward: no choice among kernels, which are for NumPy's own dtypes."""
    formula = getattr(op.function, "formula", None)
    if formula is not None:
        declared: Callable[..., Any] = formula.function
        return declared
    found = op.meaning
    wraps = is_choice(found) or hasattr(found, "kernels")
    plain: Callable[..., Any] = found.__wrapped__ if wraps else found
    return plain


def _objects(made: Any) -> Any:
    if isinstance(made, numpy.ndarray):
        return made
    single = numpy.empty((), object)
    single[()] = made
    return single


def _result(op: Op, numbers: NumberType, made: Any, output: str) -> Any:
    """A result as it may leave: numbers, or what never has a gradient: ints and truth values."""
    if type(made) is NumberArray:
        return made
    if isinstance(made, numpy.ndarray | numpy.generic):
        kind = made.dtype.kind
        if kind in "biu":
            carries = op.rules and output not in op.fixed_outputs and op.name != "_to_fixed"
            return converted(numpy.asarray(made), numbers.numpy) if carries else made
        if kind == "O":
            return taken(numpy.asarray(made), numbers, op.name)
        if op.name.startswith("_to_"):
            return made  # asked for
        if not made.size:
            return converted(numpy.asarray(made), numbers.numpy)
    elif isinstance(made, bool | int):
        return _result(op, numbers, numpy.asarray(made), output)
    elif not isinstance(made, float | complex):
        return taken(_objects(made), numbers, op.name)
    raise no_meaning(op.name, numbers, "it is computed in floating point")
