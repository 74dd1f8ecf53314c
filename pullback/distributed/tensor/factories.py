"""Tensors that are made in parts: each rank makes its own, so that no rank needs the whole.

Random ones are those of the whole, so that they do not depend on the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pullback.core.layout import strided
from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh, _mesh_resources
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.drawing import everywhere_alike
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import Placement, normalized
from pullback.operators.create import sizes
from pullback.operators.random import tensors as random

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]

_Where = Sequence[Placement] | None
_Asked = tuple[Any, Any, bool]  # dtype, layout, requires_grad


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    listed = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return tuple(int(one) for one in listed)


def _placed(
    size: tuple[Any, ...], mesh: DeviceMesh | None, where: _Where, layout: Any
) -> tuple[tuple[int, ...], DeviceMesh, tuple[Placement, ...]]:
    if layout not in (None, strided):
        raise AssertionError(f"Tensors that lie over a mesh are strided; layout={layout} is not.")
    shape = _shape(size)
    mesh = _mesh_resources.get_current_mesh() if mesh is None else mesh
    given = layouts.everywhere(mesh) if where is None else where
    placements = normalized(given, mesh, len(shape))
    if any(one.is_partial() for one in placements):
        raise ValueError("A tensor is made whole or in parts, not as partial sums.")
    return shape, mesh, placements


def _made(
    make: Callable[..., Tensor], size: tuple[Any, ...], where: tuple[Any, Any], asked: _Asked
) -> DTensor:
    """A tensor whose parts are made where they are."""
    dtype, layout, requires_grad = asked
    shape, mesh, placements = _placed(size, *where, layout)
    part = make(layouts.local_shape(shape, mesh, placements)[0], dtype=dtype)
    return DTensor(part, mesh, placements, shape, requires_grad)


def _drawn(
    make: Callable[..., Tensor], size: tuple[Any, ...], where: tuple[Any, Any], asked: _Asked
) -> DTensor:
    """A tensor of which every rank draws the whole, and keeps its part."""
    dtype, layout, requires_grad = asked
    shape, mesh, placements = _placed(size, *where, layout)
    whole = everywhere_alike(lambda: make(shape, dtype=dtype), mesh)
    part = layouts.part_of(whole, mesh, placements)
    return DTensor(part, mesh, placements, shape, requires_grad)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """Zeros that lie over a mesh.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, zeros
    >>> def part():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return zeros(3, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape
    >>> dist.threads.run(part, 2)
    [torch.Size([2, 2]), torch.Size([1, 2])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    return _made(sizes.zeros, size, where, asked)


def ones(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """Ones that lie over a mesh.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, ones
    >>> def part():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return ones(3, device_mesh=mesh, placements=[Shard(0)]).to_local()
    >>> dist.threads.run(part, 2)
    [tensor([1., 1.]), tensor([1.])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    return _made(sizes.ones, size, where, asked)


def empty(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """Memory for a tensor that lies over a mesh.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, empty
    >>> def part():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return empty(3, device_mesh=mesh, placements=[Shard(0)]).to_local().shape
    >>> dist.threads.run(part, 2)
    [torch.Size([2]), torch.Size([1])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    return _made(sizes.empty, size, where, asked)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """One number everywhere, over a mesh.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, full
    >>> def part():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return full((3,), 7.0, device_mesh=mesh, placements=[Shard(0)]).to_local()
    >>> dist.threads.run(part, 2)
    [tensor([7., 7.]), tensor([7.])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    whole = (size,) if isinstance(size, int) else tuple(size)
    return _made(partial(sizes.full, fill_value=fill_value), whole, where, asked)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """Random numbers from 0 to 1, the same whole in every layout.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, rand
    >>> def part():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return rand(3, device_mesh=mesh, placements=[Shard(0)]).to_local().shape
    >>> dist.threads.run(part, 2)
    [torch.Size([2]), torch.Size([1])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    return _drawn(random.rand, size, where, asked)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: _Where = None,
) -> DTensor:
    """Normal random numbers, the same whole in every layout.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, randn
    >>> def whole():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return randn(4, device_mesh=mesh, placements=[Shard(0)]).full_tensor().shape
    >>> dist.threads.run(whole, 2)
    [torch.Size([4]), torch.Size([4])]
    """
    where, asked = (device_mesh, placements), (dtype, layout, requires_grad)
    return _drawn(random.randn, size, where, asked)
