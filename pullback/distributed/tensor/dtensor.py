"""`DTensor`: a tensor that lies over the ranks of a mesh, of which each has its own part.

Shape and dtype are those of the whole. Operators come to `dispatch.py` below autograd, as of every
class that answers them; the four ways in and out (`from_local`, `to_local`, `redistribute`,
`full_tensor`) lead gradients through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.autograd.function import Function
from pullback.core import overriding
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.placement_types import Placement, Replicate, Shard, normalized
from pullback.operators.create.sizes import empty_like

__all__ = ["DTensor", "distribute_tensor"]

_DATA: Any = vars(Tensor)["data"]


class DTensor(Tensor):
    """A tensor that lies over a mesh of ranks.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_tensor
    >>> def halves():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    ...     return list(x.shape), x.to_local().tolist(), (x * 10).full_tensor().tolist()
    >>> dist.threads.run(halves, 2)[1]
    ([4], [2.0, 3.0], [0.0, 10.0, 20.0, 30.0])
    """

    _local_tensor: Tensor
    device_mesh: DeviceMesh
    placements: tuple[Placement, ...]
    # Of a view that had to be gathered: its base, and the version of that; see `views.py`.
    _copied_from: tuple[DTensor, int] | None = None

    @staticmethod
    def __new__(
        cls: type[DTensor],
        local: Tensor,
        mesh: DeviceMesh,
        placements: Sequence[Placement],
        shape: Sequence[int],
        requires_grad: bool = False,
    ) -> DTensor:
        """Around this rank's part; nothing is checked. Users call `from_local`."""
        if id(DTensor) not in overriding.classes:
            overriding.enter(DTensor, Tensor)
        made: DTensor = Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=local.dtype, device=local.device, requires_grad=requires_grad
        )
        made._local_tensor = local
        made.device_mesh = mesh
        made.placements = tuple(placements)
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a handler that is off, on plain tensors
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer an operator; see `dispatch.py`."""
        from pullback.distributed.tensor.dispatch import answer

        return answer(func, args, kwargs or {})

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Any = None,
    ) -> DTensor:
        """The tensor of which each rank has a part already.

        Without `shape` all ranks must have parts of the same size.
        """
        given = layouts.everywhere(device_mesh) if placements is None else placements
        where = normalized(given, device_mesh, local_tensor.ndim)
        whole = tuple(shape) if shape is not None else _whole(local_tensor, device_mesh, where)
        if run_check and any(isinstance(one, Replicate) for one in where):
            local_tensor = _checked(local_tensor, device_mesh, where)
        made: DTensor = _FromLocal.apply(local_tensor, device_mesh, where, whole)
        return made

    @property
    def data(self) -> Tensor:
        """The same memory with a version counter of its own."""
        own: Tensor = _DATA.__get__(self)
        return own

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, DTensor):
            raise TypeError(
                f".data of a tensor that lies over a mesh is another such, got "
                f"{type(value).__name__}; distribute_tensor() makes one."
            )
        _DATA.__set__(self, value)
        self._local_tensor = value._local_tensor
        self.device_mesh, self.placements = value.device_mesh, value.placements
        self._copied_from = value._copied_from

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This rank's part."""
        if not self.requires_grad:
            return self._local_tensor
        where = self.placements if grad_placements is None else tuple(grad_placements)
        made: Tensor = _ToLocal.apply(self, where)
        return made

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
    ) -> DTensor:
        """The same tensor, lying otherwise. All ranks of the mesh call it."""
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError("redistribute: from one mesh to another is not possible.")
        if placements is None:
            raise RuntimeError("redistribute: say how, by placements.")
        wanted = normalized(placements, self.device_mesh, self.ndim)
        if wanted == self.placements:
            return self
        made: DTensor = _Redistribute.apply(self, wanted)
        return made

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole, on every rank. All ranks of the mesh call it."""
        everywhere = self.redistribute(placements=layouts.everywhere(self.device_mesh))
        return everywhere.to_local(grad_placements=grad_placements)

    def _empty_on(self, device: Any) -> DTensor:
        """An example that lies as this does, with memory on a device for this rank's part."""
        return _like(self, empty_like(self._local_tensor, device=device))

    def __repr__(self) -> str:
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, "
            f"placements={self.placements})"
        )

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self.device_mesh, self.placements, tuple(self.shape))

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> DTensor:
        mesh, placements, shape = context
        return DTensor(inner["_local_tensor"], mesh, placements, shape)

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = self.device_mesh, self.placements, tuple(self.shape), self.requires_grad
        return DTensor, (self._local_tensor, *state)

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        if id(self) not in memo:
            memo[id(self)] = _like(self, self._local_tensor.detach().clone(), self.requires_grad)
            vars(memo[id(self)]).update(
                {name: value for name, value in vars(self).items() if name == "_is_param"}
            )
        known: DTensor = memo[id(self)]
        return known


