"""What an operator's kind implies for forward mode: tangents from the same declaration.

elementwise: the reverse rule itself, since the Jacobian is diagonal. linear, view: the operator
applied
to the tangent. multilinear: one term per input. primitive: its `jvp=`, which asks by name as rules
do, with `d_<input>` for tangents (None: absent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy
from numpy import may_share_memory

from pullback.core.arrays import Array
from pullback.core.captured import refuse_captured
from pullback.core.forward import Level, seeing, visible_levels
from pullback.core.mode import changed, current, get_mode
from pullback.core.nesting import running
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import Op, parameters_of


def any_dual(values: dict[str, Any]) -> bool:
    """Whether any input carries a tangent."""
    return any(tangents_in(level, values) for level in visible_levels())


def tangents_in(level: Level, values: dict[str, Any]) -> dict[str, Any]:
    """Tangents of the inputs that have one; of a sequence a list, None for those that have none."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            tangent = level.get(value)
        elif isinstance(value, tuple | list):
            tangents = [level.get(one) if isinstance(one, Tensor) else None for one in value]
            tangent = tangents if any(t is not None for t in tangents) else None
        else:
            tangent = None
        if tangent is not None:
            found[name] = tangent
    return found


def propagate(
    op: Op, values: dict[str, Any], options: dict[str, Any], results: list[Tensor]
) -> None:
    """Give the results their tangents at every open level."""
    for depth, level in enumerate(list(visible_levels())):
        tangents = tangents_in(level, values)
        if not tangents or not any(r.dtype.is_differentiable for r in results):
            continue
        with only_outside(depth, tangents.values()):
            made = (level.rule or jvp)(op, values, options, results, tangents)
        for name, result, tangent in zip(_names(op, results), results, made, strict=True):
            if tangent is not None and result.dtype.is_differentiable:
                if op.kind != "view":
                    shared = shares_memory(tangent, tangents.values())
                    with only_outside(depth, (tangent,)):
                        tangent = owned(tangent, result, shared=shared)
                level.put(result, tangent)
                keep_saved(level, op, name, result, tangent)


def shares_memory(tangent: Any, given: Iterable[Any]) -> bool:
    """Whether a tangent is one of those given, or lies where one of them does."""
    memory = _memory_of(tangent)
    for group in given:
        for one in group if isinstance(group, tuple | list) else (group,):
            if tangent is one:
                return True
            if one is None or memory is None or (other := _memory_of(one)) is None:
                continue
            if may_share_memory(memory, other):
                return True
    return False


def _memory_of(tangent: Any) -> Array | None:
    """The array that it stands on, or that all of its examples stand on inside vmap."""
    while (value := getattr(tangent, "value", None)) is not None:
        tangent = value
    return tangent._raw if isinstance(tangent._raw, numpy.ndarray) else None


def owned(tangent: Any, result: Tensor, *, shared: bool) -> Any:
    """A tangent that may be written to and viewed as its result is.

    Not the input's own (`x + 1`), nor an expanded one, nor one of another layout.
    """
    array, wanted = tangent._array, result._array
    if not _same_layout(array, wanted):
        return _relaid(tangent, wanted)
    if not shared and not (0 in array.strides and array.size > 1):
        return tangent
    return tangent.clone()


def _same_layout(a: Array, b: Array) -> bool:
    if a.strides == b.strides or (a.flags.c_contiguous and b.flags.c_contiguous):
        return True
    if b.flags.c_contiguous or b.flags.f_contiguous:
        return False
    # A part of something larger has a layout that no copy has either; the order of its dimensions
    # is what views ask for.
    order = _order(b)
    return not isinstance(a, numpy.ndarray) or a.transpose(order).flags.c_contiguous


def _order(array: Array) -> list[int]:
    """The dimensions by their strides, the widest first."""
    return sorted(range(array.ndim), key=lambda dim: -int(array.strides[dim]))


def _relaid(tangent: Any, wanted: Array) -> Any:
    """A copy of a tangent whose dimensions lie in memory in the order in which `wanted` has them.

    So it can be viewed in all ways in which `wanted` can.
    """
    if tangent.__class__ is Tensor:
        return wrap(numpy.empty_like(wanted)).copy_(tangent)
    if wanted.flags.c_contiguous:  # of each example, in a batch of tangents
        return tangent.contiguous()
    order = _order(wanted)
    back = sorted(range(len(order)), key=order.__getitem__)
    return tangent.permute(order).contiguous().permute(back)


def keep_saved(level: Level, op: Op, name: str, result: Tensor, tangent: Any) -> None:
    """Remember the tangent of an output that its node has saved: that keeps no tensor."""
    node = result.grad_fn
    if node is not None and _saves(node, op, name):
        level.keep(node, name, tangent)


