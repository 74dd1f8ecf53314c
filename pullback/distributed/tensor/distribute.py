"""`distribute_module`: the parameters of a module over a mesh, and what goes in and out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.distributed.device_mesh import DeviceMesh, _mesh_resources
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.dtensor import DTensor, distribute_tensor

if TYPE_CHECKING:
    from pullback.nn.modules.module import Module

__all__ = ["distribute_module"]


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Let a module's parameters and buffers lie over a mesh.

    `partition_fn(name, module, mesh)` is called for every module in it, and replaces parameters as
    it likes; what it leaves is put whole on each rank, with the first rank's values. `input_fn` and
    `output_fn` take what goes into the module, and what comes out.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_module, distribute_tensor
    >>> def by_columns(name, module, mesh):
    ...     if isinstance(module, torch.nn.Linear):
    ...         module.weight = torch.nn.Parameter(
    ...             distribute_tensor(module.weight, mesh, [Shard(0)]))
    >>> def parted():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     model = distribute_module(torch.nn.Linear(3, 4), mesh, by_columns)
    ...     return model.weight.placements, model.bias.placements
    >>> dist.threads.run(parted, 2)[0]
    ((Shard(dim=0),), (Replicate(),))
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if vars(module).get("_distribute_module_applied"):
        raise RuntimeError(
            "distribute_module was called for this module already; call it once, with a "
            "partition_fn that does everything."
        )
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, mesh)
        _put_whole(inner, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda inner, args: input_fn(inner, args, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda inner, args, output: output_fn(inner, output, mesh))
    vars(module)["_distribute_module_applied"] = True
    return module


def _put_whole(module: Module, mesh: DeviceMesh) -> None:
    from pullback.nn.parameter import Parameter  # late: who wants the class alone needs no modules

    everywhere = layouts.everywhere(mesh)
    for name, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            made = distribute_tensor(parameter.detach(), mesh, everywhere)
            module._parameters[name] = Parameter(made, requires_grad=parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, everywhere)
