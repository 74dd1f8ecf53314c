"""Operators that look at each element by itself: any dimension may be cut, with broadcasting."""

from __future__ import annotations

from functools import cache, partial

from pullback.core.tensor import Tensor
from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule
from pullback.operators.declare import OPERATORS

__all__ = ["RULES", "broadcast", "elementwise_names", "is_elementwise", "of_elements"]


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[list[Axes], Axes]:
    """Labels of operands that are broadcast, and of the result: the dimensions from the right."""
    dims = max((len(shape) for shape in shapes), default=0)
    whole = [1] * dims
    for shape in shapes:
        for place, size in enumerate(reversed(shape), 1):
            if size != 1:
                whole[-place] = size
    made: list[Axes] = [
        tuple(
            dims - len(shape) + place if size == whole[dims - len(shape) + place] else None
            for place, size in enumerate(shape)
        )
        for shape in shapes
    ]
    return made, tuple(range(dims))


def of_elements(call: Call, outputs: int = 1) -> Labels:
    """Every label may be cut."""
    inputs, out = broadcast(call.shapes)
    return Labels(inputs, [out] * _count(call, outputs))


def _count(call: Call, outputs: int) -> int:
    return max(outputs, len(call.func._schema.returns))


def _linear(call: Call) -> Labels:
    """In all of its operands together, as sums are; options that add anything end that."""
    made = of_elements(call)
    numbers = [v for n, v in call.given.items() if n in ("other", "value")]
    if all(isinstance(one, Tensor) for one in numbers):
        made.linear = [frozenset(range(len(made.inputs)))]
    return made


def _bilinear(call: Call) -> Labels:
    """In each of its operands."""
    made = of_elements(call)
    made.linear = [frozenset((number,)) for number in range(len(made.inputs))]
    return made


def _in_the_first(call: Call) -> Labels:
    made = of_elements(call)
    if call.given.get("rounding_mode") is None:
        made.linear = [frozenset((0,))]
    return made


def _to_dtype(call: Call) -> Labels:
    """Between floating dtypes sums stay sums, but for what rounding does to each."""
    made = of_elements(call)
    before, after = call.tensors[0], call.given.get("dtype")
    wide = after is None or (after.is_floating_point and after.itemsize >= before.dtype.itemsize)
    if wide and (before.is_floating_point() or after is None):
        made.linear = [frozenset((0,))]
    return made


def _where(call: Call) -> Labels:
    made = of_elements(call)
    if len(made.inputs) == 3:
        made.linear = [frozenset((1, 2))]
    return made


def _filled(call: Call) -> Labels:
    made = of_elements(call)
    if not isinstance(call["value"], Tensor) and call["value"] == 0:
        made.linear = [frozenset((0,))]
    return made


def _multiple(call: Call) -> Labels:
    """`a + b`, one of which has a factor: both may be sums."""
    return _linear(call)


_TO_RULES: list[tuple[str, Rule]] = [
    ("add sub rsub", _multiple),
    ("neg clone detach alias contiguous lift_fresh positive real imag view_as_real", _linear),
    ("mul multiply _times", _bilinear),
    ("div true_divide divide", _in_the_first),
    ("_to_copy", _to_dtype),
    ("where", _where),
    ("masked_fill", _filled),
    ("lerp addcmul addcdiv copy fill fill_ _fill copy_ zero zero_ _refill _zero", of_elements),
    ("divide_or_zero clamp clip clamp_min clamp_max isclose nan_to_num", of_elements),
    ("frexp", partial(of_elements, outputs=2)),
]
RULES: dict[str, Rule] = {name: rule for names, rule in _TO_RULES for name in names.split()}
# Numbers with a dimension of two for their parts are no matter of single elements.
RULES.pop("view_as_real")


@cache
def elementwise_names() -> frozenset[str]:
    """Torch's names of all operators that are declared elementwise."""
    from pullback.operators.attach.every import load_all

    load_all()
    found = set()
    for op in list(OPERATORS.values()):
        if op.kind == "elementwise":
            found |= {op.name, (op.aten or op.name).partition(".")[0]}
    return frozenset(found)


@cache
def is_elementwise(name: str) -> bool:
    """By the declaration of the operator of this name, or of the one that it writes in place."""
    names = {name, name.removesuffix("_")}
    return any(
        op.kind == "elementwise"
        and (op.name in names or (op.aten or "").partition(".")[0] in names)
        for op in list(OPERATORS.values())
    )
