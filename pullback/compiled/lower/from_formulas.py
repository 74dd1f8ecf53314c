"""Pointwise operators lowered by their formulas: `operators/formula`, one word to one value."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import EW, LIBM, Val
from pullback.compiled.lower.libm import ask
from pullback.compiled.lower.rules import NotLowered, floating
from pullback.operators.arrays.native import rows_of
from pullback.operators.formula.formulas import Formula, expanded
from pullback.operators.formula.kernels import Kernels
from pullback.operators.formula.language import Expr, number_of, order, symbol

__all__ = ["by_formula", "on_rows", "value"]


def value(b: Builder, root: Expr, given: dict[str, Val]) -> Val:
    """The value of an expression, of values of its inputs."""
    like = next(iter(given.values())).dtype
    known: dict[Expr, Val] = {}
    body = expanded(root, "native", like, EW)
    for one in order(body):
        args = [known[arg] for arg in one.args]
        if one.word == "input":
            known[one] = given[one.note]
        elif one.word == "const":
            known[one] = b.const(number_of(one), like)
        elif one.word == "recip" and one.args[0].word == "sqrt":
            known[one] = b.ew("rsqrt", known[one.args[0].args[0]])
        elif one.word in LIBM:
            known[one] = ask(b, one.word, *args)
        elif one.word in EW:
            known[one] = b.ew(one.word, *args, attr=one.note)
        else:
            raise NotLowered
    return known[body]


def by_formula(kernels: Kernels, b: Builder, given: dict[str, Any]) -> Val:
    """The value of an operator's call."""
    names = kernels.formula.tensors
    values = {name: given[name] for name in names if isinstance(given[name], Val)}
    missing = tuple(name for name in names if given[name] is None)
    if len(values) + len(missing) != len(names):
        raise NotLowered
    floating(*values.values())
    options = tuple(given[name] for name in kernels.options)
    try:
        root = kernels.root(options, missing)
    except RuntimeError:  # options that the kernel refuses, when the program runs
        raise NotLowered from None
    return value(b, root, values)


def on_rows(formula: Formula, b: Builder, given: list[Val], options: dict[str, Any]) -> Val:
    """The value of eager's kernel: of operands of one shape, on rows, which threads share."""
    names = [name for name in formula.tensors if options.get(name, name) is not None]
    rows = rows_of(given[0].size)
    lines = {name: b.reshape(x, rows) for name, x in zip(names, given, strict=True)}
    root = formula.called([symbol(name) for name in names], options)
    return b.reshape(value(b, root, lines), given[0].shape)
