"""Tensors of numbers of any type: fractions, decimals, long floats, intervals, formulas, your own.

`fractions.Fraction`, `decimal.Decimal`, mpmath's `mpf`, `mpc` and `iv.mpf`, python-flint's `fmpq`,
`arb` and `acb`, and SymPy's expressions need no registration. docs/numbers.md has the whole story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.dtype import dtype
from pullback.core.listing import only_public as _only_public

__all__ = ["functions_of", "register_numbers"]

__dir__ = _only_public(globals())


def register_numbers(
    cls: type,
    *,
    convert: Callable[[int], Any] | None = None,
    encloses: bool = False,
    rounds: bool = False,
    **functions: Callable[..., Any],
) -> dtype:
    """Let tensors hold numbers of a class, and say what their functions are.

    The class brings arithmetic (`+ - * /`, powers of ints), and comparisons where it has an order;
    the table brings all else, under torch's names: `exp=`, `log=`, `sqrt=`, `sin=`, `maximum=`,
    `erf=`, each a function of single numbers. Those that follow from others need not be given:
    `tanh`, `sigmoid` and `expm1` follow from `exp`. `pi=`, `inf=` and `nan=` are functions of
    nothing. For a class that is known already, the functions are added to its table, or replace
    what is there.

    Args:
        cls: The class of the numbers; from now on it is a dtype, too.
        convert: Makes a number of an int; the class itself if not given.
        encloses: Whether a number stands for a set that the true value is in, as an interval does.
            Then `a < b` is true only where it is certain, and what is not decided is an error.
        rounds: Whether results are rounded, so that elimination picks the largest pivot.
        **functions: The table.

    Returns:
        The dtype of tensors of such numbers.

    Example:
        >>> import pullback as torch
        >>> class Clock:  # whole numbers modulo 7
        ...     def __init__(self, n): self.n = n % 7
        ...     def __add__(self, other): return Clock(self.n + other.n)
        ...     def __mul__(self, other): return Clock(self.n * other.n)
        ...     def __sub__(self, other): return Clock(self.n - other.n)
        ...     def __repr__(self): return f"{self.n}"
        >>> torch.autograd.numbers.register_numbers(Clock)
        torch.numbers[Clock]
        >>> x = torch.tensor([3, 5], dtype=Clock, requires_grad=True)
        >>> (x * x * x).sum().backward()
        >>> x.grad  # 3 x^2 modulo 7
        tensor([6, 5], dtype=Clock)
    """
    from pullback.core.numbers.types import NumberType, enter, of_class

    if not isinstance(cls, type) or issubclass(cls, int | float | complex | str):
        raise TypeError(f"register_numbers: needs a class of numbers, got {cls!r}.")
    for name in ("__add__", "__mul__"):
        if not hasattr(cls, name):
            raise TypeError(
                f"register_numbers: {cls.__name__} has no {name}, without which its instances are "
                "no numbers."
            )
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"register_numbers: {name} must be a function, got {function!r}.")
    known = of_class(cls)
    if known is None or known.cls is not cls:
        made = NumberType(
            cls, convert or cls, encloses=encloses, rounds=rounds, functions=dict(functions)
        )
        return enter(made).dtype
    if convert is not None:
        known.convert = convert
    known.encloses, known.rounds = known.encloses or encloses, known.rounds or rounds
    known.functions.update(functions)
    known.made.clear()  # what was derived may now be derived from these
    return known.dtype


def functions_of(cls: type) -> list[str]:
    """The names of all functions that numbers of a class have, those included that follow.

    Example:
        >>> import pullback as torch
        >>> from fractions import Fraction
        >>> "floor" in torch.autograd.numbers.functions_of(Fraction)
        True
        >>> "exp" in torch.autograd.numbers.functions_of(Fraction)
        False
    """
    from pullback.core.numbers.functions import names
    from pullback.core.numbers.types import of_class

    numbers = of_class(cls)
    if numbers is None:
        raise TypeError(f"functions_of: {cls!r} is no registered class of numbers.")
    return names(numbers)