def _saves(node: Any, op: Op, name: str) -> bool:
    plan = getattr(type(node), "plan", None)
    return plan is not None and plan.op is op and name in plan.outputs


def _names(op: Op, results: list[Tensor]) -> tuple[str, ...]:
    return op.outputs if op.outputs != ("*",) else ("*",) * len(results)


class only_outside:  # noqa: N801 (a context)
    """Inside, only outer levels are visible, and the vmap levels of the tangents are active."""

    __slots__ = ("before", "depth", "tangents")

    def __init__(self, depth: int, tangents: Iterable[Any] = ()) -> None:
        self.depth = depth
        self.tangents = tangents

    def __enter__(self) -> None:
        before = self.before = get_mode()
        levels = vmap_levels(self.tangents, before.levels)
        current.set(changed(before, dual_depth=seeing(self.depth), levels=levels))

    def __exit__(self, *_: object) -> None:
        current.set(self.before)


def vmap_levels(tangents: Iterable[Any], active: tuple[Any, ...]) -> tuple[Any, ...]:
    """The active vmap levels and those at which a tangent is batched; its value may not be."""
    found = set(active)
    for tangent in tangents:
        for one in tangent if isinstance(tangent, tuple | list) else (tangent,):
            while (
                one.__class__ is not Tensor and (level := getattr(one, "level", None)) is not None
            ):
                found.add(level)
                one = one.value
    if len(found) == len(active):
        return active
    return tuple(sorted(found, key=lambda level: level.number))


def jvp(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    tangents: dict[str, Any],
) -> list[Any]:
    """Tangents of the outputs from those of the inputs."""
    felt = felt_inputs(op)
    tangents = {name: tangent for name, tangent in tangents.items() if name in felt}
    if not tangents:
        return [None] * len(results)
    if op.jvp is not None:
        return _by_rule(op, values, options, results, tangents)
    if not op.rules:
        return [None] * len(results)
    if op.kind == "elementwise":
        return [_elementwise(op, values, options, results[0], tangents)]
    if op.kind in ("linear", "view", "multilinear"):
        return _multilinear(op, values, options, tangents)
    return ports.transposed(op, known_names(op, values, options, results), results, tangents)


def felt_inputs(op: Op) -> set[str]:
    """The inputs whose tangents matter: those that `jvp=` asks for, or that have a rule.

    One that asks for none, as it gives zeros whatever they are, is for those that have a rule.
    """
    asked = () if op.jvp is None else parameters_of(op.jvp)
    return {name[2:] for name in asked if name.startswith("d_")} or set(op.rules)


def known_names(
    op: Op, values: dict[str, Any], options: dict[str, Any], results: list[Tensor]
) -> dict[str, Any]:
    """Everything that a rule may ask for by name."""
    known = {**options, **values, **dict(zip(op.outputs, results, strict=False))}
    for name, value in values.items():
        if isinstance(value, tuple | list):
            known[f"{name}_shape"] = tuple(tuple(one.shape) for one in value)
            known[f"{name}_dtype"] = tuple(one.dtype for one in value)
        elif value is not None:
            known[f"{name}_shape"] = tuple(getattr(value, "shape", ()))
            known[f"{name}_dtype"] = getattr(value, "dtype", None)
    return known


def _by_rule(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    tangents: dict[str, Any],
) -> list[Any]:
    assert op.jvp is not None
    known = known_names(op, values, options, results)
    known |= {f"d_{name}": tangents.get(name) for name in values}
    made = op.jvp(**{name: known[name] for name in parameters_of(op.jvp)})
    if len(op.outputs) == 1 and op.outputs != ("*",):
        return [fitted(made, results[0])]
    made = list(made)
    return made + [None] * (len(results) - len(made))


def _elementwise(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    result: Tensor,
    tangents: dict[str, Any],
) -> Any:
    known = known_names(op, values, options, [result])
    total = None
    for name, tangent in tangents.items():
        if name not in op.rules:
            continue
        rule = op.rules[name]
        # The reverse rule multiplies by the conjugate of the derivative.
        asked = {n: known[n] for n in parameters_of(rule) if n != "g"}
        if "g" in parameters_of(rule):
            asked["g"] = _conj(tangent)
        term = _conj(rule(**asked))
        if term is not None:
            total = term if total is None else total + term
    return fitted(materialised(total), result)


def materialised(tangent: Any) -> Any:
    """A tangent of which nothing is put off, as views of another dtype need it."""
    if tangent is None or not tangent.dtype.is_complex:
        return tangent
    return tangent.resolve_conj()


def _conj(value: Any) -> Any:
    return value.conj() if value is not None and value.dtype.is_complex else value


