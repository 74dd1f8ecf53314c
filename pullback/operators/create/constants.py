"""Tables, masks and weights that our own compositions bring along, where their operands are."""

from __future__ import annotations

from numpy import ndarray

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap

__all__ = ["constant_like"]


def constant_like(tensor: Tensor, array: Array) -> Tensor:
    """An array of ours as a tensor on the device of `tensor`: without data if that has none."""
    if type(tensor._array) is ndarray:
        return wrap(array)
    if type(tensor._array) in LIBRARIES:
        return wrap(ports.placed(array, tensor.device))
    from pullback.core.memory.meta import MetaArray, like

    return wrap(like(array)) if type(tensor._array) is MetaArray else wrap(array)
