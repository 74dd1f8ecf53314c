"""Functions that differ in a number or a name: a factory makes them, and each gets its own name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

__all__ = ["named"]


def named(name: str, function: Callable[..., Any], doc: str) -> Any:
    """A function that a factory made, with the name it is found by and a docstring of its own.

    >>> def times(factor):
    ...     def multiply(x):
    ...         return factor * x
    ...
    ...     return multiply
    >>> double = named("double", times(2), "Twice as much.")
    >>> double(3), double.__name__, double.__doc__
    (6, 'double', 'Twice as much.')
    """
    function.__name__ = function.__qualname__ = name
    function.__doc__ = cleandoc(doc)
    # What a traceback shows.
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function