def fitted(tangent: Any, result: Tensor) -> Any:
    """A tangent in its result's shape and dtype: broadcasting and casts are linear."""
    if tangent is None:
        return None
    if tangent._array.shape != result._array.shape:
        tangent = tangent.expand(result._array.shape)
    if tangent._array.dtype != result._array.dtype:
        tangent = tangent.real if _loses_imaginary(tangent, result) else tangent
        tangent = tangent.to(result.dtype)
    return tangent


def _loses_imaginary(tangent: Tensor, result: Tensor) -> bool:
    return tangent.dtype.is_complex and not result.dtype.is_complex


def _multilinear(
    op: Op, values: dict[str, Any], options: dict[str, Any], tangents: dict[str, Any]
) -> list[Any]:
    totals: list[Any] | None = None
    for name, tangent in tangents.items():
        if name not in op.rules:
            continue
        made = op.function(**{**values, **options, name: tangent})
        terms = list(made) if isinstance(made, tuple) else [made]
        totals = terms if totals is None else [a + b for a, b in zip(totals, terms, strict=True)]
    return totals if totals is not None else [None]


# In-place writes ----------------------------------------------------------------------------------


def tangents_of_write(
    op: Op, bound: dict[str, Any], values: dict[str, Any], copied: Callable[[Tensor], Tensor]
) -> list[tuple[int, Level, Any]] | None:
    """The tangents that a write will leave, worked out before it: (depth, level, tangent).

    `copied` gives a tensor, with tangents, in the place of one that is about to be overwritten.
    """
    levels = list(visible_levels())
    felt = [tangents_in(level, values) for level in levels]
    if not any(felt):
        return None
    if _recorded((values, *felt)):
        target = bound[op.inputs[0].name]
        kept = copied(target)  # the tangent's history may read it
        bound = {name: kept if value is target else value for name, value in bound.items()}
    result = op.function(**bound)
    return [(depth, level, level.get(result)) for depth, level in enumerate(levels)]


def _recorded(groups: Iterable[dict[str, Any]]) -> bool:
    """Whether what is computed from these is recorded, for a derivative outside."""
    mode = get_mode()
    if not mode.grad or mode.inference:
        return False
    for group in groups:
        for given in group.values():
            for one in given if isinstance(given, tuple | list) else (given,):
                while (inner := getattr(one, "value", None)) is not None:
                    one = inner
                if getattr(one, "requires_grad", False):
                    return True
    return False


def give_tangents(source: Tensor, copied: Tensor) -> None:
    """Let a copy of a tensor carry its tangents, as copies too: a write changes them in place."""
    for depth, level in enumerate(list(visible_levels())):
        if (known := level.get(source)) is not None:
            with only_outside(depth, (known,)):
                level.put(copied, known.clone())


def write_tangents(target: Tensor, duals: list[tuple[int, Level, Any]]) -> None:
    """Update the target's tangents in place; a base becomes dual through its view."""
    for depth, level, tangent in duals:
        with only_outside(depth, (tangent, level.get(target))):
            _write_tangent(level, target, tangent)


def keep_written(node: Any, target: Tensor) -> None:
    """Remember the tangents of a tensor just written, if the node of the write has saved it."""
    for name in node.plan.outputs:
        for level in visible_levels():
            level.keep(node, name, level.get(target))


def _write_tangent(level: Level, target: Any, tangent: Any) -> None:
    known = level.get(target)
    if known is not None and (tangent is None or _fits_into(tangent, known)):
        if tangent is None:
            known.zero_()
        elif tangent is not known:
            known.copy_(tangent)
        return
    if tangent is None:
        return
    if derivatives := running.get():
        refuse_captured(target, derivatives)
    base = target._base
    if base is None or not target._node.manner.forward:
        level.replace(target, tangent.clone())
        return
    whole = level.get(base)
    if whole is None and _same_place(target, base):
        whole = tangent.clone()  # of both: there is no other part of the base
        level.put(base, whole)
        level.put(target, whole)
        return
    if whole is None or not _fits_into(tangent, whole):
        # As many values as the written part has, should that be batched.
        parts = tangent.dtype.is_complex is not base.dtype.is_complex  # a real part, say
        zeros = tangent.new_zeros(base.shape, dtype=base.dtype if parts else None)
        whole = zeros if whole is None else zeros + whole
        level.replace(base, whole)
    part = ports.view_of(target, whole)
    part.copy_(tangent)
    level.put(target, part)


def _same_place(view: Any, base: Any) -> bool:
    """Whether a view is all of its base, in the same order."""
    ours, theirs = view._raw, base._raw
    return bool(
        ours.shape == theirs.shape
        and ours.strides == theirs.strides
        and ours.dtype == theirs.dtype
        and view._bits == base._bits
    )


def _fits_into(tangent: Any, known: Any) -> bool:
    """Whether all vmap levels at which `tangent` is batched are levels of `known` too."""
    have = vmap_levels((known,), ())
    return len(vmap_levels((tangent, known), ())) == len(have)
