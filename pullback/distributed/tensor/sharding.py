"""What an operator does to parts: labels of dimensions, and the choice of how its operands lie.

A rule gives each dimension of each operand a label. Along a dimension of the mesh the operands may
lie in one of several ways: all whole; all of those that have a label cut there, so that the results
are cut there too, or are sums over the ranks; or some of them sums, where the operator is linear.
The way that moves the fewest numbers is taken, along each dimension of the mesh by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf, prod
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)

__all__ = ["Axes", "Call", "Labels", "Rule", "Way", "chosen"]

Axes = tuple[Hashable, ...]  # a label for each dimension; None where every rank needs all of it
Rule = Callable[["Call"], "Labels | None"]
_REPLICATE, _PARTIAL = Replicate(), Partial()


@cache
def _arguments(func: Any) -> tuple[tuple[str, ...], dict[str, Any], tuple[str, ...]]:
    """An operator's parameters: all names, defaults, and which are given by name alone."""
    listed = func._schema.arguments
    defaults = {one.name: one.default_value for one in listed}
    return (
        tuple(one.name for one in listed),
        defaults,
        tuple(one.name for one in listed if one.kwarg_only),
    )


class Call:
    """An operator and its arguments, by name."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.func = func
        self.name: str = func._opname
        self._names, self._defaults, self._keywords = _arguments(func)
        self.given = {**dict(zip(self._names, args, strict=False)), **kwargs}

    def __getitem__(self, name: str) -> Any:
        return self.given[name] if name in self.given else self._defaults[name]

    @property
    def tensors(self) -> list[Any]:
        """Operands that are tensors, in their order; those of sequences one by one."""
        return list(_tensors_in(self.given.values()))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Their shapes."""
        return [tuple(one.shape) for one in self.tensors]

    def position(self, name: str) -> int:
        """Which of the tensors an argument is, or begins with."""
        before = 0
        for known, value in self.given.items():
            if known == name:
                return before
            before += sum(1 for _ in _tensors_in((value,)))
        raise KeyError(name)

    def of(self, tensors: Sequence[Any]) -> Call:
        """The same call with other tensors."""
        made = Call(self.func, (), {})
        following = iter(tensors)
        made.given = {name: _replaced(value, following) for name, value in self.given.items()}
        return made

    def on(self, parts: Sequence[Any], changed: Mapping[str, Any]) -> Any:
        """The result on other tensors, with other options."""
        following = iter(parts)
        values = {name: _replaced(value, following) for name, value in self.given.items()}
        values.update(changed)
        plain: list[Any] = []
        by_name: dict[str, Any] = {}
        for name in self._names:
            if name not in values:
                continue
            # After one that was left out the others go by name.
            if name in self._keywords or by_name or len(plain) < self._names.index(name):
                by_name[name] = values[name]
            else:
                plain.append(values[name])
        return self.func(*plain, **by_name)


def _tensors_in(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (one for one in value if isinstance(one, Tensor))


def _replaced(value: Any, following: Iterator[Any]) -> Any:
    if isinstance(value, Tensor):
        return next(following)
    if isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value):
        return [next(following) if isinstance(one, Tensor) else one for one in value]
    return value


