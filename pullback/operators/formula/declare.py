"""`@pointwise`: an operator that is its formula.

    @pointwise(promote="float", input=slope(lambda out: (1 - out) * out))
    def sigmoid(xp, input):
        return 1 / (1 + xp.exp(-input))

The function is the plain meaning, right for every array library, size and dtype: the oracle. From
it follow the kernels for NumPy, machine code, compiled programs, CUDA and C, and for each tensor
that the declaration says nothing of, the derivative. It may say

- `slope(...)`: the derivative in words, where digits, speed or torch's convention want another one
  than the mechanical; like a rule it asks by name for what it needs, and exactly that is saved;
- a rule in operators, as of any other operator;
- None: it has none.

Either is held to the mechanical derivative by a test (tests/operators/formula). A slope, by hand or
derived, times the gradient is an operator as well, with kernels of its own: `_sigmoid_backward`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
from numpy import ndarray

from pullback.core.arrays import F32
from pullback.core.home import home_of
from pullback.core.tensor import Tensor
from pullback.core.writer import block, define, theirs
from pullback.operators.declare import elementwise
from pullback.operators.formula import derive
from pullback.operators.formula.formulas import Formula, Slope
from pullback.operators.formula.kernels import FEW, SCALARS, Kernels
from pullback.operators.formula.language import Expr, make, replaced, symbol
from pullback.operators.formula.steps import Steps

__all__ = ["forward_of", "pointwise"]


def pointwise(
    *,
    kinds: str = "fV",
    called: str = "",
    word: str = "",
    holomorphic: bool = False,
    forward: Any = None,
    is_one_call: bool = False,
    backward_node: str = "",
    of_complex: Any = None,
    check: Any = None,
    choices: dict[str, tuple[str, ...]] | None = None,
    rounded: str = "",
    rounded_backward: str = "",
    **declared: Any,
) -> Callable[[Any], Any]:
    """Declare an operator by its formula.

    `kinds` are the kinds of dtypes that it takes, and `called` names it where it refuses others;
    `word`: what back ends may have it as; with `holomorphic` its complex derivative is that of the
    formula. `forward` is a function of arrays by hand, where NumPy does it in a single call; with
    `is_one_call` the formula is that call already.
    `of_complex` computes complex arrays, where the formula would lose digits; `check` refuses
    options, by name; `choices` are the texts that an option may be, none if it
    may be None.
    `rounded` are options that half precision has in its own dtype, and not in single.
    """

    def declare(function: Any) -> Any:
        tensors, options = _parameters(function)
        name = declared.get("name") or function.__name__
        made = Formula(function, tensors, _key(declared.get("space", ""), name))
        made.word = word
        kernels = Kernels(made, options, kinds, called or name, rounded)
        kernels.of_complex, kernels.check = of_complex, check
        optional = [one for one in tensors if "None" in str(function.__annotations__[one])]
        kernels.choices = {**(choices or {}), **dict.fromkeys(optional, ())}
        about = {one: value for one, value in declared.items() if one not in tensors}
        node = backward_node or _backward_node(declared.get("node"), name)
        rules, adjoints = {}, {}
        differentiable = [one for one in tensors if declared.get(one, one) is not None]
        for tensor in differentiable:
            rule = declared.get(tensor)
            if isinstance(rule, Slope):
                made.slopes[tensor] = rule
            if rule is None or isinstance(rule, Slope):
                backward = _Backward(kernels, tensor, node, differentiable, rounded_backward)
                rule = backward.rule_of_forward(holomorphic=holomorphic)
                adjoints[tensor] = backward.operator
            rules[tensor] = rule
        if forward is not None:
            forward.__doc__ = function.__doc__
        by_hand = function if is_one_call else forward
        kernels.is_forward = by_hand is None
        by_hand = by_hand or forward_of(function, kernels, kernels.chosen, kernels.table)
        operator: Any = elementwise(**rules, **about, formula=kernels)(by_hand)
        by_hand.kernels = kernels  # for other array libraries, see cuda/formulas.py
        operator.formula, operator.adjoints, kernels.op = made, adjoints, operator.op
        return operator

    return declare


def _backward_node(node: str | None, name: str) -> str:
    own = node or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
    return own.replace("Backward0", "BackwardBackward0")


def _key(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


def _parameters(function: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the tensors, and of the options."""
    hints = function.__annotations__
    names = [name for name in inspect.signature(function).parameters if name != "xp"]
    tensors = [name for name in names if str(hints.get(name, "")).startswith("Array")]
    return tuple(tensors), tuple(name for name in names if name not in tensors)


