"""Random numbers of tensors that lie over a mesh: those of the whole, in every layout.

Where the generators of all ranks are at one place, each draws the whole and keeps its part, as one
process would; the generators stay alike. Where they are not, or where ranks are threads that share
one, the first rank draws and the others get what it drew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.collectives import all_reduce, broadcast
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import Placement
from pullback.distributed.tensor.sharding import Call
from pullback.operators.create.data import as_tensor
from pullback.operators.random.generator import default_generator
from pullback.utils._pytree import tree_flatten, tree_map

__all__ = ["drawn", "everywhere_alike", "is_random"]

_IN_PLACE = "normal_ uniform_ bernoulli_ exponential_ geometric_ log_normal_ cauchy_ random_"
_NAMES = frozenset(_IN_PLACE.split())


def is_random(func: Any) -> bool:
    """Whether an operator draws numbers."""
    if func._opname in _NAMES:
        return True
    return any(str(tag).endswith("nondeterministic_seeded") for tag in func.tags)


def everywhere_alike(draw: Callable[[], Any], mesh: Any, generator: Any = None) -> Any:
    """What `draw` makes, the same on all ranks; tensors in it are plain."""
    if mesh.size() == 1 or _generators_agree(mesh, generator or default_generator):
        return draw()
    mine = mesh.get_coordinate() is not None and not any(mesh.get_coordinate())
    if not mine and _are_threads(mesh):
        # What the others draw is thrown away; of a generator that is shared one draw is enough.
        state = None
    else:
        state = draw()
    from pullback.distributed.objects import broadcast_object_list

    about = [tree_map(_about, state)] if state is not None else [None]
    for number in range(mesh.ndim):
        broadcast_object_list(about, group=mesh.get_group(number), group_src=0)
    if state is None:
        state = tree_map(_made, about[0])
    for one in tree_flatten(state)[0]:
        if isinstance(one, Tensor):
            for number in range(mesh.ndim):
                broadcast(one, group=mesh.get_group(number), group_src=0)
    return state


class _About:
    """Shape and dtype of a tensor that will come."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def _about(one: Any) -> Any:
    return _About(tuple(one.shape), one.dtype) if isinstance(one, Tensor) else one


def _made(one: Any) -> Any:
    from pullback.operators.create.sizes import empty

    return empty(one.shape, dtype=one.dtype) if isinstance(one, _About) else one


def _are_threads(mesh: Any) -> bool:
    return bool(getattr(mesh.get_group(0).communicator, "ranks_are_threads", False))


def _generators_agree(mesh: Any, generator: Any) -> bool:
    """Whether all ranks would draw the same; threads may share a generator, and race."""
    if _are_threads(mesh):
        return False
    digest = _digest(generator)
    least, most = as_tensor([digest]), as_tensor([digest])
    for number in range(mesh.ndim):
        group = mesh.get_group(number)
        all_reduce(least, op=ReduceOp.MIN, group=group)
        all_reduce(most, op=ReduceOp.MAX, group=group)
    return bool(least.item() == most.item())


def _digest(generator: Any) -> int:
    """62 bits of a generator's state; Python's own hash differs from process to process."""
    from hashlib import blake2b

    state = generator.get_state()._array.tobytes()
    return int.from_bytes(blake2b(state, digest_size=8).digest(), "little") >> 2


def drawn(call: Call, mesh: Any) -> Any:
    """An operator that draws: its results lie as the first operand does, where they can."""
    first = call.tensors[0]
    assert isinstance(first, DTensor)
    where = first.placements
    writes = call.func._schema.is_mutable
    if writes or call.name.endswith("_like"):
        # Of the first operand the shape matters alone.
        wholes = [first._local_tensor.new_empty(tuple(first.shape))]
        wholes += [_whole(one) for one in call.tensors[1:]]
    else:
        wholes = [_whole(one) for one in call.tensors]
    made = everywhere_alike(lambda: call.on(wholes, {}), mesh, call.given.get("generator"))
    if writes:
        first._local_tensor.copy_(_part(made, mesh, where))
        return first
    return tree_map(lambda one: _spread(one, first, mesh, where), made)


def _whole(one: Any) -> Any:
    if not isinstance(one, DTensor):
        return one
    mesh, shape = one.device_mesh, tuple(one.shape)
    everywhere = layouts.everywhere(mesh)
    return layouts.moved(one._local_tensor, shape, mesh, one.placements, everywhere)


def _part(whole: Tensor, mesh: Any, where: tuple[Placement, ...]) -> Tensor:
    return layouts.moved(whole, tuple(whole.shape), mesh, layouts.everywhere(mesh), where)


def _spread(one: Any, first: DTensor, mesh: Any, where: tuple[Placement, ...]) -> Any:
    if not isinstance(one, Tensor):
        return one
    if tuple(one.shape) == tuple(first.shape) and not any(p.is_partial() for p in where):
        return DTensor(_part(one, mesh, where), mesh, where, one.shape)
    return DTensor(one, mesh, layouts.everywhere(mesh), one.shape)
