"""Modules of torch that are not here: importing them works, using them says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refused(module: str, why: str, instead: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that has nothing, and says so in a sentence.

    >>> refused("pullback.ao", "there are no kernels for it", "Use float16.")("quantize")
    Traceback (most recent call last):
    ...
    AttributeError: pullback.ao has no 'quantize': there are no kernels for it. Use float16.
    """

    def absent(name: str) -> NoReturn:
        raise AttributeError(f"{module} has no {name!r}: {why}. {instead}")

    return absent


def refusing(name: str, why: str, instead: str) -> Callable[..., NoReturn]:
    """A function that can be imported, and raises RuntimeError when called."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name} is not possible here: {why}. {instead}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Refused: {why}."
    return function
