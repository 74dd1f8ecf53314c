"""Writes, for an operator, the fast path through a vmap level: for calls that need no closer look.

Most calls inside a map are elementwise, or pick and sum parts of one tensor, with the examples in
front. They go to the batches as they stand: without binding arguments, taking them apart and
asking rules, which takes five times as long as a small operator. The fast path is left for
these forms (`Mapped` in core/mode.py) where levels are all that is unusual; below the last level
they go on with the same line, in a mode that they name (`plainly` in writing/build.py). What wants
a closer look goes to `process` in vmap_level.py, which knows every case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from pullback.core.mode import Mapped, current, get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, new
from pullback.core.version import own_cell
from pullback.core.writer import block, define, theirs
from pullback.operators.batching import Moved, padded
from pullback.operators.declare import OPERATORS, Op, Param
from pullback.operators.options import NORMALISE
from pullback.operators.writing.build import plainly
from pullback.operators.writing.call import arguments, everything
from pullback.transforms.batched import Batched, batched

__all__ = ["is_random"]


def _form(op: Op, scope: dict[str, Any], plainly: Any) -> Any:
    """The form of a function of `op` whose globals these are; `plainly`: its fast path."""
    scope |= {
        "Batched": Batched,
        "Mapped": Mapped,
        "Tensor": Tensor,
        "new": new,
        "plainly": plainly,
        "function": op.function,
        "below_levels": _below,
        "current": current,
        "pairs_of": _pairs_of,
        "batched": batched,
        "padded": _padded,
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
    }
    return define(_lines(op), scope, f"{op.name}, mapped")


def _lines(op: Op) -> list[str]:
    head = f"def mapped(mode, {arguments(op)})"
    bail_out = f"return call(op, {everything(op)})"
    moved = _moved(op)
    if moved is not None:
        lines = _of_one(op, moved, bail_out)
    elif _is_aligned(op):
        lines = _of_several(op, bail_out)
    elif op.batch is not None and op.outputs != ("*",) and not is_random(op):
        lines = _by_rule(op, bail_out)
    else:
        return block(head, [bail_out])
    # Then a level of forward mode may be open everywhere; this mode sees no others.
    usual = block("if fast.plain is None", [bail_out])
    lines = [*usual, "level = mode.level", "below = mode.below", *lines]
    return block(head, [*lines, *(_WRAPPED if len(op.outputs) == 1 else _WRAPPED_EACH)])


_WRAPPED_EACH = ["return tuple([batched(one, 0, level) for one in result])"]
_WRAPPED = [
    "made = new(Batched)",
    "made.value = result",
    "made.bdim = 0",
    "made.level = level",
    "made.example = None",
    "made._node = None",
    "return made",
]


def _of_one(op: Op, moved: Moved, bail_out: str) -> list[str]:
    """A call with one tensor; the dimensions that options name move by one."""
    name = op.inputs[0].local
    given = [f"v0 = {name}.value", *block("if v0._layout is not None", [bail_out])]
    move: list[str] = []
    if moved:
        move = ["ndim = v0._array.ndim - 1"]
        if {"dim", "dims"} & {*moved.values()}:
            move += block("if ndim == 0", [bail_out])  # has a dimension as far as options go
    for param, kind in moved.items():
        move += _MOVES[kind](theirs(param), op.name, bail_out)
    return [
        *block(f"if {name}.__class__ is not Batched", _shared(op, [name], bail_out)),
        *block(f"if {name}.level is not level or {name}.bdim", [bail_out]),
        *given,
        *move,
        *_called(op, {name: "v0"}),
    ]


def _moved_dim(name: str, op: str, bail_out: str) -> list[str]:
    inside = f"{name}.__class__ is int and 0 <= {name} < ndim"
    return [
        *block(f"if {inside}", [f"{name} += 1"]),
        *block(f"elif {name} is None", [bail_out]),
        *block("else", [f"{name} = as_dim({name}, ndim, {op!r}) + 1"]),
    ]


def _moved_dims(name: str, op: str, bail_out: str) -> list[str]:
    inside = f"{name}.__class__ is int and 0 <= {name} < ndim"
    checked = f"[dim + 1 for dim in as_dims({name}, ndim, {op!r}) or range(ndim)]"
    return [
        *block(f"if {name} is None", [f"{name} = tuple(range(1, ndim + 1))"]),
        *block(f"elif {inside}", [f"{name} = ({name} + 1, )"]),
        *block("else", [f"{name} = tuple({checked})"]),
    ]


def _moved_shape(name: str, op: str, bail_out: str) -> list[str]:
    shape = f"{name} = (level.size, *as_shape({name}, ndim, {op!r}))"
    return block(f"if {name} is not None", [shape])


_MOVES: dict[str, Callable[[str, str, str], list[str]]] = {
    "dim": _moved_dim,
    "dims": _moved_dims,
    "shape": _moved_shape,
    # Of operators that only rules call, which are right and counted on the result.
    "known dim": lambda name, op, bail_out: [f"{name} += 1"],
    "new dim": lambda name, op, bail_out: [
        *block(f"if {name}.__class__ is not int or not 0 <= {name} <= ndim", [bail_out]),
        f"{name} += 1",
    ],
    "full shape": lambda name, op, bail_out: [
        *block(f"if {name}.__class__ is not tuple or len({name}) != ndim", [bail_out]),
        f"{name} = (level.size, *{name})",
    ],
    "known shape": lambda name, op, bail_out: [f"{name} = (level.size, *{name})"],
}


def _of_several(op: Op, bail_out: str) -> list[str]:
    """Tensors of one dtype that broadcast: ranks are made equal behind the examples."""
    count = len(op.inputs)
    lines = ["dtype = None"] if count > 1 else []
    for i, param in enumerate(op.inputs):
        lines += _operand(i, param, bail_out, alone=count == 1)
    batches = {param.local: f"v{i}" for i, param in enumerate(op.inputs)}
    still = " and ".join(f"m{i} == 99" for i in range(count))
    lines += block(f"if {still}", _shared(op, [], bail_out))
    if count > 1:
        ranks = ", ".join(f"n{i}" for i in range(count))
        lines.append("rank = n0 if n0 > n1 else n1" if count == 2 else f"rank = max({ranks})")
        for i in range(count):
            lines += block(f"if m{i} < rank", [f"v{i} = padded(below, v{i}, rank)"])
    return [*lines, *_called(op, batches)]


def _operand(i: int, param: Param, bail_out: str, *, alone: bool) -> list[str]:
    """What is handed on for an operand; its rank, and that of a batch or else 99."""
    name = param.local
    array = [] if alone else [
        f"array = v{i}._array",
        *block("if dtype is None", ["dtype = array.dtype"]),
        *block("elif dtype is not array.dtype", [bail_out]),
    ]  # fmt: skip
    looked = [*block(f"if v{i}._layout is not None", [bail_out]), *array]
    return [
        f"kind = {name}.__class__",
        *block(
            "if kind is Batched",
            [
                *block(f"if {name}.level is not level or {name}.bdim", [bail_out]),
                f"v{i} = {name}.value",
                *looked,
                f"n{i} = m{i} = {'0' if alone else 'array.ndim - 1'}",
            ],
        ),
        *block(
            "elif kind is Tensor",
            [f"v{i} = {name}", *looked, f"n{i} = {'0' if alone else 'array.ndim'}", f"m{i} = 99"],
        ),
        *block("elif kind is float or kind is int", [f"v{i} = {name}", f"n{i} = -1", f"m{i} = 99"]),
        *block("else", [bail_out]),
    ]


def _by_rule(op: Op, bail_out: str) -> list[str]:
    """Any other call whose rule is asked, without what `process` looks for first."""
    lines, found = [], []
    for i, param in enumerate(op.inputs):
        name = param.local
        if param.kind == "tensors":
            lines += [f"p{i} = pairs_of({name}, level)", *block(f"if p{i} is None", [bail_out])]
            found.append("True")
            continue
        found.append(f"p{i}[1] is not None")
        lines += [
            *block(f"if {name}.__class__ is Batched and {name}.level is level", [
                f"p{i} = ({name}.value, {name}.bdim)",
                *block(f"if p{i}[0]._layout is not None", [bail_out]),
            ]),
            *block(
                f"elif {name}.__class__ is Tensor and {name}._layout is None or {name} is None",
                [f"p{i} = ({name}, None)"],
            ),
            *block("else", [bail_out]),
        ]  # fmt: skip
    split = ", ".join(f"{param.name!r}: p{i}" for i, param in enumerate(op.inputs))
    options = ", ".join(f"{p.name!r}: {p.local}" for p in op.params if not p.is_tensor)
    return [
        "rule = op.batch",
        *lines,
        *block(f"if rule is None or not ({' or '.join(found)})", [bail_out]),
        *block(
            "try",
            ["current.set(below)", f"result = rule(op, level.size, {{{split}}}, {{{options}}})"],
        ),
        *block("finally", ["current.set(mode)"]),
        *block("if result is NotImplemented", [bail_out]),
    ]


def _shared(op: Op, tensors: list[str], bail_out: str) -> list[str]:
    """A call without a batch, for all examples at once: below this level."""
    odd = ["below.__class__ is Mapped", *(f"{one}.__class__ is not Tensor" for one in tensors)]
    return [*block(f"if {' or '.join(odd)}", [bail_out]), f"return plainly(below, {arguments(op)})"]


def _called(op: Op, batches: dict[str, str]) -> list[str]:
    """The result for all examples."""
    given = {param.name: batches.get(param.local, param.local) for param in op.params}
    bound = ", ".join(f"{name!r}: {value}" for name, value in given.items())
    return [
        *block(
            "if below.__class__ is Mapped", [f"result = below_levels(function, below, {{{bound}}})"]
        ),
        *block("else", [f"result = plainly(below, {', '.join(given.values())})"]),
    ]


def _pairs_of(tensors: Any, level: Any) -> list[Any] | None:
    """A sequence as rules take it; None where it has no batch, or wants a closer look."""
    if tensors.__class__ is not list and tensors.__class__ is not tuple:
        return None
    pairs: list[tuple[Any, int | None]] = []
    found = False
    for one in tensors:
        kind = one.__class__
        if kind is Batched and one.level is level:
            pairs.append((one.value, one.bdim))
            found = True
        elif kind is Tensor:
            pairs.append((one, None))
        else:
            return None
        if pairs[-1][0]._layout is not None:
            return None
    return pairs if found else None


def _below(function: Any, below: Any, bound: dict[str, Any]) -> Any:
    """A call that goes to the levels outside."""
    mode = get_mode()
    try:
        current.set(below)
        return function(**bound)
    finally:
        current.set(mode)


def _padded(below: Any, value: Any, rank: int) -> Any:
    """As `padded`, for examples in front."""
    array = value._array
    if value.__class__ is not Tensor or type(array) is not ndarray:
        return _below(padded, below, {"value": value, "bdim": 0, "rank": rank})
    if value._node is not None:
        if not array.flags.c_contiguous:
            return _below(padded, below, {"value": value, "bdim": 0, "rank": rank})
        first, *own = array.shape
        return plainly(OPERATORS["_view"])(below, value, (first, *(1,) * (rank - len(own)), *own))
    # Nobody will see it, and without history it need not be known as a view.
    made = new(Tensor)
    made._array = array[(slice(None), *(None,) * (rank + 1 - array.ndim))]
    made._cell = own_cell(value)
    made._node = None
    return made


def _is_aligned(op: Op) -> bool:
    """Whether a batch is to the operator what its examples are, but for their ranks."""
    alike = op.kind == "elementwise" and op.batch is None and len(op.outputs) == 1
    return alike and not is_random(op) and all(param.kind == "tensor" for param in op.inputs)


def _moved(op: Op) -> Moved | None:
    """What moves in a call with the examples in front; None where a rule has more to say."""
    if len(op.outputs) != 1 or op.outputs == ("*",) or is_random(op):
        return None
    if op.kind == "elementwise" or [param.kind for param in op.inputs] != ["tensor"]:
        return None
    if op.batch is not None:
        return getattr(op.batch, "moved", None)
    return {p.name: p.kind for p in op.params if p.kind in _MOVES} if op.shifts else None


def is_random(op: Op) -> bool:
    """Whether an operator draws random numbers: then it takes a generator."""
    known = _random.get(op)
    if known is None:
        known = _random[op] = any(param.name == "generator" for param in op.params)
    return known


_random: dict[Op, bool] = {}

ports.fill(mapped=_form)
