"""The same function on bare arrays: rules are written in operators, and run on arrays without any.

A rule names operators as globals. `on_arrays` gives it a copy of those globals in which each
operator is its forward, bound to an array namespace, so that the plain backward pass calls NumPy
directly: no wrapping, no dispatch, no second version of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy

from pullback.core.arrays import F32, F64
from pullback.core.home import is_ours
from pullback.operators.conditions import may_run
from pullback.operators.dispatch.layers import code_of, own_of

_made: dict[tuple[Any, Any], Any] = {}


def on_arrays(function: Any, xp: ModuleType = numpy) -> Any:
    """`function` with every operator it uses, however deep, replaced by its forward on `xp`."""
    return with_operators(function, kernel, xp)


def with_operators(function: Any, replace: Callable[[Any, Any], Any], key: Any) -> Any:
    """`function` with every operator it uses, however deep, replaced by `replace(op, key)`."""
    known = _made.get((function, key))
    if known is not None:
        return known
    making: dict[tuple[Any, Any], Any] = {}
    made = _with_operators(function, replace, key, making)
    # All at once: neither an interrupt nor another thread may leave, or find, half of a function.
    _made.update(making)
    return made


def _with_operators(
    function: Any, replace: Callable[[Any, Any], Any], key: Any, making: dict[tuple[Any, Any], Any]
) -> Any:
    op = getattr(function, "op", None)
    if op is not None:
        return replace(op, key)
    if type(function) is not FunctionType or not is_ours(function, "operators"):
        return function
    known = _made.get((function, key)) or making.get((function, key))
    if known is not None:
        return known
    scope = dict(function.__globals__)
    cells = function.__closure__ and tuple(CellType() for _ in function.__closure__)
    own = own_of(function)
    made = FunctionType(own.__code__, scope, function.__name__, own.__defaults__, cells)
    made.__kwdefaults__ = own.__kwdefaults__
    making[function, key] = made  # entered first: functions may call one another
    for name in _global_names(code_of(function)):
        if name in scope:
            scope[name] = _with_operators(scope[name], replace, key, making)
    for cell, original in zip(cells or (), function.__closure__ or (), strict=True):
        cell.cell_contents = _with_operators(original.cell_contents, replace, key, making)
    return made


def kernel(op: Any, xp: ModuleType = numpy) -> Any:
    """The operator's forward on arrays of `xp`; the array function itself where it is just that."""
    known = _made.get((op, xp))
    if known is None:
        direct = array_call(op)
        known = getattr(xp, direct) if direct else partial(op.forward, xp)
        if direct and any(not param.is_tensor for param in op.params):
            known = partial(op.forward, xp)
        _made[op, xp] = known
    return known


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


class _Probe:
    """An array namespace that notes which function is called, with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.result = object()

    def __getattr__(self, name: str) -> Any:
        def note(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return self.result

        return note


def array_call(op: Any) -> str | None:
    """The array function's name if, options at their defaults, the forward is that call alone.

    Found by running the forward on stand-ins: `return xp.multiply(input, other)` passes them on
    untouched and returns what it got. Anything else fails on a stand-in, or shows in the notes.
    """
    known = _direct.get(op, "")
    if known == "":
        known = _direct[op] = _single_call(op, object)
    return known


def float_call(op: Any) -> str | None:
    """The same where the forward looks at dtypes first, and is one call for float32 and float64."""
    if array_call(op) is not None or op.promote is None or op.kind != "elementwise":
        return None
    known = _floats.get(op, "")
    if known == "":
        # Stand-ins of which a forward may ask the dtype, and nothing else.
        single, double = (type("_StandIn", (), {"dtype": dtype}) for dtype in (F32, F64))
        known = _single_call(op, single)
        known = _floats[op] = known if known == _single_call(op, double) else None
    return known


def _single_call(op: Any, stand_in: type) -> str | None:
    options = {param.name: param.default for param in op.params if param.kind != "tensor"}
    if any(one.on == "host" and may_run(one.when, options) for one in op.kernels):
        return None  # among which the forward chooses
    probe = _Probe()
    stand_ins = [stand_in() for param in op.params if param.kind == "tensor"]
    try:
        result = op.meaning(probe, *stand_ins, **options)
    except (TypeError, AttributeError, ValueError, IndexError, RuntimeError):  # and not implemented
        result = None
    if result is probe.result and len(probe.calls) == 1:
        name, args, kwargs = probe.calls[0]
        same = len(args) == len(stand_ins) and all(
            a is b for a, b in zip(args, stand_ins, strict=True)
        )
        if same and not kwargs and isinstance(getattr(numpy, name, None), numpy.ufunc):
            return name
    return None


_direct: dict[Any, str | None] = {}
_floats: dict[Any, str | None] = {}
