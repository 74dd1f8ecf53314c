"""Functions that ask somebody before their own code runs: where that code is meanwhile.

Its own file because both who writes code (`build`) and who lets functions ask
(`dispatch/intercept`) need it.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

__all__ = ["LAYERS", "Layer", "code_of", "own_of", "put"]


class Layer:
    """What stands before a function's own code: who asks first and then calls `plain`."""

    __slots__ = ("plain",)

    def __init__(self, plain: FunctionType) -> None:
        self.plain: Any = plain  # Any: mypy takes a function on an instance for a method


# Functions whose own code is in the layer's `plain` for now.
LAYERS: dict[FunctionType, Layer] = {}


def put(function: FunctionType, code: CodeType) -> None:
    """Give a function its own code, beneath whatever layer is before it."""
    layer = LAYERS.get(function)
    if layer is None:
        function.__code__ = code
        return
    plain = layer.plain
    plain.__defaults__, plain.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    plain.__code__ = code


def code_of(function: FunctionType) -> CodeType:
    """A function's own code, whatever layer is before it."""
    code: CodeType = own_of(function).__code__
    return code


def own_of(function: FunctionType) -> Any:
    """What has a function's own code and defaults, whatever layer is before it."""
    layer = LAYERS.get(function)
    return function if layer is None else layer.plain
