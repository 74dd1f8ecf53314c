"""All that a program needs beside its machine code and the kernels of eager calls: plain data.

It is kept on disk with the code (`described.py`), as JSON: what is read there can run nothing.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # needed where programs are made, and not where they are read
    from pullback.compiled.ir.values import Val
    from pullback.compiled.llvm.module import ModuleText
    from pullback.compiled.plan.plan import Plan

__all__ = ["Recipe", "packed", "unpacked"]

_LENGTH = struct.Struct("<Q")
_KINDS = ("kernel", "check")


class Recipe(NamedTuple):
    """Tuples, whole numbers and names alone."""

    strides: Any  # of each input, in bytes
    in_place: Any  # (number of the output, of the input that it is written over)
    slots: int
    arena: int
    offsets: Any  # (slot, place in the arena)
    fault: int | None
    work: int
    # (name of a native function, None), or ("", (number of the call, kind, inputs, results)).
    parts: Any
    addresses: Any  # (what, slot)
    fresh: Any  # (shape, dtype, slot)
    outputs: Any  # (slot, geometry, is_fresh)
    how: Any  # (name of a call, what became of it)

    @classmethod
    def of(
        cls, plan: Plan, outputs: list[Val], written: ModuleText, calls: Any = (), how: Any = ()
    ) -> Recipe:
        """What a planned and written program needs; `calls` are the captured ones."""
        from pullback.compiled.llvm.between import Result, is_whole

        numbers = {id(call): number for number, call in enumerate(calls)}
        shapes = {v.base.id: v.shape for v in outputs if is_whole(v)}
        results = [Result.of(plan, v) for v in outputs]
        return cls(
            tuple(tuple(s * v.itemsize for s in v.strides) for v in plan.builder.inputs),
            tuple(plan.in_place.items()),
            written.slots,
            plan.arena,
            tuple(plan.offsets.items()),
            plan.fault,
            written.work,
            tuple(
                (what, None) if kind == "native" else ("", _between(plan, what, numbers))
                for kind, what in written.parts
            ),
            tuple(written.addresses.items()),
            # A result that is its base in another shape is allocated in that shape.
            tuple((tuple(shapes.get(v.id, v.shape)), v.dtype, plan.slot[v.id]) for v in plan.fresh),
            tuple((one.slot, one.geometry, one.is_fresh) for one in results),
            tuple(dict(how).items()),
        )


def _between(plan: Plan, token: Val, numbers: dict[int, int]) -> Any:
    from pullback.compiled.llvm.between import geometry
    from pullback.compiled.lower.kernels import Check

    kernel = plan.builder.calls[token.attr]
    inputs = []
    for v in token.ins:
        slot = plan.slot[v.base.id]
        inputs.append((slot, plan.offsets.get(slot), v.dtype, geometry(v), v is v.base))
    results = [
        (v.attr, plan.slot[v.id], v.dtype, geometry(v)[1])
        for v in plan.values
        if v.op == "result" and v.ins[0] is token
    ]
    kind = _KINDS[isinstance(kernel, Check)]
    return numbers.get(id(kernel.call), -1), kind, tuple(inputs), tuple(results)


# On disk ------------------------------------------------------------------------------------------


def packed(recipe: Recipe, code: bytes) -> bytes:
    """A recipe and its object code as one file."""
    text = json.dumps(recipe, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text + code


def unpacked(found: bytes, calls: int) -> tuple[Recipe, bytes]:
    """What a file holds; ValueError where it is no recipe for so many calls."""
    if len(found) < _LENGTH.size:
        raise ValueError("cut off")
    end = _LENGTH.size + _LENGTH.unpack_from(found)[0]
    if end > len(found):
        raise ValueError("cut off")
    listed = _tuples(json.loads(found[_LENGTH.size : end]))
    if not isinstance(listed, tuple) or len(listed) != len(Recipe._fields):
        raise ValueError("no recipe")
    recipe = Recipe(*listed)
    _check(recipe, calls)
    return recipe, found[end:]


def _tuples(tree: Any) -> Any:
    if isinstance(tree, list):
        return tuple([_tuples(one) for one in tree])
    if not isinstance(tree, int | str | None):
        raise ValueError("neither numbers nor names")
    return tree


def _check(recipe: Recipe, calls: int) -> None:
    """Refuse what does not hang together: numbers of slots and calls, and places in the arena."""

    def wants(fine: bool) -> None:
        if not fine:
            raise ValueError("not what a program looks like")

    def is_size(n: Any, end: int = 1 << 62) -> bool:
        return type(n) is int and 0 <= n < end

    def are_strides(tree: Any) -> bool:
        return isinstance(tree, tuple) and all(type(n) is int and is_size(abs(n)) for n in tree)

    def are_sizes(tree: Any) -> bool:
        return isinstance(tree, tuple) and all(map(is_size, tree))

    def is_shown(tree: Any) -> bool:
        return len(tree) == 3 and are_sizes(tree[0]) and are_strides(tree[1]) and is_size(tree[2])

    try:
        slots = recipe.slots
        wants(is_size(slots, 1 << 32) and is_size(recipe.arena) and is_size(recipe.work))
        wants(recipe.fault is None or is_size(recipe.fault, slots))
        wants(len(recipe.strides) <= slots and all(map(are_strides, recipe.strides)))
        for number, place in recipe.in_place:
            wants(is_size(number, len(recipe.outputs)) and is_size(place, len(recipe.strides)))
        for slot, where in recipe.offsets:
            wants(is_size(slot, slots) and is_size(where, recipe.arena))
        for what, slot in (*recipe.addresses, *((one[1], one[2]) for one in recipe.fresh)):
            wants(isinstance(what, str) and is_size(slot, slots))
        wants(all(are_sizes(shape) for shape, _, _ in recipe.fresh))
        for slot, shown, is_fresh in recipe.outputs:
            wants(is_size(slot, slots) and (shown is None or is_shown(shown)))
            wants(type(is_fresh) is bool)
        for name, between in recipe.parts:
            wants(isinstance(name, str) and bool(name) == (between is None))
            if between is None:
                continue
            call, kind, inputs, results = between
            wants(is_size(call, calls) and kind in _KINDS)
            for slot, where, dtype, shown, is_whole in inputs:
                wants(is_size(slot, slots) and (where is None or is_size(where, recipe.arena)))
                wants(isinstance(dtype, str) and is_shown(shown) and type(is_whole) is bool)
            for number, slot, dtype, strides in results:
                wants(is_size(number) and is_size(slot, slots) and isinstance(dtype, str))
                wants(are_strides(strides))
        wants(all(isinstance(one, str) and isinstance(two, str) for one, two in recipe.how))
    except (TypeError, IndexError) as error:
        raise ValueError("not what a program looks like") from error
