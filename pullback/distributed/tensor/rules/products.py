"""Products of matrices and tensors: what is contracted may be cut, and gives sums over ranks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["RULES"]


def _product(inputs: list[Axes], out: Axes, *, first: int = 0, added: bool = False) -> Labels:
    """Of the operands from `first` on; one before may be added."""
    listed = inputs[first:]
    sums: set[Hashable] = {label for axes in listed for label in axes if label is not None}
    factors = [frozenset((number,)) for number in range(first, len(inputs))]
    if added:
        factors = [one | {0} for one in factors]
    return Labels(
        inputs,
        [out],
        sums=frozenset(sums - set(out)),
        added=frozenset((0,)) if added else frozenset(),
        linear=factors,
    )


def _bare(*spelled: str) -> Rule:
    """As in einsum, a word for each operand and one for the result."""
    *inputs, out = (tuple(word) for word in spelled)

    def rule(call: Call) -> Labels | None:
        if [len(shape) for shape in call.shapes] != [len(axes) for axes in inputs]:
            return None
        return _product(list(inputs), out)

    return rule


def _added(*spelled: str) -> Rule:
    """As above, with a first operand that is broadcast and added to the product."""
    *inputs, out = (tuple(word) for word in spelled)

    def rule(call: Call) -> Labels | None:
        shapes = call.shapes
        sizes = Labels(list(inputs), []).sizes(shapes[1:])
        if sizes is None:
            return None
        own = out[len(out) - len(shapes[0]) :]
        pairs = zip(own, shapes[0], strict=True)
        bias = tuple(label if size == sizes[label] else None for label, size in pairs)
        return _product([bias, *inputs], out, first=1, added=True)

    return rule


def _matmul(call: Call) -> Labels | None:
    """With batches that are broadcast; vectors leave their dimension out."""
    first, second = call.shapes
    rows = ("i",) if len(first) > 1 else ()
    columns = ("j",) if len(second) > 1 else ()
    left, right = first[: -len(rows) - 1], second[: -len(columns) - 1]
    dims = max(len(left), len(right))
    whole = [1] * dims
    for shape in (left, right):
        for place, size in enumerate(reversed(shape), 1):
            whole[-place] = max(whole[-place], size) if size else 0
    batches = [
        tuple(at if size == whole[at] else None for at, size in enumerate(shape, dims - len(shape)))
        for shape in (left, right)
    ]
    inputs = [(*batches[0], *rows, "k"), (*batches[1], "k", *columns)]
    return _product(inputs, (*range(dims), *rows, *columns))


def _linear(call: Call) -> Labels | None:
    shapes = call.shapes
    lead = tuple(range(len(shapes[0]) - 1))
    inputs: list[Axes] = [(*lead, "k"), ("j", "k")]
    made = _product(inputs, (*lead, "j"))
    if len(shapes) == 3:
        made.inputs = [*inputs, ("j",)]
        made.added = frozenset((2,))
        made.linear = [frozenset((0, 2)), frozenset((1, 2))]
    return made


def _weights(call: Call) -> Labels:
    """Softmax of the products of queries and keys; causal or not, a row at a time if not."""
    query, key = call.shapes
    axes, inputs = _heads(query, key)
    rows = None if call["causal"] else "i"
    return Labels([(*inputs[0], rows, None), (*inputs[1], None, None)], [(*axes, rows, None)])


def _heads(*shapes: tuple[int, ...]) -> tuple[Axes, list[Axes]]:
    from pullback.distributed.tensor.rules.pointwise import broadcast

    made, out = broadcast([shape[:-2] for shape in shapes])
    return out, made


def _attention(call: Call) -> Labels:
    axes, inputs = _heads(*call.shapes)
    whole = [(*one, None, None) for one in inputs]
    return Labels(whole, [(*axes, None, None), (*axes, None)])


def _contract(call: Call) -> Labels | None:
    """An einsum of two operands, by its plan."""
    plan: Any = call["plan"]
    shapes = call.shapes
    sizes: dict[Hashable, int] = {}
    for axes, shape in zip((plan.labels, plan.others), shapes, strict=True):
        for label, size in zip(axes, shape, strict=True):
            if sizes.setdefault(label, size) != size:
                return None  # one of them is broadcast
    return _product([tuple(plan.labels), tuple(plan.others)], tuple(plan.kept))


RULES: dict[str, Rule] = {
    "mm": _bare("ik", "kj", "ij"),
    "bmm": _bare("bik", "bkj", "bij"),
    "mv": _bare("ik", "k", "i"),
    "dot": _bare("k", "k", ""),
    "outer": _bare("i", "j", "ij"),
    "vdot": lambda call: Labels([("k",), ("k",)], [()], sums=frozenset("k")),
    "addmm": _added("ik", "kj", "ij"),
    "addmv": _added("ik", "k", "i"),
    "addr": _added("i", "j", "ij"),
    "baddbmm": _added("bik", "bkj", "bij"),
    "addbmm": _added("bik", "bkj", "ij"),
    "linear": _linear,
    "matmul": _matmul,
    "_matmul": _matmul,
    "_mix": _matmul,
    "_attention_weights": _weights,
    "_attention": _attention,
    "_contract": _contract,
    "_multiply": _contract,
}
