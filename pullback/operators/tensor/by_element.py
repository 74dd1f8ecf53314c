"""A Python function for each element: apply_, map_ and map2_. Slow, and without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.device import META
from pullback.core.errors import not_a_tensor
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.data import copied
from pullback.operators.declare import method
from pullback.operators.shape.reshaping import broadcast_to, reshape

FOUND_IN = {"Tensor": "apply_ map_ map2_"}


@method
def apply_(input: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by what `callable` makes of it, a Python number.

    >>> import pullback as torch
    >>> torch.tensor([1.0, 2.0]).apply_(lambda x: x + 1)
    tensor([2., 3.])
    """
    return _each("apply_", input, (), callable)


@method
def map_(input: Any, other: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element by what `callable` makes of it and of that of `other` in its place.

    >>> import pullback as torch
    >>> torch.tensor([1.0, 2.0]).map_(torch.tensor([10.0, 20.0]), lambda x, y: x + y)
    tensor([11., 22.])
    """
    return _each("map_", input, (other,), callable)


@method
def map2_(input: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """`map_` with two other tensors.

    >>> import pullback as torch
    >>> one = torch.ones(2)
    >>> one.map2_(one, one, lambda x, y, z: x + y + z)
    tensor([3., 3.])
    """
    return _each("map2_", input, (x, y), callable)


def _each(op: str, input: Any, others: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    for other in others:
        if not isinstance(other, Tensor):
            raise not_a_tensor(op, "other", other)
        if other.dtype != input.dtype:
            raise TypeError(f"{op}: all must have one dtype, got {input.dtype} and {other.dtype}.")
    if any(one.requires_grad for one in (input, *others)):
        raise RuntimeError(
            f"{op}: a Python function has no gradient, and this tensor requires one; use detach()."
        )
    if input.device is META:
        return input
    spread = [input, *(broadcast_to(other, input.shape) for other in others)]
    values = [reshape(one.detach(), (-1,)).tolist() for one in spread]
    made = [_as_number(op, function(*each)) for each in zip(*values, strict=True)]
    array = copied(op, made, input._array.dtype).reshape(input._array.shape)
    input.detach().copy_(wrap(array))
    return input


def _as_number(op: str, value: Any) -> Any:
    value = value.item() if isinstance(value, Tensor) else value
    if isinstance(value, bool | int | float | complex) or hasattr(value, "__float__"):
        return value
    raise TypeError(f"{op}: the function must give numbers, got {type(value).__name__}.")
