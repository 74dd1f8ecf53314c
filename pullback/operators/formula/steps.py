"""Expressions computed step by step, on arrays or tensors, one word at a time.

This is the meaning of what is derived: of adjoints where no kernel serves, of second derivatives,
and of complex adjoints. On tensors the steps are operators, so they are recorded themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pullback.core.arrays import namespace
from pullback.core.tensor import Tensor
from pullback.operators.declare import OPERATORS
from pullback.operators.formula.formulas import expanded
from pullback.operators.formula.language import Expr, number_of, order, replaced, symbol
from pullback.operators.formula.special import of_arrays
from pullback.operators.formula.tracing import Traced, words
from pullback.operators.formula.words import WORDS

__all__ = ["Steps"]

_SIGNS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "neg": operator.neg, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "not": operator.invert,
}  # fmt: skip
_OWN = frozenset({"erf", "erfc"})
# Methods of tensors that have another name than the word.
_METHODS = {"recip": "reciprocal"}
_PLAIN = frozenset({float, int, bool, str, type(None)})  # options whose text tells them apart
_MOST = 128  # sets of options, as for kernels


class Steps:
    """An expression of tensors, which depends on options, as a function of both."""

    def __init__(
        self,
        tensors: tuple[str, ...],
        options: list[str],
        expression: Callable[[dict[str, Any]], Expr],
        name: str,
        choices: dict[str, tuple[Any, ...]],
    ) -> None:
        self.tensors, self.options, self.name = tensors, options, name
        self.choices = choices  # as its operator has them
        self.expression = expression  # of options by name; a tensor that is missing is one, too
        self._derived: dict[Any, tuple[Expr, list[Expr]]] = {}  # by options, with its steps

    def __call__(self, *args: Any, xp: Any = None) -> Any:
        """Its value, of tensors and then options."""
        given = dict(zip((*self.tensors, *self.options), args, strict=True))
        options = [name for name, one in given.items() if name in self.options or one is None]
        root, steps = self._of({name: getattr(o := given.pop(name), "expr", o) for name in options})
        if xp is words:
            return Traced(replaced(root, {symbol(name): one.expr for name, one in given.items()}))
        first = given[self.tensors[0]]
        if isinstance(first, Tensor):
            made = _evaluated(steps, _on_tensors(first), given)
            return made if isinstance(made, Tensor) else OPERATORS["zeros_of"].function(first)
        space = namespace(first) if xp is None else xp
        made = _evaluated(steps, _on_arrays(space, first.dtype), given)
        return space.zeros_like(first) if type(made) is float else made  # NumPy has its own

    def _of(self, options: dict[str, Any]) -> tuple[Expr, list[Expr]]:
        """The expression of these options and its steps, derived when they are first met."""
        if any(type(one) not in _PLAIN for one in options.values()):
            root = self.expression(options)
            return root, order(expanded(root, "", "", frozenset()))
        key = tuple([(name, repr(one)) for name, one in options.items()])  # -0.0 is not 0.0
        found = self._derived.get(key)
        if found is None:
            root = self.expression(options)
            found = root, order(expanded(root, "", "", frozenset()))
            if len(self._derived) < _MOST:
                self._derived[key] = found
        return found


def _evaluated(steps: list[Expr], functions: Any, given: dict[str, Any]) -> Any:
    known: dict[Expr, Any] = {}
    for one in steps:
        args = [known[arg] for arg in one.args]
        if one.word == "input":
            known[one] = given[one.note]
        elif one.word == "const":
            known[one] = number_of(one)
        elif one.word == "powi":
            known[one] = args[0] ** one.note
        else:
            known[one] = functions(one.word)(*args)
    return known[steps[-1]]


def _on_arrays(xp: Any, dtype: Any) -> Callable[[str], Callable[..., Any]]:
    """What computes a word on arrays of a library."""

    def choice(condition: Any, yes: Any, no: Any) -> Any:
        # Two numbers would be a choice in double.
        yes, no = (dtype.type(one) if type(one) is float else one for one in (yes, no))
        return xp.where(condition, yes, no)

    def function(word: str) -> Callable[..., Any]:
        if word in _OWN:
            return of_arrays(xp, word)
        if word == "where":
            return choice
        if word == "conj":
            made_conj: Callable[..., Any] = xp.conjugate
            return made_conj
        if word == "rsqrt":
            return lambda x: 1 / xp.sqrt(x)
        if word == "sigmoid":
            return lambda x: 1 / (1 + xp.exp(-x))
        made: Callable[..., Any] = _SIGNS.get(word) or getattr(xp, WORDS[word].numpy)
        return made

    return function


def _on_tensors(like: Tensor) -> Callable[[str], Callable[..., Any]]:
    """What computes a word on tensors, numbers among them."""

    def function(word: str) -> Callable[..., Any]:
        sign = _SIGNS.get(word)
        if sign is not None:
            return sign

        def call(*args: Any) -> Any:
            given = [one if isinstance(one, Tensor) else like.new_full((), one) for one in args]
            if word == "where":
                condition, yes, no = given
                return yes.where(condition, no)
            return getattr(given[0], _METHODS.get(word, word))(*given[1:])

        return call

    return function
