"""Steps of parameters on a device, each in one launch, where there is a kernel for the algorithm.

An optimizer names how to run it (`_on_device`): a function of the device's kernels, the arrays and
the options. Whatever is not usual about a parameter, its gradient or its state (another dtype,
other strides, options that are tensors) is left to the rule in operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.node import Leaf
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump_all

__all__ = ["DeviceStep", "step_on_device"]

# (kernels, x, g, arrays of the state by name, options, state) -> whether it ran
DeviceStep = Callable[[Any, Any, Any, dict[str, Any], dict[str, Any], dict[str, Any]], bool]

_TYPES = "fd"


def step_on_device(
    run: DeviceStep, params: list[Any], grads: list[Any], states: Any, options: dict[str, Any],
    name: str,
) -> list[int]:  # fmt: skip
    """Step what can be; the numbers of the others are returned."""
    if any(isinstance(one, Tensor) for one in _flat(options)):
        return list(range(len(params)))
    left, done = [], []
    for number, (p, g) in enumerate(zip(params, grads, strict=True)):
        state = states.get(p) or {}
        kernels = _kernels_for(p, g, state)
        if kernels is None:
            left.append(number)
            continue
        arrays = {key: one._array for key, one in state.items()}
        if run(kernels, p._array, g._array, arrays, options, state):
            done.append(p)
        else:
            left.append(number)
    if done:
        bump_all(done, name)
    return left


def _flat(options: dict[str, Any]) -> Any:
    for name, value in options.items():
        if name != "params":
            yield from value if isinstance(value, tuple) else (value,)


def _kernels_for(p: Any, g: Any, state: dict[str, Any]) -> Any:
    """The kernels of a parameter's device; None where something about it is not usual."""
    array = p._array
    library: Any = LIBRARIES.get(type(array))
    if library is None or not library.updates.is_there or library.count > 1:
        return None
    if type(p)._array is not Tensor._array or p._cell is INFERENCE_CELL:
        return None
    if p._node is not None and p._node.__class__ is not Leaf:
        return None
    if not _fits(array, array, library) or not _fits(g._array, array, library):
        return None
    for one in state.values():
        if type(one) is not Tensor or one._node is not None or one._cell is INFERENCE_CELL:
            return None
        if one._array.ndim and not _fits(one._array, array, library):
            return None
    return library.updates


def _fits(array: Any, like: Any, library: Any) -> bool:
    return (
        type(array) is type(like)
        and array.dtype is like.dtype
        and array.dtype.char in _TYPES
        and array.shape == like.shape
        and bool(array._c_contiguous)
        and array.size > 0
    )
