"""`torch.onnx.symbolic_helper`: the decorator with which libraries describe arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

__all__ = ["parse_args"]

F = TypeVar("F", bound=Callable[..., Any])


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """Note the kinds of a function's arguments ("v" a value, "f" a float and so on).

    >>> @parse_args("v", "f")
    ... def scaled(g, x, factor): ...
    >>> scaled._arg_descriptors
    ('v', 'f')
    """

    def describe(function: F) -> F:
        function._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]  # a note
        return function

    return describe


refuse_others(globals())
__dir__ = _only_public(globals())
