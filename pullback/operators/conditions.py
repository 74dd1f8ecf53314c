"""Conditions of kernels, as data: what a kernel needs of a call to be the one that runs.

    few = at_most(1024)
    @sum.kernel(when=few & flat & floating)
    def _short(input, input_size): ...

A condition knows its text, which the writer puts into the function that chooses
(`choice.py`), and the sizes at which its answer changes, around which
`tests/operators/test_kernels.py` tries the kernel. `&`, `|` and `~` make conditions of conditions.

Text is about parameters of the operator and about facts of its tensors, which have the names that
rules know: `input_shape`, `weight_dtype`, and `_size`, `_ndim`. `@` is the operator's first tensor,
or the one that `of` names. A family may have facts of its own (`fact`), worked out when asked for.
"""

from __future__ import annotations

import re
from typing import Any

import numpy

from pullback.core.arrays import F32, F64

__all__ = [
    *("FACTS", "Condition", "above", "always", "at_least", "at_most", "below", "contiguous"),
    *("fact", "flat", "floating", "given", "has_dims", "host", "matrix", "may_run", "not_empty"),
    *("real", "says"),
]

FACTS = ("shape", "dtype", "size", "ndim")


class Condition:
    """Questions that are all answered with yes.

    `limits` are numbers at which an answer changes, with the text that is compared to them, `facts`
    names for expressions.
    """

    __slots__ = ("facts", "limits", "questions", "scope")

    def __init__(
        self,
        *questions: str,
        limits: tuple[tuple[str, int], ...] = (),
        scope: dict[str, Any] | None = None,
        facts: dict[str, str] | None = None,
    ) -> None:
        self.questions = questions
        self.limits = limits
        self.facts = facts or {}
        self.scope = scope or {}  # what questions name besides parameters and facts

    def __and__(self, other: Condition) -> Condition:
        questions = tuple(dict.fromkeys((*self.questions, *other.questions)))
        return self._joined(other, *questions)

    def __or__(self, other: Condition) -> Condition:
        return self._joined(other, f"({_one(self)} or {_one(other)})")

    def __invert__(self) -> Condition:
        question = f"not {_one(self)}"
        return Condition(question, limits=self.limits, scope=self.scope, facts=self.facts)

    def _joined(self, other: Condition, *questions: str) -> Condition:
        limits = tuple(dict.fromkeys((*self.limits, *other.limits)))
        scope, facts = {**self.scope, **other.scope}, {**self.facts, **other.facts}
        return Condition(*questions, limits=limits, scope=scope, facts=facts)

    def of(self, name: str) -> Condition:
        """The same about another tensor of the operator."""
        questions = [one.replace("@", name) for one in self.questions]
        limits = tuple((what.replace("@", name), n) for what, n in self.limits)
        facts = {known: text.replace("@", name) for known, text in self.facts.items()}
        return Condition(*questions, limits=limits, scope=self.scope, facts=facts)

    def __repr__(self) -> str:
        return " and ".join(self.questions) or "always"

    def names(self) -> set[str]:
        """All names in its text that are no attributes."""
        text = re.sub(r"'[^']*'", "", " ".join([*self.questions, *self.facts.values()]))
        return set(re.findall(r"(?<![\w.])[^\W\d]\w*", text)) - {*self.facts}


def _one(condition: Condition) -> str:
    """A condition as one question."""
    text = repr(condition)
    return text if re.fullmatch(r"[\w.@]+", text) or _is_enclosed(text) else f"({text})"


def _is_enclosed(text: str) -> bool:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[0] == "(" and place == len(text) - 1
    return False


always = Condition()
host = Condition("xp is numpy", scope={"numpy": numpy})
flat = Condition("@_ndim == 1")
matrix = Condition("@_ndim == 2")
has_dims = Condition("@_ndim")
not_empty = Condition("@_size")
floating = Condition("(@_dtype is F32 or @_dtype is F64)", scope={"F32": F32, "F64": F64})
real = Condition("@_dtype.kind == 'f'")
contiguous = Condition("@.flags.c_contiguous")


# Without `input`, which is a tensor here.
_BUILT_IN = {"__builtins__": {"len": len, "type": type, "int": int, "float": float}}


def may_run(condition: Condition, options: dict[str, Any]) -> bool:
    """Whether a kernel may run where options are these: no question about them alone says no."""
    for question in condition.questions:
        try:
            if not eval(question, _BUILT_IN, {**condition.scope, **options}):  # our own text
                return False
        except (NameError, TypeError):  # about tensors, or what has to be given
            continue
    return True


def at_most(number: int, what: str = "@_size") -> Condition:
    """Up to `number` elements, or up to that of `what`."""
    return Condition(f"{what} <= {number}", limits=((what, number),))


def below(number: int, what: str = "@_size") -> Condition:
    """Fewer than `number` elements, or `what` is below it."""
    return Condition(f"{what} < {number}", limits=((what, number),))


def at_least(number: int, what: str = "@_size") -> Condition:
    """From `number` elements on, or from there on of `what`."""
    return Condition(f"{what} >= {number}", limits=((what, number),))


def above(number: int, what: str = "@_size") -> Condition:
    """More than `number` elements, or `what` is above it."""
    return Condition(f"{what} > {number}", limits=((what, number),))


def given(**options: Any) -> Condition:
    """Options that are these very values: None, True, False; or equal others."""
    asked = []
    for name, value in options.items():
        is_single = value is None or value is True or value is False
        asked.append(f"{name} {'is' if is_single else '=='} {value!r}")
    return Condition(*asked)


def fact(name: str, text: str, **scope: Any) -> Condition:
    """No question, but a name for an expression that questions and kernels of these may use."""
    return Condition(facts={name: text}, scope=scope)


def says(*questions: str, **scope: Any) -> Condition:
    """Questions in their own words, each one an expression; `scope`: what else they name."""
    return Condition(*questions, scope=scope)
