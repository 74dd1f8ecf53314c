"""Cutting batches into parts, and joining results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.shape.joining import cat

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Cut tensors, in whatever they are nested, into a part for each device.

    >>> import pullback as torch
    >>> torch.nn.parallel.scatter(torch.arange(4), ["cpu"])
    (tensor([0, 1, 2, 3]),)
    """
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        return inputs.chunk(count, dim)
    if isinstance(inputs, tuple | list) and inputs:
        parts = list(zip(*(scatter(one, target_gpus, dim) for one in inputs), strict=False))
        make: Any = getattr(type(inputs), "_make", type(inputs))
        return [make(part) for part in parts]
    if isinstance(inputs, dict) and inputs:
        values = list(zip(*scatter(list(inputs.values()), target_gpus, dim), strict=False))
        return [type(inputs)(zip(inputs, part, strict=True)) for part in zip(*values, strict=True)]
    return [inputs] * count


def scatter_kwargs(
    inputs: Any, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and keyword arguments for each device; as many of both."""
    given = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    given += [()] * (len(named) - len(given))
    named += [{}] * (len(given) - len(named))
    return tuple(given), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Join what the devices gave, in whatever it is nested.

    >>> import pullback as torch
    >>> torch.nn.parallel.gather([torch.ones(1), torch.zeros(1)], "cpu")
    tensor([1., 0.])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [one.unsqueeze(0) if one.ndim == 0 else one for one in outputs]
        return cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([one[key] for one in outputs], target_device, dim)) for key in first
        )
    make: Any = getattr(type(first), "_make", type(first))
    return make([gather(list(each), target_device, dim) for each in zip(*outputs, strict=True)])


__dir__ = _only_public(globals())
