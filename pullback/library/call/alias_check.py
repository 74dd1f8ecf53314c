"""No result of an operator shares memory with an argument or another result, unless declared.

Autograd gives each result a history of its own; two names for one memory would make it lie.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.library.call.returns import flat
from pullback.library.registry import Operator
from pullback.operators.arrays.strides import root


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
    fresh = _undeclared(operator, result)
    if not fresh:
        return
    given = [one for one in flat(tuple(args)) if isinstance(one, Tensor)]
    # By owner of the memory: a set, so that many results cost no more than each one.
    owners, is_foreign = _owners(given)
    for number, tensor in enumerate(fresh):
        array = tensor._array
        if any(tensor is one for one in given):
            raise _shared(operator, module, number, "an argument")
        if array.size == 0:
            continue
        owner = array if array.base is None else root(array)
        what = owners.get(id(owner))
        if what is not None:
            raise _shared(operator, module, number, what)
        owners[id(owner)] = "another result"
        is_foreign |= owner.base is not None
    if is_foreign:
        _check_pairs(operator, given, fresh, module)


def _undeclared(operator: Operator, result: Any) -> list[Tensor]:
    """The results of which the schema does not say that they share memory."""
    returns = operator.schema.returns
    if isinstance(result, Tensor):
        return [] if returns[0].alias_info is not None else [result]
    results = result if isinstance(result, tuple) else (result,)
    fresh: list[Tensor] = []
    for number, value in enumerate(results):
        declared = returns[number].alias_info if number < len(returns) else None
        if declared is None:
            fresh += [one for one in flat(value) if isinstance(one, Tensor)]
    return fresh


def _owners(tensors: list[Tensor]) -> tuple[dict[int, str], bool]:
    """Who owns the memory of arguments, and whether any of it belongs to no array."""
    owners: dict[int, str] = {}
    is_foreign = False
    for tensor in tensors:
        array = tensor._array
        if array.size == 0:
            continue
        owner = array if array.base is None else root(array)
        owners[id(owner)] = "an argument"
        is_foreign |= owner.base is not None
    return owners, is_foreign


def _check_pairs(operator: Operator, given: list[Tensor], fresh: list[Tensor], module: str) -> None:
    """Memory that belongs to no array (ctypes, memoryview) is compared by address."""
    for number, tensor in enumerate(fresh):
        if any(shares_memory(tensor._array, other._array) for other in given):
            raise _shared(operator, module, number, "an argument")
        if any(shares_memory(tensor._array, other._array) for other in fresh[:number]):
            raise _shared(operator, module, number, "another result")


def _shared(operator: Operator, module: str, number: int, what: str) -> RuntimeError:
    return RuntimeError(
        f"{operator.qualname} (implemented in {module}): result {number} shares memory with {what},"
        " and the schema does not say so. A result must have memory of its own; return a clone of "
        "it (`x.clone()`), or leave it out of the returns if the argument is what was changed."
    )