@dataclass
class Labels:
    """What a rule says of a call; `inputs` are in the order of `Call.tensors`."""

    inputs: Sequence[Axes]
    outputs: Sequence[Axes]
    sums: frozenset[Hashable] = frozenset()  # labels over which results are sums
    added: frozenset[int] = frozenset()  # operands that are added to such a sum
    linear: Sequence[frozenset[int]] = ()  # operands that may be sums over ranks, together
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # options: results' shapes
    out_shapes: Sequence[Sequence[int]] | None = None  # where labels do not tell them
    even: Mapping[Hashable, int] = field(default_factory=dict)  # what all ranks have to divide
    change: Callable[[Call, Sequence[Any]], dict[str, Any]] | None = None  # options, from parts
    # Instead of the operator: from operands' parts, where in the wholes they begin, and options.
    compute: Callable[[Call, Sequence[Any], Sequence[Any], dict[str, Any]], Any] | None = None
    finish: Callable[[Any, Sequence[Any]], Any] | None = None  # of the result and operands' parts

    def sizes(self, shapes: Sequence[Sequence[int]]) -> dict[Hashable, int] | None:
        """How long the labelled dimensions are; None where operands do not fit each other."""
        found: dict[Hashable, int] = {}
        for axes, shape in zip(self.inputs, shapes, strict=True):
            if len(axes) != len(shape):
                return None
            for label, size in zip(axes, shape, strict=True):
                if label is not None and found.setdefault(label, size) != size:
                    return None
        return found


@dataclass(frozen=True)
class Way:
    """How operands and results lie along one dimension of the mesh."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


def _ways(labels: Labels, sizes: Mapping[Hashable, int], ranks: int) -> Iterator[Way]:
    count = len(labels.inputs)
    yield Way((_REPLICATE,) * count, (_REPLICATE,) * len(labels.outputs))
    for label, size in sizes.items():
        if not size or (label in labels.even and (labels.even[label] or 1) % ranks):
            continue
        summed = label in labels.sums
        outputs = [_where(label, axes) for axes in labels.outputs]
        if None in outputs and not summed:
            continue
        inputs = tuple(
            _where(label, axes) or (_PARTIAL if summed and n in labels.added else _REPLICATE)
            for n, axes in enumerate(labels.inputs)
        )
        yield Way(inputs, tuple(one or _PARTIAL for one in outputs))
    for together in labels.linear:
        inputs = tuple(_PARTIAL if n in together else _REPLICATE for n in range(count))
        yield Way(inputs, (_PARTIAL,) * len(labels.outputs))


def _where(label: Hashable, axes: Axes) -> Placement | None:
    return Shard(axes.index(label)) if label in axes else None


def _in_strides(way: Way, factor: int) -> Way:
    """The same with what is cut cut in strides: of all operands that have the label alike."""
    inputs, outputs = (
        tuple(_StridedShard(one.dim, factor) if isinstance(one, Shard) else one for one in each)
        for each in (way.inputs, way.outputs)
    )
    return Way(inputs, outputs)


def _cost(now: Placement, wanted: Placement, size: int) -> float:
    """How many numbers move, about; what is whole becomes anything for nothing."""
    if now == wanted or now.is_replicate():
        return 0
    if isinstance(now, Partial):
        return inf if wanted.is_partial() else 2 * size
    return 3 * size if wanted.is_partial() else size  # gathered, and to be reduced after all


def chosen(
    labels: Labels, tensors: Sequence[Any], mesh: Any, fixed: tuple[Placement, ...] | None = None
) -> list[Way] | None:
    """A way for each dimension of the mesh; the first operand stays as `fixed` says, if it does."""
    sizes = labels.sizes([one.shape for one in tensors])
    if sizes is None:
        return None  # the operator itself says why that cannot be
    everything = list(_ways(labels, sizes, mesh.size()))
    counts = [prod(one.shape) for one in tensors]
    found = []
    for number in range(mesh.ndim):
        now = [
            one.placements[number] if isinstance(one, DTensor) else _REPLICATE for one in tensors
        ]
        best, least = None, inf
        strided = {one.split_factor for one in now if isinstance(one, _StridedShard)}
        for way in [*everything, *(_in_strides(w, f) for f in strided for w in everything)]:
            if fixed is not None and not way.inputs[0] == way.outputs[0] == fixed[number]:
                continue
            steps = zip(now, way.inputs, counts, strict=True)
            cost = sum(_cost(before, after, size) for before, after, size in steps)
            if cost < least:
                best, least = way, cost
        if best is None:
            return None
        found.append(best)
    return found