# The forward --------------------------------------------------------------------------------------


# Options under which kernels are kept; tensors that hold numbers are looked at first.
_PLAIN = frozenset({float, int, bool, str, type(None)})


def forward_of(function: Any, kernels: Kernels, chosen: Any, known: Any = None) -> Any:
    """The function of arrays that the operator calls: a kernel that is `known`, or a choice."""
    signature = inspect.signature(function).parameters.values()
    tensors = [theirs(name) for name in kernels.formula.tensors]
    options = [theirs(name) for name in kernels.options]
    lines = [] if known is None else _known_kernel(signature, kernels)
    lines += [f"return chosen(xp, {_tuple(tensors)}, {_tuple(options)})"]
    head = ", ".join(_declared(one) for one in signature)
    scope = {"__name__": home_of(function), "known": known, "chosen": chosen, "ndarray": ndarray}
    scope |= {"numpy": numpy, "F32": F32, "FEW": FEW}  # for `usual`
    scope |= {"PLAIN": _PLAIN, "SCALARS": SCALARS, "scalars": kernels.scalars}
    made = define(block(f"def forward({head})", lines), scope, f"forward {kernels.formula.name}")
    made.__name__ = made.__qualname__ = function.__name__
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__doc__, made.__wrapped__ = function.__doc__, function
    return made


def _known_kernel(signature: Any, kernels: Kernels) -> list[str]:
    """The lines that look for a kernel: of plain arrays of one dtype, optional ones absent."""
    optional = [one.name for one in signature if "None" in str(one.annotation)]
    missing = tuple(name for name in kernels.formula.tensors if name in optional)
    given = [theirs(name) for name in kernels.formula.tensors if name not in missing]
    are_arrays = " is ".join([*(f"type({one})" for one in given), "ndarray"])
    conditions = []
    dtype = f"{given[0]}.dtype"
    if given[1:]:
        conditions += [f"(dtype := {dtype}) is {given[1]}.dtype"]
        dtype = "dtype"
    conditions += [f"dtype is {one}.dtype" for one in given[2:]]
    conditions += [f"{theirs(one)} is None" for one in missing]
    conditions += [f"type({theirs(one)}) in PLAIN" for one in kernels.options]
    # -0.0 is equal to 0.0, and another number.
    parts = [f"{theirs(one)} or repr({theirs(one)})" for one in kernels.options]
    parts += [repr(missing)] if missing else []
    key = f"({dtype}, {', '.join(parts)})" if parts else dtype
    run = block("if kernel is not None", [f"return kernel({', '.join(given)})"])
    lines = []
    # The engine hands on what has no dimensions as NumPy's scalars.
    for test, table in ((are_arrays, "known"), (f"type({given[0]}) in SCALARS", "scalars")):
        found = [f"kernel = {table}.get({key})", *run]
        lines += block(f"if {' and '.join([test, *conditions])}", found)
    return lines


def _declared(parameter: inspect.Parameter) -> str:
    name = parameter.name if parameter.name == "xp" else theirs(parameter.name)
    return f"*, {name}" if parameter.kind is parameter.KEYWORD_ONLY else name


def _tuple(names: list[str]) -> str:
    return f"({''.join(f'{one}, ' for one in names)})"


# The adjoint --------------------------------------------------------------------------------------


def is_complex(value: Any) -> bool:
    """Whether an array or tensor is complex."""
    array = value._array if isinstance(value, Tensor) else value
    return bool(array.dtype.kind in "cW")


