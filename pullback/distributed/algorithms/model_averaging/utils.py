"""Averages of parameters over ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.distributed.collectives import all_reduce_coalesced
from pullback.distributed.reduction import ReduceOp

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Replace parameters by their means over the ranks of a group.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.algorithms.model_averaging.utils import average_parameters
    >>> def mean():
    ...     p = torch.nn.Parameter(torch.tensor([float(dist.get_rank())]))
    ...     average_parameters([p], None)
    ...     return p.item()
    >>> dist.threads.run(mean, 2)
    [0.5, 0.5]
    """
    by_dtype: dict[Any, list[Tensor]] = {}
    for one in params:
        by_dtype.setdefault(one.dtype, []).append(one)
    for members in by_dtype.values():
        values = [wrap(one._array) for one in members]
        all_reduce_coalesced(values, ReduceOp.AVG, process_group)
        for one, value in zip(members, values, strict=True):
            one.data.copy_(value)  # counts the write


def get_params_to_average(params: Iterable[Tensor] | Iterable[dict[str, Any]]) -> list[Tensor]:
    """Those of parameters, or of an optimizer's groups, that have a gradient."""
    found: list[Tensor] = []
    for one in params:
        members = [one] if isinstance(one, Tensor) else one["params"]
        found += [tensor for tensor in members if tensor.grad is not None]
    return found


def average_parameters_or_parameter_groups(
    params: Iterable[Tensor] | Iterable[dict[str, Any]], process_group: Any
) -> None:
    """`average_parameters` of those that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)


__dir__ = _only_public(globals())
