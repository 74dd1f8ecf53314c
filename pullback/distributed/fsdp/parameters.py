"""One parameter of a sharded module: this rank's part of it, and memory for the whole.

The whole is a leaf with an array of its own, to which graphs refer. Between uses its memory is
given back to the system while its address stays, so that what graphs have saved finds it again
after the next gathering. Its version says meanwhile that it was written to: whoever reads it then
gets an error, and not what happens to be there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.memory import freed
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import own_cell
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.arrays.strides import address

__all__ = ["OWN", "Place", "ShardedParameter"]

# What a parameter that takes another's place does not take over from it.
OWN = ("grad", "_is_param", "_local_tensor", "device_mesh", "placements")
Place = tuple[Module, str]  # a module, and the name by which it has the parameter


def _inner(parameter: Tensor) -> Tensor:
    """What this rank has of a parameter before it is sharded."""
    return parameter._local_tensor if isinstance(parameter, DTensor) else parameter


def _like(parameter: Tensor, inner: Tensor) -> Tensor:
    """A tensor as the parameter is, over its mesh if it lies over one."""
    if not isinstance(parameter, DTensor):
        return inner
    return DTensor(inner, parameter.device_mesh, parameter.placements, tuple(parameter.shape))


def _spread(local: Tensor, parameter: Tensor, mesh: DeviceMesh, dim: int) -> DTensor:
    """This rank's part, over the mesh; over both meshes where the parameter lay over another."""
    where: list[Placement] = [*([Replicate()] * (mesh.ndim - 1)), Shard(dim)]
    if isinstance(parameter, DTensor):
        before = parameter.device_mesh
        cuts = [n for n, one in enumerate(parameter.placements) if one.is_shard(dim)]
        if cuts:
            where[-1] = _StridedShard(dim, split_factor=math.prod(before.size(n) for n in cuts))
        where += parameter.placements
        mesh = DeviceMesh._concatenate([mesh, before])
    return DTensor(local, mesh, where, tuple(parameter.shape))