class _Backward:
    """The operator of gradient times slope, with its own rules."""

    def __init__(
        self, kernels: Kernels, tensor: str, node: str, differentiable: list[str], rounded: str
    ) -> None:
        formula = kernels.formula
        by_hand = formula.slopes.get(tensor)
        wanted = (*formula.tensors, *kernels.options) if by_hand is None else by_hand.asks
        saved = [name for name in (*formula.tensors, "out") if name in wanted]
        self.options = [name for name in kernels.options if name in wanted]
        self.asks = [*saved, *self.options]
        self.of, self.tensor, self.choices = formula, tensor, kernels.choices
        # A parameter of an operator cannot be called as its result is.
        self.names = {name: "result" if name == "out" else name for name in saved}
        short = formula.name.rpartition(".")[2].removeprefix("_")
        name = f"_{short}_backward" + (f"_{tensor}" if len(formula.tensors) > 1 else "")
        tensors = ("gradient", *self.names.values())
        meaning = self._meaning(name, tensors)
        called = f"the gradient of {kernels.called}"
        made = Formula(meaning, tensors, name)
        own = Kernels(made, tuple(self.options), "fV", called, rounded)
        scope: dict[str, Any] = {"__name__": __name__}
        fixed = [one for one in formula.tensors if one not in differentiable]
        rules = {one: self._rule(name, one, scope) for one in tensors if one not in fixed}
        declared = elementwise(**rules, name=name, node=node, has_out=False, formula=own)
        forward = forward_of(meaning, own, own.chosen, own.table)
        forward.kernels = own
        own.choices = kernels.choices
        own.check = kernels.check if own.options == kernels.options else None
        operator: Any = declared(forward)
        self.operator, own.op = operator, operator.op
        scope["backward"] = operator

    def rule_of_forward(self, *, holomorphic: bool) -> Any:
        """The rule that calls this operator; complex gradients go step by step."""
        asked = ", ".join(theirs(name) for name in self.asks)
        lines = [f"return backward(g, {asked})"]
        if holomorphic:
            test = f"if is_complex({theirs(self.asks[0])})"
            lines = [*block(test, [f"return complex(g, {asked})"]), *lines]
        scope = {
            "__name__": __name__,
            "backward": self.operator,
            "is_complex": is_complex,
            "complex": self._steps(self.asks_of_tensors(), self._complex, "complex"),
        }
        return define(
            block(f"def rule(g, {asked})", lines),
            scope,
            f"rule of {self.of.name} for {self.tensor}",
        )

    def _meaning(self, name: str, tensors: tuple[str, ...]) -> Any:
        """A function of the adjoint's own arguments; what it computes depends on options."""
        named = (*tensors, *self.options)
        given = ", ".join(theirs(one) for one in named)
        steps = self._steps(tensors, self.expression, name)
        scope = {"__name__": home_of(self.of.function), "computed": steps}
        lines = block(f"def meaning(xp, {given})", [f"return computed({given}, xp=xp)"])
        made = define(lines, scope, f"meaning of {name}")
        made.__name__ = made.__qualname__ = name
        own = self.of.function.__annotations__
        made.__annotations__ = {one: own.get(one, "Array") for one in named}
        return made

    def _rule(self, name: str, place: str, scope: dict[str, Any]) -> Any:
        names = (*self.names.values(), *self.options)
        asked = names if place == "gradient" else ("gradient", *names)
        given = ", ".join(theirs(one) for one in asked)
        line = f"return backward(g, {given})"  # it is linear in the gradient
        if place != "gradient":
            tensors = ("g", "gradient", *self.names.values())
            second = partial(self._second, place)
            scope[f"second_{place}"] = self._steps(tensors, second, f"second_{place}")
            line = f"return second_{place}(g, {given})"
        return define(block(f"def rule(g, {given})", [line]), scope, f"rule of {name} for {place}")

    def _steps(self, tensors: tuple[str, ...], expression: Any, name: str) -> Steps:
        return Steps(tensors, self.options, expression, name, self.choices)

    # What is computed, given the options ----------------------------------------------------

    def expression(self, options: dict[str, Any]) -> Expr:
        """Gradient times slope, of this operator's inputs."""
        made = derive.adjoint(self.of, self.tensor, options)
        return replaced(made, {symbol("out"): symbol("result")})

    def _second(self, place: str, options: dict[str, Any]) -> Expr:
        """The second derivative."""
        first = self.expression(options)
        return derive.times(symbol("g"), derive.slope(first, place, is_part=True))

    def _complex(self, options: dict[str, Any]) -> Expr:
        """Gradient times the conjugate of the slope."""
        slope = derive.slope_of(self.of, self.tensor, options)
        return make("mul", symbol("g"), make("conj", slope))

    def asks_of_tensors(self) -> tuple[str, ...]:
        """What the rule is given that is no option."""
        return ("g", *(name for name in self.asks if name not in self.options))
