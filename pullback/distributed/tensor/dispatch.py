"""What operators do with tensors that lie over a mesh.

Operators with a rule (`rules/`) act on each rank's part, once their operands lie in a way that the
rule allows. All else is computed on the whole, on every rank alike: right, if not quick, and a
warning says so, once for each operator.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pullback.core import origin, passes
from pullback.core.tensor import Tensor
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.drawing import drawn, is_random
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.implicit import takes_plain
from pullback.distributed.tensor.placement_types import Placement, Replicate, Shard, cutting_order
from pullback.distributed.tensor.rules import AGAIN, WRITTEN, dims_of, is_elementwise, rule_of
from pullback.distributed.tensor.sharding import Call, Labels, Way, chosen
from pullback.distributed.tensor.views import check_current, keep_apart
from pullback.utils._pytree import tree_map

__all__ = ["answer"]

# Made as another tensor lies, of which the values do not matter.
_LIKE = frozenset(("zeros_like", "ones_like", "empty_like", "full_like", "zeros_of"))
_NEW = frozenset(("new_empty", "new_zeros", "new_ones", "new_full"))
# Questions to which the answer is no tensor: of the whole, without a warning.
_QUESTIONS = frozenset(("_local_scalar_dense", "is_nonzero", "equal", "allclose", "item"))


def answer(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operator of which one operand at least lies over a mesh."""
    made = _at_once(func, args, kwargs)
    return _in_any_case(func, args, kwargs) if made is NotImplemented else made


