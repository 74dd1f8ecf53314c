"""No result of an operator shares memory with an argument or another result, unless declared.

Autograd gives each result a history of its own; two names for one memory would make it lie.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.library.registry import Operator
from pullback.library.returns import flat
from pullback.operators.strides import root


def shares_memory(one: Any, other: Any) -> bool:
    """Whether two arrays lie on one memory, disjoint parts of it included; empty ones never do."""
    if one.size == 0 or other.size == 0:
        return False
    if one is other or root(one) is root(other):
        return True
    if type(one) is not numpy.ndarray or type(other) is not numpy.ndarray:
        return False
    # A buffer can reach NumPy by ways that leave no base behind: ctypes, memoryview.
    return numpy.may_share_memory(one, other)


def check(operator: Operator, args: Any, result: Any, module: str) -> None:
    """Refuse a result that shares memory although the schema does not say so."""
    returns = operator.schema.returns
    results = result if isinstance(result, tuple) else (result,)
    fresh: list[Tensor] = []
    for number, value in enumerate(results):
        declared = returns[number].alias_info if number < len(returns) else None
        if declared is None:
            fresh += [one for one in flat(value) if isinstance(one, Tensor)]
    if not fresh:
        return
    given = [one for one in flat(tuple(args)) if isinstance(one, Tensor)]
    for number, tensor in enumerate(fresh):
        for other in given:
            if tensor is other or shares_memory(tensor._array, other._array):
                raise _shared(operator, module, number, "an argument")
        for other in fresh[:number]:
            if tensor is other or shares_memory(tensor._array, other._array):
                raise _shared(operator, module, number, "another result")


def _shared(operator: Operator, module: str, number: int, what: str) -> RuntimeError:
    return RuntimeError(
        f"{operator.qualname} (implemented in {module}): result {number} shares memory with {what},"
        " and the schema does not say so. A result must have memory of its own; return a clone of "
        "it (`x.clone()`), or leave it out of the returns if the argument is what was changed."
    )
