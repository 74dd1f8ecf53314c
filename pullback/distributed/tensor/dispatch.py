"""What operators do with tensors that lie over a mesh.

Where all lie alike, an operator of single elements acts on each rank's part. Norms of whole tensors
add up over ranks. All else is computed on the whole, on every rank alike: right, if not quick.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any

from pullback.core.dtype import DTYPES
from pullback.core.tensor import Tensor
from pullback.distributed.collectives import all_reduce, broadcast
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import Replicate, Shard
from pullback.operators.declare import OPERATORS
from pullback.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["answer"]

# Compositions and creations that look at each element by itself.
_LOCAL = frozenset(
    (
        *("clone", "detach", "alias", "copy_", "zero_", "fill_", "zeros_like", "ones_like"),
        *("empty_like", "full_like", "_to_copy", "lerp", "lerp_", "addcmul", "addcmul_"),
        *("addcdiv", "addcdiv_", "where", "contiguous"),
    )
)


def answer(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operator of which one operand at least lies over a mesh."""
    made = _at_once(func, args, kwargs)
    return _in_any_case(func, args, kwargs) if made is NotImplemented else made


def _at_once(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What optimizers do most: an operator of elements, on tensors that lie alike and numbers."""
    first, name = args[0], func._opname
    parts: list[Any] = []
    if type(first) is not DTensor or name in RULES or not _is_elementwise(name):
        return NotImplemented
    where, mesh, shape = first.placements, first.device_mesh, first.shape
    for one in args:
        if type(one) is DTensor:
            if one.placements != where or one.device_mesh is not mesh or one.shape != shape:
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
    return first if made is parts[0] else DTensor(made, mesh, where, shape)


def _in_any_case(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    flat, form = tree_flatten((args, kwargs))
    spread = [one for one in flat if isinstance(one, DTensor)]
    name = func._opname
    if name in RULES and (made := RULES[name](func, args, kwargs)) is not NotImplemented:
        return made
    if name == "copy_" and not isinstance(args[1], DTensor) and args[1].ndim:
        args = (args[0], _taken(args[0], args[1]), *args[2:])
        flat, form = tree_flatten((args, kwargs))
        spread = [one for one in flat if isinstance(one, DTensor)]
    if any(one.ndim for one in spread):  # numbers that all ranks have go with any part
        flat = [_number(one) for one in flat]
        spread = [one for one in flat if isinstance(one, DTensor)]
    plain = [one for one in flat if isinstance(one, Tensor) and not isinstance(one, DTensor)]
    if any(one.ndim for one in plain):
        raise RuntimeError(
            f"{name} got tensors that lie over a mesh and others that do not; distribute_tensor() "
            "or DTensor.from_local() makes those lie over it too."
        )
    if _acts_on_parts(name, spread):
        return _on_parts(func, flat, form, spread[0])
    return _on_the_whole(func, flat, form, spread)


def _number(one: Any) -> Any:
    if isinstance(one, DTensor) and not one.ndim and all(p.is_replicate() for p in one.placements):
        return one._local_tensor
    return one


def _taken(target: DTensor, whole: Tensor) -> DTensor:
    """What every rank has whole, as the target lies: each takes its part."""
    mesh, where = target.device_mesh, target.placements
    if tuple(whole.shape) != tuple(target.shape):
        whole = whole.expand(target.shape)
    return DTensor(layouts.part_of(whole, mesh, where), mesh, where, target.shape)


@cache
def _is_elementwise(name: str) -> bool:
    """By the declaration of the operator of this name, or of the one that it writes in place."""
    names = {name, name.removesuffix("_")}
    return any(
        op.kind == "elementwise"
        and (op.name in names or (op.aten or "").partition(".")[0] in names)
        for op in OPERATORS.values()
    )


def _acts_on_parts(name: str, spread: list[DTensor]) -> bool:
    first = spread[0]
    alike = all(
        one.placements == first.placements
        and one.device_mesh == first.device_mesh
        and (tuple(one.shape) == tuple(first.shape))
        for one in spread
    )
    if not alike or not (name in _LOCAL or _is_elementwise(name)):
        return False
    summed = any(one.is_partial() for one in first.placements)
    return not summed or name in ("clone", "detach", "alias", "zeros_like", "empty_like")


def _on_parts(func: Any, flat: list[Any], form: Any, first: DTensor) -> Any:
    parts = [one._local_tensor if isinstance(one, DTensor) else one for one in flat]
    args, kwargs = tree_unflatten(parts, form)
    made = func(*args, **kwargs)

    def wrapped(one: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        for given in flat:
            if isinstance(given, DTensor) and given._local_tensor is one:
                return given  # written in place
        return DTensor(one, first.device_mesh, first.placements, first.shape)

    return tree_map(wrapped, made)


def _on_the_whole(func: Any, flat: list[Any], form: Any, spread: list[DTensor]) -> Any:
    mesh = spread[0].device_mesh
    if any(one.device_mesh != mesh for one in spread):
        raise RuntimeError(f"{func._opname}: its operands lie over different meshes.")
    if func._schema.is_mutable:
        raise NotImplementedError(
            f"{func._opname} writes to a tensor that lies over a mesh, and has no rule for that."
        )
    everywhere = layouts.everywhere(mesh)

    def whole(one: Any) -> Any:
        if not isinstance(one, DTensor):
            return one
        part, shape = one._local_tensor, tuple(one.shape)
        return layouts.moved(part, shape, mesh, one.placements, everywhere)

    args, kwargs = tree_unflatten([whole(one) for one in flat], form)
    made = func(*args, **kwargs)
    return tree_map(
        lambda one: DTensor(one, mesh, everywhere, one.shape) if isinstance(one, Tensor) else one,
        made,
    )


def _vector_norm(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The norm of all elements: each rank's own, put together."""
    x, order = args[0], args[1] if len(args) > 1 else 2
    usual = len(args) <= 2 and not kwargs and isinstance(order, (int, float))
    if not usual or not all(isinstance(one, (Shard, Replicate)) for one in x.placements):
        return NotImplemented
    part, mesh = x._local_tensor, x.device_mesh
    extreme = {inf: ReduceOp.MAX, -inf: ReduceOp.MIN}.get(order)
    if part.numel():
        total = func(part, order)
    else:
        total = part.new_full((), inf if order == -inf else 0.0)
    if extreme is None and order != 0:
        total = total**order
    for number, placement in enumerate(x.placements):
        if isinstance(placement, Shard):
            all_reduce(total, op=extreme or ReduceOp.SUM, group=mesh.get_group(number))
    if extreme is None and order != 0:
        total = total ** (1.0 / order)
    return DTensor(total, mesh, layouts.everywhere(mesh), ())


def _all(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Whether something is so of all elements, or of any: of each rank's, put together."""
    x = args[0]
    if len(args) > 1 or kwargs or any(one.is_partial() for one in x.placements):
        return NotImplemented
    mesh, op = x.device_mesh, ReduceOp.MIN if func._opname == "all" else ReduceOp.MAX
    total = func(x._local_tensor).to(DTYPES["uint8"])
    for number, placement in enumerate(x.placements):
        if isinstance(placement, Shard):
            all_reduce(total, op=op, group=mesh.get_group(number))
    return DTensor(total.to(DTYPES["bool"]), mesh, layouts.everywhere(mesh), ())


def _drawn(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Random numbers: those of the whole, of which each rank keeps its part.

    So they do not depend on the layout, where all ranks have the same seed. Ranks that have the
    same part get the same numbers in any case.
    """
    x, mesh = args[0], args[0].device_mesh
    if any(one.is_partial() for one in x.placements):
        return NotImplemented
    whole = x._local_tensor.new_empty(tuple(x.shape))
    func(whole, *args[1:], **kwargs)
    part = layouts.part_of(whole, mesh, x.placements)
    for number, placement in enumerate(x.placements):
        if isinstance(placement, Replicate) and mesh.size(number) > 1:
            broadcast(part, group=mesh.get_group(number), group_src=0)
    x._local_tensor.copy_(part)
    return x


_RANDOM = "normal_ uniform_ bernoulli_ exponential_ geometric_ log_normal_ cauchy_ random_"
RULES: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "all": _all,
    "any": _all,
    "linalg_vector_norm": _vector_norm,
    **dict.fromkeys(_RANDOM.split(), _drawn),
}
