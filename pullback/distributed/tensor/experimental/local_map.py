"""`local_map`: a function of plain tensors, called with each rank's parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import Placement, normalized
from pullback.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["local_map"]

_Placements = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: tuple[_Placements, ...] | None = None,
    in_grad_placements: tuple[_Placements, ...] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Let a function that knows plain tensors alone take DTensors: it gets this rank's parts.

    `out_placements` says how its results lie: a sequence for all, or a tuple of one for each. Where
    inputs do not lie as `in_placements` says, they are moved, if `redistribute_inputs` allows it.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_tensor
    >>> from pullback.distributed.tensor.experimental import local_map
    >>> def doubled():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     x = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    ...     twice = local_map(lambda part: part * 2, [Shard(0)], ([Shard(0)],))
    ...     return twice(x).full_tensor().tolist()
    >>> dist.threads.run(doubled, 2)[0]
    [2.0, 2.0, 2.0, 2.0]
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, form = tree_flatten(args)
        for given, what in ((in_placements, "in"), (in_grad_placements, "in_grad")):
            if given is not None and len(given) != len(flat):
                raise ValueError(
                    f"local_map: {what}_placements has {len(given)} for {len(flat)} inputs."
                )
        mesh = device_mesh
        for number, one in enumerate(flat):
            if not isinstance(one, DTensor):
                continue
            mesh = mesh or one.device_mesh
            wanted = None if in_placements is None else in_placements[number]
            if wanted is not None:
                one = _as_wanted(one, wanted, moves=redistribute_inputs)
            gradients = None if in_grad_placements is None else in_grad_placements[number]
            flat[number] = one.to_local(grad_placements=gradients)
        out = func(*tree_unflatten(flat, form), **kwargs)
        return out if mesh is None else _spread(out, mesh, out_placements)

    return mapped


def _as_wanted(one: DTensor, wanted: Sequence[Placement], *, moves: bool) -> DTensor:
    where = normalized(wanted, one.device_mesh, one.ndim)
    if where == one.placements:
        return one
    if not moves:
        raise ValueError(
            f"local_map: an input lies as {one.placements}, not as {where}; redistribute it, or "
            "say redistribute_inputs=True."
        )
    return one.redistribute(placements=where)


def _spread(out: Any, mesh: DeviceMesh, placements: Any) -> Any:
    flat, form = tree_flatten(out)
    each = placements
    if not isinstance(placements, tuple) or all(isinstance(p, Placement) for p in placements):
        each = (placements,) * len(flat)
    if len(each) != len(flat):
        raise ValueError(f"local_map: out_placements has {len(each)} for {len(flat)} results.")
    made = []
    for one, where in zip(flat, each, strict=True):
        if isinstance(one, Tensor) and where is not None:
            one = DTensor.from_local(one, mesh, where)
        made.append(one)
    return tree_unflatten(made, form)
