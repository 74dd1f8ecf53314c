"""Writes the lines that a rule comes to, so that running a node need not call the rule.

A rule such as `g * conj(other)` costs a call, and another one for a conjugate that is nothing on
real numbers: together as much as the product itself on a small array. Here the rule runs once, on
stand-ins that note what is done to them; the notes are the lines. A rule that looks at more than
operators can tell (shapes, values, options) is left alone and called as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, number_array
from pullback.core.writer import theirs
from pullback.operators.arrays.large import is_elementwise
from pullback.operators.declare import OPERATORS, Op, Param, parameters_of
from pullback.operators.running.on_arrays import kernel, with_operators


class Inlined:
    """The lines of one rule: on arrays and on tensors, with what they name besides the inputs."""

    def __init__(self) -> None:
        self.array_lines: list[str] = []
        self.tensor_lines: list[str] = []
        self.large_lines: list[str] = []  # on large arrays, which threads share
        self.array_scope: dict[str, Any] = {}
        self.tensor_scope: dict[str, Any] = {}
        self.result = ""
        self.same_on_tensors = True  # to the last bit
        self.only_real = False  # the rule asked whether a value is complex, and was told no
        self.usual: dict[str, str] = {}  # options: the lines hold for this value, named in a scope
        self.has_numbers = False  # the lines on arrays look numbers up in the table `numbers`


class _TooMuchError(Exception):
    """The rule wants to know what only real values can tell."""


class _RealDtype:
    """What a stand-in answers when asked for its dtype: it is not complex, and no more."""

    __slots__ = ()
    kind = "f"

    def __getattr__(self, name: str) -> Any:
        raise _TooMuchError(name)

    def __eq__(self, other: object) -> bool:
        raise _TooMuchError("dtype == ...")

    def __hash__(self) -> int:
        raise _TooMuchError("hash(dtype)")


_REAL = _RealDtype()


class _StandIn:
    """A value of which only the name in the written lines is known."""

    __slots__ = ("_name", "_notes")

    def __init__(self, name: str, notes: _Notes) -> None:
        self._name = name
        self._notes = notes

    @property
    def dtype(self) -> _RealDtype:
        self._notes.inlined.only_real = True
        return _REAL

    @property
    def mT(self) -> Any:  # noqa: N802 (torch's name)
        return self._notes.line(f"{self._name}.mT")

    def __getattr__(self, name: str) -> Any:
        # Not an AttributeError: getattr(value, name, default) must not go on with the default.
        raise _TooMuchError(name)

    def __bool__(self) -> bool:
        raise _TooMuchError("truth")

    def __neg__(self) -> Any:
        return self._notes.line(f"-{self._name}")

    __hash__ = None  # type: ignore[assignment]  # nothing may be looked up by it


class _Notes:
    """The lines noted so far."""

    def __init__(self, prefix: str) -> None:
        self.inlined = Inlined()
        self.prefix = prefix

    def line(self, on_arrays: str, on_tensors: str | None = None, large: str = "") -> _StandIn:
        name = f"{self.prefix}{len(self.inlined.array_lines)}"
        self.inlined.large_lines.append(f"{name} = {large or on_arrays}")
        self.inlined.array_lines.append(f"{name} = {on_arrays}")
        self.inlined.tensor_lines.append(f"{name} = {on_tensors or on_arrays}")
        return _StandIn(name, self)

    def text(self, value: Any) -> str:
        """How an operand is written."""
        if type(value) is _StandIn:
            return value._name
        if type(value) in (int, bool) or value is None or (type(value) is float and value == value):
            return f"({value!r})" if abs(value or 0) < float("inf") else self.constant(value, value)
        raise _TooMuchError("operand")

    def number(self, value: Any) -> str:
        """How the operand of a sign is written on arrays, for which numbers are kept as arrays."""
        if type(value) not in (int, float) or value == 0:
            return self.text(value)
        written = self.text(value)
        self.inlined.has_numbers = True
        for dtype in (F32, F64):
            number_array(value, dtype)
        return f"numbers.get({written}, {written})"

    def constant(self, on_arrays: Any, on_tensors: Any) -> str:
        scope = self.inlined.array_scope
        name = f"{self.prefix}c{len(scope)}"
        scope[name], self.inlined.tensor_scope[name] = on_arrays, on_tensors
        return name


def _sign(sign: str, name: str, *, reflected: bool = False) -> Callable[[_StandIn, Any], _StandIn]:
    def noted(self: _StandIn, other: Any) -> _StandIn:
        notes, own = self._notes, self._name
        given = notes.text(other)
        # NumPy has quick ways of its own; on tensors a number is divided, as torch does, by a
        # product with the reciprocal.
        notes.inlined.same_on_tensors &= name != "pow" and not (reflected and sign == "/")
        if name in ("mul", "add") and type(other) is _StandIn and not reflected:
            # The operator itself, past the test of what stands on either side of a sign.
            function = notes.constant(None, OPERATORS[name].function)
            called = f"{function}({own}, {given})"
            return notes.line(f"{own} {sign} {given}", called, _large(sign, own, given))
        kept = notes.number(other) if sign in _ARITHMETIC else given
        (a, b), (c, d) = ((kept, own), (given, own)) if reflected else ((own, kept), (own, given))
        return notes.line(f"{a} {sign} {b}", f"{c} {sign} {d}", _large(sign, a, b))

    return noted


_ARITHMETIC = frozenset("+-*/")  # not **, which NumPy is quicker at with a number
SIGNS = {"+": numpy.add, "-": numpy.subtract, "*": numpy.multiply, "/": numpy.true_divide}


def _large(sign: str, a: str, b: str) -> str:
    """What is written for large arrays."""
    return f"large({SIGNS[sign].__name__}, {a}, {b})" if sign in SIGNS else ""


for _name, _text in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}.items():
    setattr(_StandIn, f"__{_name}__", _sign(_text, _name))
    setattr(_StandIn, f"__r{_name}__", _sign(_text, _name, reflected=True))
for _name, _text in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(_StandIn, f"__{_name}__", _sign(_text, _name))


def _noting(op: Op, _: Any) -> Callable[..., Any]:
    """An operator as a traced rule calls it: one more line."""

    def call(*args: Any, **kwargs: Any) -> Any:
        notes = next((arg._notes for arg in args if type(arg) is _StandIn), None)
        if notes is None or len(op.outputs) != 1 or op.outputs == ("*",):
            raise _TooMuchError(op.name)
        function = notes.constant(kernel(op, numpy), op.function)
        given = [notes.text(arg) for arg in args]
        given += [f"{name}={notes.text(value)}" for name, value in kwargs.items()]
        called, split = f"{function}({', '.join(given)})", is_elementwise(kernel(op, numpy))
        return notes.line(called, None, f"large({function}, {', '.join(given)})" if split else "")

    return call


def inlined(op: Op, param: Param, prefix: str) -> Inlined | None:
    """The lines of the rule for `param`, or None if they cannot be told from a run."""
    rule = op.rules[param.name]
    asked = parameters_of(rule)
    required = {one.name for one in op.inputs if one.kind == "tensor"}
    usual = {p.name: p.default for p in op.params if p.kind == "option" and _is_plain(p.default)}
    known = {*required, *usual, "g", "out"}
    if len(op.outputs) != 1 or op.outputs == ("*",) or not {*asked} <= known:
        return None
    notes = _Notes(prefix)
    found = notes.inlined
    found.usual = {n: notes.constant(usual[n], usual[n]) for n in asked if n in usual}
    given = [usual[n] if n in found.usual else _StandIn(_local(n), notes) for n in asked]
    try:
        result = with_operators(rule, _noting, "noted")(*given)
    except Exception:  # whatever a rule does on a stand-in that it would not do on values
        return None
    if type(result) is not _StandIn or (found.only_real and not _complex_stays_complex(op)):
        return None
    found.result = result._name
    return found


def _local(name: str) -> str:
    """What a rule asks for, as the node's code has it."""
    return name if name == "g" else theirs(name)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (int, bool, float, str)


def _complex_stays_complex(op: Op) -> bool:
    """Whether a real result means that the inputs were real too."""
    if op.kind == "multilinear":
        return True
    if op.kind != "elementwise" or op.promote is None:
        return all(asked == ("g",) for asked in map(parameters_of, op.rules.values()))
    options = {p.name: p.default for p in op.params if not p.is_tensor}
    try:
        result = op.meaning(numpy, *(numpy.ones(1, complex) for _ in op.inputs), **options)
    except Exception:  # no complex numbers in this operator
        return True
    return bool(numpy.asarray(result).dtype.kind == "c")
