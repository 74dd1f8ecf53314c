"""`torch.distributed.tensor.parallel.api`: styles, by the names of a model's modules."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from pullback.core import origin
from pullback.distributed.device_mesh import DeviceMesh, _mesh_resources
from pullback.distributed.tensor.parallel.style import ParallelStyle
from pullback.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Share a module's matrices out over a mesh of one dimension, as a plan says.

    The plan is a style, or styles by names of modules, in which `*` stands for one part of a name.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> def shared():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     model = torch.nn.Sequential(torch.nn.Linear(2, 4))
    ...     parallelize_module(model, mesh, {"0": ColwiseParallel()})
    ...     return model[0].weight.to_local().shape
    >>> dist.threads.run(shared, 2)[0]
    torch.Size([2, 2])
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module takes a mesh of one dimension, got {mesh}: mesh['tp'] is a part."
        )
    if parallelize_plan is None:
        _warn("no plan was given: the module stays as it is.")
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"A plan is a ParallelStyle or a dict of them, got {type(parallelize_plan).__name__}."
        )
    for pattern, style in parallelize_plan.items():
        found = [module] if not pattern else _named(module, pattern.split("."))
        if not found:
            _warn(f"no module is called {pattern!r}: it is left out.")
        for inner in found:
            parallelize_module(inner, mesh, style, src_data_rank=src_data_rank)
    return module


def _named(module: Module, parts: list[str]) -> list[Module]:
    found = [module]
    for part in parts:
        found = [
            child for one in found for name, child in one.named_children() if fnmatch(name, part)
        ]
    return found


def _warn(text: str) -> None:
    warnings.warn(f"parallelize_module: {text}", UserWarning, stacklevel=origin.stacklevel())