# Libraries import the class to ask `isinstance`. Until there is an instance nobody looks for one,
# and programs without any are as quick as before.
overriding.classes.pop(id(DTensor), None)
overriding.answering.pop(id(DTensor), None)


def _like(other: DTensor, local: Tensor, requires_grad: bool = False) -> DTensor:
    """A part that lies as another tensor's does."""
    return DTensor(local, other.device_mesh, other.placements, other.shape, requires_grad)


def _whole(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[int, ...]:
    sizes = list(local.shape)
    for number, placement in enumerate(placements):
        if isinstance(placement, Shard):
            sizes[placement.dim] *= mesh.size(number)
    return tuple(sizes)


def _checked(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Tensor:
    """The same on ranks that should have the same: what the first of them has."""
    from pullback.distributed.collectives import broadcast

    made = local.detach().clone().contiguous()
    for number, placement in enumerate(placements):
        if isinstance(placement, Replicate) and mesh.size(number) > 1:
            broadcast(made, group=mesh.get_group(number), group_src=0)
    return made


class _FromLocal(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, mesh: Any, placements: Any, shape: Any) -> Any:
        ctx.where = placements
        return DTensor(local.detach(), mesh, placements, shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        where = tuple(Replicate() if one.is_partial() else one for one in ctx.where)
        return g.redistribute(placements=where)._local_tensor, None, None, None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, tensor: DTensor, placements: Any) -> Any:
        ctx.about = tensor.device_mesh, placements, Size(tensor.shape)
        return tensor._local_tensor.detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return DTensor(g, *ctx.about), None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, tensor: DTensor, wanted: Any) -> Any:
        ctx.before = tensor.placements
        return _moved(tensor, wanted)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        # The gradient of a sum's part is the sum's own.
        where = tuple(Replicate() if one.is_partial() else one for one in ctx.before)
        return _moved(g, where), None


def _moved(tensor: DTensor, wanted: Sequence[Placement]) -> DTensor:
    mesh, shape = tensor.device_mesh, tuple(tensor.shape)
    part = layouts.moved(tensor._local_tensor, shape, mesh, tensor.placements, wanted)
    return DTensor(part, mesh, wanted, shape)


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A leaf that lies over the mesh, with the values that the first rank has.

    With `src_data_rank=None` each rank takes its part of what it has itself, and nothing is sent.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_tensor
    >>> def rows():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     return distribute_tensor(torch.eye(3), mesh, [Shard(0)]).to_local().tolist()
    >>> dist.threads.run(rows, 2)[1]
    [[0.0, 0.0, 1.0]]
    """
    given = layouts.everywhere(device_mesh) if placements is None else placements
    where = normalized(given, device_mesh, tensor.ndim)
    if any(one.is_partial() for one in where):
        raise ValueError("distribute_tensor: what is whole does not become partial sums.")
    whole = tensor if src_data_rank is None else layouts.same_everywhere(tensor, device_mesh)
    part = layouts.part_of(whole, device_mesh, where)
    return DTensor(part, device_mesh, where, tensor.shape, tensor.requires_grad)