def _at_once(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What optimizers do most: an operator of elements, on tensors that lie alike and numbers."""
    first, name = args[0], func._opname
    parts: list[Any] = []
    if type(first) is not DTensor or not is_elementwise(name):
        return NotImplemented
    where, mesh, shape = first.placements, first.device_mesh, first.shape
    for one in args:
        if type(one) is DTensor:
            if one.placements != where or one.device_mesh is not mesh or one.shape != shape:
                return NotImplemented
            if one._copied_from is not None:
                return NotImplemented
            parts.append(one._local_tensor)
        elif isinstance(one, (int, float)):
            parts.append(one)
        else:
            return NotImplemented
    if any(type(one) not in (int, float, bool) for one in kwargs.values()):
        return NotImplemented
    if any(one.is_partial() for one in where):
        return NotImplemented
    made = func(*parts, **kwargs)
    if made is parts[0]:
        return first
    return DTensor(made, mesh, where, shape) if isinstance(made, Tensor) else NotImplemented


def _in_any_case(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    call = _over_one_mesh(Call(func, args, kwargs))
    spread = [one for one in call.tensors if isinstance(one, DTensor)]
    mesh = spread[0].device_mesh
    for one in spread:
        check_current(one, call)
    if call.name in _LIKE:
        return _like(call, spread[0])
    if call.name in _NEW:
        made = func(spread[0]._local_tensor, *args[1:], **kwargs)
        return DTensor(made, mesh, layouts.everywhere(mesh), made.shape)
    call = _all_spread(call, mesh)
    if is_random(func):
        return drawn(call, mesh)
    if (written := WRITTEN.get(call.name)) is not None:
        made = written(call)
        if made is not NotImplemented:
            return made
    if (made := _twice(call, mesh)) is not NotImplemented:
        return made
    rule = rule_of(call.name)
    labels = None if rule is None else rule(call)
    if labels is not None:
        made = _by_labels(call, labels, mesh)
        if made is not NotImplemented:
            return made
    return _on_the_whole(call, mesh, known=rule is not None)


# Operands that do not lie over a mesh -------------------------------------------------------------


def _over_one_mesh(call: Call) -> Call:
    """Single numbers over other meshes become plain ones, as all ranks of those have them.

    So the norm of parameters over several meshes is one, as clipping needs it.
    """
    tensors = call.tensors
    spread = [one for one in tensors if isinstance(one, DTensor)]
    mesh = spread[0].device_mesh
    if all(one.device_mesh == mesh for one in spread):
        return call
    # What has dimensions decides; of numbers alone the one that the fewest ranks have.
    keep = min(spread, key=lambda one: (not one.ndim, one.device_mesh.size()))
    made = []
    for number, one in enumerate(tensors):
        if isinstance(one, DTensor) and one.device_mesh != keep.device_mesh:
            if one.ndim or (call.func._schema.is_mutable and _is_written(call, number)):
                raise RuntimeError(f"{call.name}: its operands lie over different meshes.")
            one = _part(one, one.device_mesh, layouts.everywhere(one.device_mesh))[0]
        made.append(one)
    return call.of(made)


def _all_spread(call: Call, mesh: Any) -> Call:
    """The call with every operand a DTensor, but for single numbers, which go with any part."""
    writes = call.func._schema.is_mutable
    target = call.tensors[0]
    made = []
    for number, one in enumerate(call.tensors):
        if isinstance(one, DTensor):
            kept = number == 0 and writes
            made.append(one if one.ndim or kept else _number(one))
        elif not one.ndim:
            made.append(one)
        elif number and call.name == "copy_" and isinstance(target, DTensor):
            made.append(_taken(target, one))
        elif passes.running.get() is not None or takes_plain():
            made.append(DTensor(one, mesh, layouts.everywhere(mesh), one.shape))
        else:
            raise RuntimeError(
                f"{call.name} got tensors that lie over a mesh and others that do not; "
                "distribute_tensor() or DTensor.from_local() makes those lie over it too."
            )
    return call.of(made)


def _number(one: DTensor) -> Any:
    """A tensor of one number that all ranks have, as a plain one, if others have dimensions."""
    if all(where.is_replicate() for where in one.placements):
        return one._local_tensor
    return one


def _taken(target: DTensor, whole: Tensor) -> DTensor:
    """What every rank has whole, as the target lies: each takes its part."""
    mesh, where = target.device_mesh, target.placements
    if tuple(whole.shape) != tuple(target.shape):
        whole = whole.expand(target.shape)
    if any(one.is_partial() for one in where):
        return DTensor(whole, mesh, layouts.everywhere(mesh), target.shape)
    return DTensor(layouts.part_of(whole, mesh, where), mesh, where, target.shape)


def _like(call: Call, other: DTensor) -> DTensor:
    part = call.on([other._local_tensor], {})
    where = tuple(Replicate() if one.is_partial() else one for one in other.placements)
    return DTensor(part, other.device_mesh, where, other.shape)


# By a rule ----------------------------------------------------------------------------------------


def _by_labels(call: Call, labels: Labels, mesh: Any) -> Any:
    tensors = call.tensors
    target = tensors[0] if call.func._schema.is_mutable else None
    if target is not None and not isinstance(target, DTensor):
        return NotImplemented
    # What changes its own dimensions, or writes elsewhere, is no matter of parts.
    if target is not None and (
        not _is_written(call, 0) or tuple(labels.inputs[0]) != tuple(labels.outputs[0])
    ):
        return NotImplemented
    ways = chosen(labels, tensors, mesh, None if target is None else target.placements)
    if ways is None:
        return NotImplemented
    parts, starts = [], []
    for number, one in enumerate(tensors):
        where = tuple(way.inputs[number] for way in ways)
        part, begin = _part(one, mesh, where)
        parts.append(part)
        starts.append(begin)
    made = _computed(call, labels, mesh, ways, parts, starts)
    if target is not None:
        return target if made is parts[0] else NotImplemented
    sizes = labels.sizes(call.shapes)
    moved = isinstance(tensors[0], DTensor) and parts[0] is not tensors[0]._local_tensor
    return _spread_out(call, made, labels, sizes, mesh, ways, moved=moved)


def _part(one: Any, mesh: Any, where: tuple[Placement, ...]) -> tuple[Any, Any]:
    if not isinstance(one, DTensor):
        if any(placement.is_partial() for placement in where):
            return layouts.moved(one, (), mesh, layouts.everywhere(mesh), where), ()
        return one, ()
    begin = layouts.local_shape(one.shape, mesh, where)[1]
    if where == one.placements:
        return one._local_tensor, begin
    return layouts.moved(one._local_tensor, tuple(one.shape), mesh, one.placements, where), begin


def _computed(
    call: Call, labels: Labels, mesh: Any, ways: Sequence[Way], parts: Any, starts: Any
) -> Any:
    where = tuple(way.outputs[0] for way in ways)
    changed: dict[str, Any] = {
        name: list(layouts.local_shape(shape, mesh, where)[0])
        for name, shape in labels.shapes.items()
    }
    if labels.change is not None:
        changed.update(labels.change(call, parts))
    if labels.compute is not None:
        made = labels.compute(call, parts, starts, changed)
    else:
        made = call.on(parts, changed)
    return made if labels.finish is None else labels.finish(made, parts)


def _spread_out(
    call: Call,
    made: Any,
    labels: Labels,
    sizes: Any,
    mesh: Any,
    ways: Sequence[Way],
    *,
    moved: bool,
) -> Any:
    several = isinstance(made, (list, tuple))
    found: list[Any] = []
    for number, one in enumerate(made if several else [made]):
        if not isinstance(one, Tensor):
            found.append(one)
            continue
        where = tuple(way.outputs[number] for way in ways)
        shape = list(one.shape)
        if labels.out_shapes is not None:
            shape = list(labels.out_shapes[number])
        else:
            for placement in where:
                if isinstance(placement, Shard):
                    shape[placement.dim] = sizes[labels.outputs[number][placement.dim]]
        found.append(keep_apart(call, DTensor(one, mesh, where, shape), moved=moved))
    return type(made)(found) if several else found[0]


# Reductions of reductions -------------------------------------------------------------------------


def _twice(call: Call, mesh: Any) -> Any:
    """Where what is reduced is cut: on each rank, then over what the ranks have."""
    if call.name not in AGAIN or call.func._schema.is_mutable:
        return NotImplemented
    x = call.tensors[0]
    if not isinstance(x, DTensor) or not x.ndim or not x.numel():
        return NotImplemented
    if call.given.get("ord", 2) == 0 or any(one.is_partial() for one in x.placements):
        return NotImplemented  # a count of counts is none
    over = dims_of(call.given.get("dim"), x.ndim)
    order = cutting_order(x.placements)
    cut = [n for n in order if isinstance(p := x.placements[n], Shard) and p.dim in over]
    if not cut:
        return NotImplemented
    part, shape = x._local_tensor, tuple(x.shape)
    names = {argument.name for argument in call.func._schema.arguments}
    if "dim" in names and "keepdim" in names:
        kept = {"dim": sorted(over), "keepdim": True} if not _one_dim(call) else {"keepdim": True}
        part = _reduced_part(call, part, kept, over)
        for number in reversed(cut):
            part = _over_ranks(call, part, shape, x, number, kept)
        return _finished(call, part, x, over)
    part = _reduced_part(call, part, {}, over)
    for number in reversed(cut):
        length = layouts.lengths(shape, mesh, x.placements, number)
        if length:
            part = call.on([layouts.gathered(part.reshape(1), mesh, number, 0, length)], {})
    return DTensor(part, mesh, layouts.everywhere(mesh), ())


def _one_dim(call: Call) -> bool:
    return isinstance(call.given.get("dim"), int)


def _reduced_part(call: Call, part: Any, changed: dict[str, Any], over: Any) -> Any:
    """This rank's; one without any of the rows says nothing, in one row that is left out."""
    if part.numel() or all(part.shape[dim] for dim in over):
        return call.on([part], changed)
    shape = [1 if dim in over else size for dim, size in enumerate(part.shape)]
    one = part.new_zeros(shape if changed else (1,))
    return call.on([one], changed)


def _over_ranks(
    call: Call, part: Any, shape: Any, x: DTensor, number: int, changed: dict[str, Any]
) -> Any:
    placement = x.placements[number]
    assert isinstance(placement, Shard)
    length = layouts.lengths(shape, x.device_mesh, x.placements, number)
    if not length:
        return part  # along this line nobody has anything: the next dimension leaves it out
    rows = layouts.gathered(part, x.device_mesh, number, placement.dim, length)
    return call.on([rows], changed)


def _finished(call: Call, part: Any, x: DTensor, over: Any) -> DTensor:
    keepdim = bool(call.given.get("keepdim", False))
    where: list[Placement] = []
    for one in x.placements:
        if isinstance(one, Shard) and one.dim not in over:
            before = sum(dim < one.dim for dim in over)
            where.append(one if keepdim else replace(one, dim=one.dim - before))
        else:
            where.append(Replicate())
    shape = [1 if dim in over else size for dim, size in enumerate(x.shape)]
    if not keepdim:
        part = part.squeeze(tuple(over))
        shape = [size for dim, size in enumerate(shape) if dim not in over]
    return DTensor(part, x.device_mesh, where, shape)


# On the whole -------------------------------------------------------------------------------------

_warned: set[str] = set()


def _on_the_whole(call: Call, mesh: Any, *, known: bool) -> Any:
    everywhere = layouts.everywhere(mesh)
    if not known and call.name not in _warned and call.name not in _QUESTIONS:
        _warned.add(call.name)
        if mesh.size() > 1:
            warnings.warn(
                f"{call.name.lstrip('_')} has no rule for tensors that lie over a mesh: every rank "
                "computes it on the whole.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
    wholes = [_part(one, mesh, everywhere)[0] for one in call.tensors]
    if call.func._schema.is_mutable:
        return _written_back(call, wholes, mesh)
    made = call.on(wholes, {})
    moved = any(
        isinstance(one, DTensor) and one._local_tensor is not whole
        for one, whole in zip(call.tensors[:1], wholes, strict=False)
    )
    return tree_map(
        lambda one: (
            keep_apart(call, DTensor(one, mesh, everywhere, one.shape), moved=moved)
            if isinstance(one, Tensor)
            else one
        ),
        made,
    )


def _written_back(call: Call, wholes: list[Any], mesh: Any) -> Any:
    """Written to a copy of the whole; each rank then takes its part of that."""
    written = [
        number
        for number, one in enumerate(call.tensors)
        if isinstance(one, DTensor) and _is_written(call, number)
    ]
    for number in written:
        wholes[number] = wholes[number].clone()
    made = call.on(wholes, {})
    back: dict[int, Any] = {}
    for number in written:
        target, whole = call.tensors[number], wholes[number]
        if tuple(whole.shape) != tuple(target.shape):
            raise NotImplementedError(
                f"{call.name} changes the shape of a tensor that lies over a mesh."
            )
        part = layouts.moved(
            whole, tuple(target.shape), mesh, layouts.everywhere(mesh), target.placements
        )
        target._local_tensor.copy_(part)
        back[id(whole)] = target
    return tree_map(lambda one: back.get(id(one), one), made)


def _is_written(call: Call, number: int) -> bool:
    one = call.tensors[number]
    return any(
        argument.alias_info is not None
        and argument.alias_info.is_write
        and call.given.get(argument.name) is one
        for argument in call.func._schema.arguments
    )
