"""The vmap level: how an operator call on batched tensors becomes one call on whole batches.

From the kind and the annotations where that is enough: elementwise by alignment, one tensor by shifting
its `Dim`, `Dims` and `Shape` options. Operators of several tensors say `batch=`: a function that takes
`(level, values, options)`, values being (tensor, dimension or None) by input name, and returns results
with the batch in front. What has no rule runs in a loop over the examples, with one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core import origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import changed, current, get_mode
from pullback.core.promotion import promote_to_float, result_dtype
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.options import NORMALISE
from pullback.operators.shape import expand, movedim, reshape, select, stack
from pullback.transforms.batched import batched, is_batched_at

_warned: set[str] = set()


class VmapLevel:
    """One running vmap."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness
        self.open = True

    @contextmanager
    def below(self) -> Iterator[None]:
        """Inside, operator calls go to the levels outside of this one."""
        before = get_mode()
        depth = before.levels.index(self)
        current.set(changed(before, levels=before.levels[:depth]))
        try:
            yield
        finally:
            current.set(before)

    def process(self, op: Op, bound: dict[str, Any]) -> Any:
        """Run an operator call for all examples at once."""
        values = {param.name: bound[param.name] for param in op.inputs}
        options = {param.name: bound[param.name] for param in op.params if not param.is_tensor}
        if not any(self._holds(value) for value in values.values()):
            with self.below():
                return op.function(**bound)
        split = {name: self._split(value) for name, value in values.items()}
        with self.below():
            results = self._batched_call(op, split, options, values)
        single = len(op.outputs) == 1 and op.outputs != ("*",)
        wrapped = [batched(result, 0, self) for result in ([results] if single else results)]
        return wrapped[0] if single else tuple(wrapped)

    def _holds(self, value: Any) -> bool:
        if isinstance(value, tuple | list):
            return any(is_batched_at(one, self) for one in value)
        return is_batched_at(value, self)

    def _split(self, value: Any) -> Any:
        """(tensor, its hidden dimension or None); a list of these for a sequence."""
        if isinstance(value, tuple | list):
            return [self._split(one) for one in value]
        return (value.value, value.bdim) if is_batched_at(value, self) else (value, None)

    def _batched_call(
        self, op: Op, split: dict[str, Any], options: dict[str, Any], values: dict[str, Any]
    ) -> Any:
        if op.batch is not None:
            return op.batch(self, split, options)
        if op.kind == "elementwise":
            return self._elementwise(op, split, options, values)
        tensors = [param for param in op.inputs if values[param.name] is not None]
        if len(tensors) == 1 and tensors[0].kind != "tensors" and _shifts_by_annotation(op):
            return self._one_tensor(op, split, options, tensors[0].name)
        return self._loop(op, split, options)

    def _elementwise(
        self, op: Op, split: dict[str, Any], options: dict[str, Any], values: dict[str, Any]
    ) -> Any:
        ranks = [len(v.shape) for v in values.values() if isinstance(v, Tensor)]
        rank = max(ranks, default=0)
        wanted = _promoted_per_example(op, values)
        aligned = {}
        for name, (value, bdim) in split.items():
            if not isinstance(value, Tensor):
                aligned[name] = value
                continue
            if wanted is not None and value.dtype is not wanted:
                value = value.to(wanted)  # type: ignore[attr-defined]  # noqa: PLW2901
            aligned[name] = value if bdim is None else with_batch_in_front(value, bdim, rank)
        return op.function(**aligned, **options)

    def _one_tensor(
        self, op: Op, split: dict[str, Any], options: dict[str, Any], name: str
    ) -> Any:
        value, bdim = split[name]
        value = front(value, bdim)
        ndim = value.ndim - 1
        others = {other: pair[0] for other, pair in split.items() if other != name}
        return op.function(
            **{name: value}, **others, **shifted_options(op, options, ndim, self.size)
        )

    def _loop(self, op: Op, split: dict[str, Any], options: dict[str, Any]) -> Any:
        if op.name not in _warned:
            _warned.add(op.name)
            warnings.warn(
                f"vmap runs {op.name} in a loop over the examples: it has no batching rule, so it is slow.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        runs = []
        for example in range(self.size):
            one = {name: _example(pair, example) for name, pair in split.items()}
            runs.append(op.function(**one, **options))
        if len(op.outputs) == 1 and op.outputs != ("*",):
            return stack(runs)
        return [stack(results) for results in zip(*runs, strict=True)]


def _promoted_per_example(op: Op, values: dict[str, Any]) -> Any:
    """The dtype torch gives one example: a mapped 0-d tensor does not widen the others."""
    if op.promote is None:
        return None
    arrays = [v._array if isinstance(v, Tensor) else v for v in values.values() if v is not None]
    dtype = result_dtype(arrays)
    return from_numpy_dtype(promote_to_float(dtype) if op.promote == "float" else dtype)


def _shifts_by_annotation(op: Op) -> bool:
    return op.shifts


def _example(pair: Any, number: int) -> Any:
    if isinstance(pair, list):
        return [_example(one, number) for one in pair]
    value, bdim = pair
    return value if bdim is None else select(value, bdim, number)


def front(value: Tensor, bdim: int) -> Any:
    """`value` with its hidden dimension first."""
    return value if bdim == 0 else movedim(value, bdim, 0)


def with_batch_in_front(value: Tensor, bdim: int, rank: int) -> Any:
    """`value` with its hidden dimension first and its own dimensions padded to `rank` by ones."""
    moved = front(value, bdim)
    shape = tuple(moved.shape)
    missing = rank - (len(shape) - 1)
    return moved if missing <= 0 else reshape(moved, (shape[0], *(1,) * missing, *shape[1:]))


def filled(value: Any, bdim: int | None, size: int) -> Any:
    """`value` as a batch: one that is shared by all examples is expanded."""
    if bdim is not None:
        return front(value, bdim)
    return expand(reshape(value, (1, *value.shape)), (size, *value.shape))


def shifted_options(op: Op, options: dict[str, Any], ndim: int, size: int) -> dict[str, Any]:
    """Options of one example as options of the batch: dimensions move by one."""
    shifted = dict(options)
    for param in op.params:
        value = options.get(param.name)
        if param.kind == "dim" and value is not None:
            if ndim == 0:
                NORMALISE["dim"](value, ndim, op.name)  # says if it does not exist
            shifted[param.name] = NORMALISE["dim"](value, ndim, op.name) + 1
        elif param.kind == "dims":
            dims = NORMALISE["dims"](value, ndim, op.name)
            everything = tuple(range(ndim))
            shifted[param.name] = tuple(dim + 1 for dim in (everything if dims is None else dims))
        elif param.kind == "shape" and value is not None:
            shifted[param.name] = (size, *NORMALISE["shape"](value, ndim, op.name))
    return shifted
