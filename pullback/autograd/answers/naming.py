"""What the leaves of a graph are called in the user's program."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pullback.core.node import walk
from pullback.core.origin import getframe, user_frame
from pullback.core.tensor import Tensor

__all__ = ["names_in_program"]


def names_in_program(edges: Iterable[Any], others: Iterable[Any] = ()) -> dict[int, str]:
    """Names of leaves: the variables of the caller, and the parameters of its modules."""
    found = (getattr(node, "variable", None) for node in walk(iter(edges)))
    leaves = {id(leaf) for leaf in (*found, *others) if leaf is not None}
    frame = user_frame(getframe(1))
    names: dict[int, str] = {}
    if frame is None:
        return names
    variables = frame.f_locals
    for scope in (variables, frame.f_globals):
        for name, value in list(scope.items()):
            if name.startswith("_"):
                continue
            for inner, tensor in _tensors_in(value):
                if id(tensor) in leaves:
                    names.setdefault(id(tensor), name + inner)
    # Before Python 3.13 a frame keeps this copy of its variables, which would hold the graph after
    # the user let go of it; the next who asks gets a new one.
    if type(variables) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        variables.clear()
    return names


def _tensors_in(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Tensor):
        return [("", value)]
    if isinstance(value, list | tuple) and len(value) < 1000:
        return [(f"[{i}]{more}", t) for i, one in enumerate(value) for more, t in _shallow(one)]
    if type(value) is dict and len(value) < 1000:
        return [(f"[{key!r}]", one) for key, one in value.items() if isinstance(one, Tensor)]
    return _shallow(value)


def _shallow(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Tensor):
        return [("", value)]
    if isinstance(value, list | tuple) and len(value) < 100:
        return [(f"[{i}]", one) for i, one in enumerate(value) if isinstance(one, Tensor)]
    if not isinstance(value, type) and hasattr(type(value), "named_parameters"):
        return [("." + name, one) for name, one in value.named_parameters()]
    return []
