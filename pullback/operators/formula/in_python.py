"""Formulas as functions in plain Python on NumPy, for modules that are exported.

The steps are those of the kernel for few elements, one line each, so they give its bits. Options
stay parameters; those that are texts are told apart in the function.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from pullback.operators.arrays.erf import erf, erfc, normal_cdf
from pullback.operators.formula.formulas import expanded
from pullback.operators.formula.kernels import Kernels
from pullback.operators.formula.language import Expr, number_of, order, symbol
from pullback.operators.formula.steps import Steps
from pullback.operators.formula.tracing import CannotTrace
from pullback.operators.formula.words import WORDS

__all__ = ["function_of_steps", "plain_function"]

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^"}  # fmt: skip
_BEFORE = {"neg": "-", "not": "~", "recip": "1 / "}
_OWN = {"erf": erf, "erfc": erfc, "ndtr": normal_cdf}
_KNOWN = frozenset(name for name, one in WORDS.items() if one.numpy) | {*_OWN, "powi"}
Naming = Callable[[Any, str], str]


def plain_function(name: str, kernels: Kernels, name_of: Naming) -> str:
    """The forward of a formula; `name_of` gives what the text may call a function of ours."""
    formula = kernels.formula
    tensors = formula.tensors
    first = tensors[0]
    given = ", ".join([*tensors, *kernels.options])
    lines = []
    if kernels.of_complex is not None:
        lines += [
            f'if {first}.dtype.kind == "c":',
            f"    return {name_of(kernels.of_complex, 'of_complex')}(xp, {given})",
        ]
    wide = [f"{one}.astype(xp.float32)" for one in tensors]
    lines += [
        f"if {first}.dtype.itemsize == 2:",
        f"    return {name}(xp, {', '.join([*wide, *kernels.options])}).astype({first}.dtype)",
    ]

    def root(options: dict[str, Any]) -> Expr:
        there = [one for one in tensors if options.get(one, one) is not None]
        return formula.called([symbol(one) for one in there], options)

    lines += _cases(tensors, kernels.options, kernels.choices, root, name_of)
    defaults = formula.defaults()
    head = [f"{one}={defaults[one]!r}" if one in defaults else one for one in kernels.options]
    return _text(f"def {name}(xp, {', '.join([*tensors, *head])}):", lines)


def function_of_steps(name: str, steps: Steps, name_of: Naming) -> str:
    """The same of an expression that is computed step by step."""
    given = (*steps.tensors, *steps.options)
    cases = _cases(steps.tensors, steps.options, steps.choices, steps.expression, name_of)
    lines = ["xp = numpy", *cases]
    return _text(f"def {name}({', '.join(given)}, xp=None):", lines)


def _text(head: str, lines: list[str]) -> str:
    return "\n".join([head, *("    " + line for line in lines)])


def _cases(
    tensors: Any, options: Any, choices: dict[str, Any], root: Any, name_of: Naming
) -> list[str]:
    """The lines, in a case for each text that an option may be, and with tensors or without."""
    texts = {one: choices[one] for one in options if choices.get(one)}
    optional = [one for one in (*tensors, *options) if choices.get(one) == ()]
    lines: list[str] = []
    for chosen in product(*texts.values(), *[(None, one) for one in optional]):
        named = dict(zip((*texts, *optional), chosen, strict=True))
        tests = [f"{one} is None" if value is None else f"{one} is not None" if one in optional
                 else f"{one} == {value!r}" for one, value in named.items()]  # fmt: skip
        symbolic = {one: symbol(one) for one in options if one not in texts}
        fixed = {one: value for one, value in named.items() if one in texts or value is None}
        body = _lines(root({**symbolic, **fixed}), tensors[0], name_of)
        lines += [f"if {' and '.join(tests)}:", *("    " + one for one in body)] if tests else body
    return lines


def _lines(root: Expr, like: str, name_of: Naming) -> list[str]:
    text: dict[Expr, str] = {}
    lines: list[str] = []
    body = _expanded(root)
    for one in order(body):
        args = [text[arg] for arg in one.args]
        if one.word == "input":
            text[one] = one.note
            continue
        if one.word == "const":
            text[one] = _number(number_of(one))
            continue
        text[one] = f"v{len(lines)}"
        lines.append(f"{text[one]} = {_step(one, args, like, name_of)}")
    return [*lines, f"return xp.asarray({text[body]}, {like}.dtype)"]


def _expanded(root: Expr) -> Expr:
    try:
        return expanded(root, "few", "", _KNOWN)
    except CannotTrace:  # a variant that looks at options
        return expanded(root, "", "", _KNOWN)


def _number(value: float | None) -> str:
    assert value is not None
    finite = value - value == 0
    return repr(value) if finite else f'float("{value}")'


def _step(one: Expr, args: list[str], like: str, name_of: Naming) -> str:
    if one.word in _SIGNS:
        return f"{args[0]} {_SIGNS[one.word]} {args[1]}"
    if one.word in _BEFORE:
        return f"{_BEFORE[one.word]}{args[0]}"
    if one.word == "powi":
        return f"{args[0]} ** {one.note}"
    if one.word in _OWN:
        return f"{name_of(_OWN[one.word], one.word)}(xp, {args[0]})"
    if one.word == "where":
        # Two numbers would be a choice in double.
        kinds = [f"{like}.dtype.type({text})" if arg.word != "input" and not arg.args else text
                 for arg, text in zip(one.args, args, strict=True)]  # fmt: skip
        return f"xp.where({', '.join(kinds)})"
    name = "conjugate" if one.word == "conj" else WORDS[one.word].numpy
    return f"xp.{name}({', '.join(args)})"