class ShardedParameter:
    """A parameter that is shared out among the ranks of a mesh's last dimension.

    By rows, of which the last ranks may have fewer, or by another dimension, in equal parts.
    """

    def __init__(
        self,
        name: str,
        parameter: Tensor,
        places: list[Place],
        mesh: DeviceMesh,
        dtype: Any,
        dim: int = 0,
    ) -> None:
        if parameter.ndim == 0:
            raise ValueError(
                f"fully_shard: {name} has no dimension to shard; make it of shape (1,)."
            )
        if parameter.device.type not in ("cpu", "meta"):
            raise NotImplementedError(f"fully_shard: {name} is on {parameter.device}, not the cpu.")
        self.name, self.places, self.dim = name, places, dim
        ranks, rank = mesh.size(-1), mesh.get_local_rank(mesh.ndim - 1)
        # What tensor parallelism has shared out before is sharded further: this rank's part of it.
        inner = _inner(parameter)
        self.rows = rows = inner.shape[dim]
        if dim and rows % ranks:
            raise NotImplementedError(
                f"fully_shard: dimension {dim} of {name} has {rows} places, which are not shared "
                f"out evenly among {ranks} ranks; by rows, Shard(0), they may be uneven."
            )
        before, after = inner.shape[:dim], inner.shape[dim + 1 :]
        step = -(-rows // ranks)
        self.part_shape = (*before, step, *after)
        self._split = (*before, ranks, step, *after)
        head = (slice(None),) * dim
        begin, end = Shard.part(rows, ranks, rank)
        self.own = (*head, slice(begin, end))  # where this rank's part is in the whole
        self._counted = (*head, slice(end - begin))  # and in the padded part
        own = inner._array
        self.size = math.prod(self.part_shape)
        self.padded: Any = None
        if parameter.device.type == "cpu":
            local = self._within(own[self.own])
        else:
            local = inner.detach()[self.own]  # to_empty() gives it memory, of a part alone
        spread = _spread(local, parameter, mesh, dim)
        self.sharded: Any = Parameter(spread, requires_grad=parameter.requires_grad)
        vars(self.sharded).update({k: v for k, v in vars(parameter).items() if k not in OWN})
        self.dtype = own.dtype if dtype is None else dtype.numpy
        self.array = numpy.empty((*before, ranks * step, *after), self.dtype)
        whole = _like(parameter, wrap(self.array[(*head, slice(rows))]))
        self.whole: Any = Parameter(whole, requires_grad=parameter.requires_grad)
        self._cell = own_cell(self.whole)
        self._version = self._cell[0]
        self._written: Any = None  # the part's version when it was last gathered
        self.nbytes = self.size * own.dtype.itemsize
        self.is_whole = True
        self.give_back()
        self.show(self.sharded)

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained."""
        return bool(self.sharded.requires_grad)

    def show(self, tensor: Tensor) -> None:
        """Let the modules see the part, or the whole."""
        for module, name in self.places:
            module._parameters[name] = tensor  # type: ignore[assignment]  # marked as a parameter

    def _within(self, rows: Any) -> Tensor:
        """The part: as all ranks send equally many rows, it is what counts of a little more."""
        self.padded = numpy.zeros(self.part_shape, rows.dtype)
        self.padded[self._counted] = rows
        return wrap(self.padded[self._counted])

    def _adopt(self) -> None:
        """Take what stands in the part's place by now: to_empty(), to(dtype) and loading put it."""
        module, name = self.places[0]
        now: Any = module._parameters[name]
        if now is not self.sharded and isinstance(now, DTensor):
            self.sharded = now
            self.show(now)
        local = self.sharded._local_tensor
        if local.device.type == "meta":
            raise RuntimeError(
                f"{self.name} has no memory yet: call to_empty(device='cpu') and initialize it."
            )
        own = self.padded
        if own is None or (local._array.size and not numpy.may_share_memory(local._array, own)):
            self.sharded._local_tensor = self._within(local._array)

    def part(self) -> Any:
        """What this rank sends to the others, in the dtype of the whole."""
        self._adopt()
        return self.padded.astype(self.dtype, copy=False)

    def is_as_gathered(self) -> bool:
        """Whether the part is the one that was gathered the last time."""
        self._adopt()
        local = self.sharded._local_tensor
        return bool(self._written == (id(local), own_cell(local)[0]))

    def piece(self, ranks: int, rank: int) -> Any:
        """A copy of one of equal pieces of the whole's memory."""
        size = self.array.size // ranks
        return self.array.reshape(-1)[rank * size : (rank + 1) * size].copy()

    def take(self, parts: Any) -> None:
        """Write all ranks' parts, one after the other, to where they belong in the whole."""
        there = numpy.moveaxis(self.array.reshape(self._split), self.dim, 0)
        there[...] = parts.reshape(there.shape)

    def cut(self, array: Any) -> Any:
        """All ranks' parts of an array like the whole, one after the other along the rows."""
        if array.shape != self.array.shape:  # there are no places yet for what ranks lack
            fewer, array = array, numpy.zeros(self.array.shape, array.dtype)
            array[: self.rows] = fewer
        if not self.dim:
            return numpy.ascontiguousarray(array)
        parts = numpy.moveaxis(array.reshape(self._split), self.dim, 0)
        ranks, first, *rest = parts.shape
        return numpy.ascontiguousarray(parts).reshape(ranks * first, *rest)

    def restore(self) -> None:
        """Take the memory for the whole, which is then to be filled."""
        freed.restore(self.array)

    def filled(self) -> None:
        """The whole is there: what graphs saved of it is valid again, if it is still the same."""
        local = self.sharded._local_tensor
        written = (id(local), own_cell(local)[0])
        if written != self._written:
            self._written = written
            self._version += 2
        self._cell[0] = self._version
        self.whole.requires_grad_(self.requires_grad)
        self.is_whole = True
        self.show(self.whole)

    def give_back(self) -> None:
        """Free the memory of the whole."""
        if not self.is_whole:
            return
        self.is_whole = False
        self._cell[0] = self._version + 1
        freed.free(self.array, address(self.array))
        self.show(self.sharded)

    def add_gradient(self, rows: Any) -> None:
        """Put this rank's part of a gradient beside what is there."""
        local = rows[self._counted].astype(self.padded.dtype, copy=False)
        before = self.sharded.grad
        if before is None:
            mesh, where = self.sharded.device_mesh, self.sharded.placements
            self.sharded.grad = DTensor(wrap(local), mesh, where, tuple(self.sharded.shape))
        else:
            before._local_tensor += wrap(local)
