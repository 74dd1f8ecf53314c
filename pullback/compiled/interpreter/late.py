"""Numbers that are inputs of a program: what the function makes of them is an expression.

A counter that each call writes anew, or a number that a tensor gave, would be another value at each
call. So it is read as a number that remembers where it comes from (as sizes do, sizes/sized.py):
arithmetic carries the expression along, comparisons are written down as decisions, an operator
takes it as an input of no dimensions. Whatever else looks at it (an index, a text, a call of native
code) *pins* it: the program is for numbers that give this value there.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.sources import Source, same_value
from pullback.compiled.sizes.places import is_word
from pullback.compiled.sizes.sized import Ledger, Sized, SizedFloat, plain

__all__ = ["Late", "Numbers", "is_late", "mentions_late"]


def is_late(value: Any) -> bool:
    """Whether it is a number that is an input of the program."""
    return value.__class__ in (Sized, SizedFloat) and value.ledger.__class__ is Late


def mentions_late(value: Any) -> bool:
    """Whether such a number is in it, at any depth."""
    if value.__class__ in (tuple, list):
        return any(map(mentions_late, value))
    if value.__class__ is dict:
        return any(map(mentions_late, value)) or any(map(mentions_late, value.values()))
    return is_late(value)


class Late(Ledger):
    """The numbers of one capture that are inputs, and what was decided by them."""

    def __init__(self) -> None:
        super().__init__({})
        self.sources: list[tuple[Source, type]] = []
        self.numbers: dict[Any, str] = {}  # by key of the source
        self.pins: dict[str, Any] = {}

    def is_asked_by_user(self, file: str) -> bool:
        """Whoever decides by it: a program must decide alike."""
        return True

    def number(self, value: Any, source: Source) -> Any:
        """A number that was read at a source."""
        text = self.numbers.get(source.key)
        if text is None:
            text = self.numbers[source.key] = f"n{len(self.sources)}"
            self.sources.append((source, type(value)))
        return (Sized if type(value) is int else SizedFloat)(value, text, self)

    def pinned(self, value: Any) -> Any:
        """A number as native code may have it: the program is for this value."""
        if is_late(value):
            exact = plain(value)
            if exact != exact:
                raise CannotCapture("a number that is NaN, and that native code looks at")
            self.pins[value.text] = exact
            return exact
        if value.__class__ is slice and any(map(is_late, (value.start, value.stop, value.step))):
            return slice(*map(self.pinned, (value.start, value.stop, value.step)))
        if value.__class__ in (tuple, list) and any(map(mentions_late, value)):
            return value.__class__(map(self.pinned, value))
        if value.__class__ is dict and mentions_late(value):
            return {self.pinned(key): self.pinned(one) for key, one in value.items()}
        return value

    def converted(self, kind: type, value: Any) -> Any:
        """`int(value)` or `float(value)`."""
        made = kind(plain(value))
        return (Sized if kind is int else SizedFloat)(made, f"{kind.__name__}({value.text})", self)


class Numbers:
    """The numbers of later calls: checked against decisions and pins, and put in expressions."""

    def __init__(self, late: Late, wanted: list[Any]) -> None:
        """`wanted`: numbers made by the function, each with its expression."""
        self.kinds = [kind for _, kind in late.sources]
        names = ", ".join(f"n{place}" for place in range(len(self.kinds)))
        decided = [f"({text}) is {outcome}" for text, outcome in late.decisions.items()]
        # Numbers that are part of an expression stand there as Python writes them.
        scope: dict[str, Any] = {"same_value": same_value, "inf": math.inf, "nan": math.nan}
        for place, (text, value) in enumerate(late.pins.items()):
            scope[f"pin{place}"] = value
            decided.append(f"same_value({text}, pin{place})")
        self.texts = list(dict.fromkeys(one.text for one in wanted))
        self.made = [type(plain(one)) for one in {one.text: one for one in wanted}.values()]
        values = "".join(f"{text}, " for text in self.texts)
        self._fits = eval(f"lambda {names}: {' and '.join(decided) or 'True'}", scope)
        self._values = eval(f"lambda {names}: ({values})", scope)

    def place(self, number: Any) -> int:
        """Where the value of a number of the capture stands."""
        return self.texts.index(number.text)

    def values(self, given: list[Any]) -> tuple[Any, ...] | None:
        """What the function makes of these numbers; None where it would go another way."""
        if list(map(type, given)) != self.kinds:
            return None
        try:
            if not self._fits(*given):
                return None
            made: tuple[Any, ...] = self._values(*given)
        except (ArithmeticError, ValueError, TypeError):  # eager raises it, or not
            return None
        fits = list(map(type, made)) == self.made and all(map(is_word, made))
        return made if fits else None
