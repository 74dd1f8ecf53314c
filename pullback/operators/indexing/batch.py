"""Batching rules of indexing: examples of the indexed tensor lie one below another.

An index that differs between them is moved to its own; see batching.py for what a rule is.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.mode import get_mode
from pullback.operators.batching import filled, front, ndim_of, padded, refused
from pullback.operators.declare import Op
from pullback.operators.options import as_dim

Split = dict[str, Any]
Options = dict[str, Any]


def _offsets(like: Any, size: int, step: int, ndim: int) -> Any:
    """0, step, 2 * step, ... for each example, with `ndim` dimensions behind."""
    return like.new_tensor([example * step for example in range(size)]).reshape(
        (size, *(1,) * ndim)
    )


# Rows along one dimension -------------------------------------------------------------------------


def rows(op: Op, size: int, split: Split, options: Options) -> Any:
    """index_select, index_add and the like: `dim` of all examples is one long dimension."""
    input, index = split["input"], split["index"]
    others = {name: pair for name, pair in split.items() if name not in ("input", "index")}
    shape = _example_shape(split, options)
    dim = as_dim(options["dim"], len(shape), op.name) if shape else 0
    kept = {name: value for name, value in options.items() if name not in ("dim", "shape")}
    value = filled(input, size)
    values = {name: filled(pair, size) for name, pair in others.items()}
    if not shape:
        value = value.unsqueeze(1)
        values = {
            name: one.unsqueeze(1) if one.ndim == 1 and name != "value" else one
            for name, one in values.items()
        }
    if "value" in values:
        made = _filled_rows(size, value, filled(index, size), values["value"], dim)
        return made if shape else made.reshape((size,))
    if index[1] is None:
        whole = {"shape": (size, *(shape or (1,)))} if "shape" in options else {}
        made = op.function(value, dim=dim + 1, index=index[0], **values, **whole, **kept)
    else:
        made = _long_rows(
            op, size, value, filled(index, size), values, dim, shape or (1,), kept, options
        )
    return made if shape else made.reshape((size,))


def _filled_rows(size: int, value: Any, index: Any, filling: Any, dim: int) -> Any:
    """index_fill with a value of each example's own: a mask of the rows."""
    index = index.reshape((size, -1)) % value.shape[dim + 1]
    mask = index.new_zeros((size, value.shape[dim + 1])).scatter_add(
        1, index, index.new_ones((1,)).expand(index.shape)
    )
    mask = (mask > 0).reshape((size, *(1,) * dim, -1, *(1,) * (value.ndim - dim - 2)))
    filling = filling.reshape((size, *(1,) * (value.ndim - 1))).to(value.dtype)
    return value.masked_fill(mask, 0) + filling.expand(value.shape).masked_fill(~mask, 0)


def _example_shape(split: Split, options: Options) -> tuple[int, ...]:
    if "shape" in options:
        return tuple(options["shape"])
    value, bdim = split["input"]
    shape = list(value.shape)
    if bdim is not None:
        del shape[bdim]
    return tuple(shape)


def _long_rows(
    op: Op,
    size: int,
    value: Any,
    index: Any,
    values: dict[str, Any],
    dim: int,
    shape: tuple[int, ...],
    kept: Options,
    options: Options,
) -> Any:
    count = shape[dim]
    index = index.reshape((size, -1))
    index = index + (index < 0).to(index.dtype) * count + _offsets(index, size, count, 1)
    lines = {name: _lined_up(one, dim) for name, one in values.items()}
    whole = {}
    if "shape" in options:
        whole["shape"] = (size * count, *shape[:dim], *shape[dim + 1 :])
    made = op.function(
        _lined_up(value, dim), dim=0, index=index.reshape((-1,)), **lines, **whole, **kept
    )
    return made.reshape((size, made.shape[0] // size, *made.shape[1:])).movedim(1, dim + 1)


def _lined_up(value: Any, dim: int) -> Any:
    """(examples, ..., dim, ...) as (examples * dim, ...)."""
    moved = value.movedim(dim + 1, 1)
    return moved.reshape((moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def gathered(op: Op, size: int, split: Split, options: Options) -> Any:
    """gather: an example or an index without dimensions counts as a line of one element."""
    value, index = (filled(split[name], size) for name in ("input", "index"))
    shape = tuple(index.shape)
    dim = as_dim(options["dim"], value.ndim - 1, op.name) if value.ndim > 1 else 0
    if 1 in (value.ndim, index.ndim) and value.ndim + index.ndim <= 3:
        value, index = (one.unsqueeze(1) if one.ndim == 1 else one for one in (value, index))
    rest = {name: value for name, value in options.items() if name != "dim"}
    return op.function(value, dim + 1, index, **rest).reshape(shape)


# Places in the flattened tensor -------------------------------------------------------------------


def flat_places(op: Op, size: int, split: Split, options: Options) -> Any:
    """take, put and their adjoints: flattened examples one after another."""
    shape = _example_shape(split, options)
    count = math.prod(shape)
    index = filled(split["index"], size)
    index_shape = tuple(index.shape[1:])
    index = index + (index < 0).to(index.dtype) * count
    index = (index + _offsets(index, size, count, index.ndim - 1)).reshape((-1,))
    values = {
        name: filled(pair, size).reshape((-1,)) for name, pair in split.items() if name != "index"
    }
    options = dict(options)
    if "shape" in options:
        options["shape"] = (size * count,)
    made = op.function(**values, index=index, **options)
    return made.reshape((size, *(index_shape if op.name == "take" else shape)))


def whole(op: Op, size: int, split: Split, options: Options) -> Any:
    """Element by element: the options say nothing of the tensor's shape."""
    ((value, bdim),) = split.values()
    return op.function(front(value, bdim), **options)


def masked(op: Op, size: int, split: Split, options: Options) -> Any:
    """masked_select: one mask for all takes as many elements of each example."""
    mask = split["mask"]
    if mask[1] is not None:
        return refused(op, size, split, options)
    input = split["input"]
    rank = max(ndim_of(input), mask[0].ndim)
    value = padded(filled(input, size), 0, rank)
    shape = _common(value, padded(mask[0].unsqueeze(0).expand((size, *mask[0].shape)), 0, rank))
    places = mask[0].broadcast_to(shape[1:])
    return value.broadcast_to(shape)[:, places] if rank else value[:, None][:, places.reshape((1,))]


def unmasked(op: Op, size: int, split: Split, options: Options) -> Any:
    """The adjoint of `masked`."""
    mask = split["mask"]
    if mask[1] is not None:
        return refused(op, size, split, options)
    g = filled(split["input"], size)
    rank = max(len(options["shape"]), mask[0].ndim)
    shape = (1,) * (rank - len(options["shape"])) + tuple(options["shape"])
    return op.function(g.reshape((-1,)), (size, *shape), mask[0])


def in_order(op: Op, size: int, split: Split, options: Options) -> Any:
    """Elements in the first places of each example."""
    value = filled(split["input"], size)
    count = math.prod(options["shape"])
    whole = value.new_zeros((size, count)).slice_scatter(value, 1, 0, value.shape[1])
    return whole.reshape((size, *options["shape"]))


def scattered(op: Op, size: int, split: Split, options: Options) -> Any:
    """masked_scatter: the n-th place of a mask gets the n-th element of its example's source."""
    input, mask, source = split["input"], split["mask"], split["source"]
    rank = max(ndim_of(input), ndim_of(mask))
    target = padded(filled(input, size), 0, rank)
    places = padded(filled(mask, size), 0, rank)
    shape = _common(target, places)
    target, places = target.broadcast_to(shape), places.broadcast_to(shape)
    elements = filled(source, size).reshape((size, -1))
    number = places.reshape((size, -1)).cumsum(1)
    # Inside another vmap there are no values to look at; there, gather refuses what is too many.
    seen = number.numel() and not get_mode().levels
    if seen and bool((number[:, -1] > elements.shape[1]).any()):
        raise RuntimeError(
            "masked_scatter: a mask holds at more places than the source has elements, "
            f"{elements.shape[1]}."
        )
    if not elements.shape[1]:
        return target.clone()
    taken = elements.gather(1, (number - 1).clamp(min=0)).reshape(shape)
    return target.masked_fill(places, 0) + taken.masked_fill(~places, 0)


def _common(a: Any, b: Any) -> tuple[int, ...]:
    return tuple(max(m, n) if min(m, n) else 0 for m, n in zip(a.shape, b.shape, strict=True))


# Index tensors ------------------------------------------------------------------------------------


def _indices(split: Split) -> list[Any]:
    if "indices" in split:
        return list(split["indices"])
    return [split[name] for name in ("first", "second") if split[name][0] is not None]


class _Key:
    """An advanced key of one example as one of the batch."""

    def __init__(self, op: Op, size: int, split: Split, options: Options, ndim: int) -> None:
        pairs = _indices(split)
        self.op, self.size = op, size
        dims = options["dims"]
        spans = [p[0].ndim - (p[1] is not None) if _is_mask(p) else 1 for p in pairs]
        self.together = all(dims[i] + spans[i] == dims[i + 1] for i in range(len(dims) - 1))
        self.first = dims[0]
        self.taken = sum(spans)
        mapped = any(bdim is not None for _, bdim in pairs)
        if any(_is_mask(pair) for pair in pairs):
            if mapped:
                raise RuntimeError(
                    "vmap: indexing with a mask that differs between examples gives results of "
                    "different sizes. Use torch.where, or do it outside of vmap."
                )
            self.rank = max(1 if _is_mask(p) else p[0].ndim for p in pairs)
        else:
            self.rank = max(ndim_of(pair) for pair in pairs)
        self.mapped = mapped
        self.example_ndim = ndim
        if mapped:
            rows = _offsets(pairs[0][0], size, 1, self.rank)
            self.dims = (0, *(dim + 1 for dim in dims))
            self.indices = [rows, *(v if d is None else padded(v, d, self.rank) for v, d in pairs)]
        else:
            self.dims = tuple(dim + 1 for dim in dims)
            self.indices = [value for value, _ in pairs]

    def outward(self, result: Any) -> Any:
        """A result of the batch's key, as NumPy lays it out, with the examples in front."""
        if self.mapped:
            # NumPy: (examples, index, rest), unless all indexed dims were in front already.
            if self.together and self.first:
                source = tuple(range(1, 1 + self.rank))
                return result.movedim(source, tuple(dim + self.first for dim in source))
            return result
        if self.together:
            return result
        return result.movedim(self.rank, 0)  # (index, examples, rest)

    def inward(self, values: Any) -> Any:
        """The inverse of `outward`, for values laid out like a whole result."""
        if self.mapped:
            if self.together and self.first:
                source = tuple(range(1, 1 + self.rank))
                return values.movedim(tuple(dim + self.first for dim in source), source)
            return values
        return values if self.together else values.movedim(0, self.rank)

    @property
    def result_ndim(self) -> int:
        """Of one example."""
        return self.rank + self.example_ndim - self.taken


def _is_mask(pair: Any) -> bool:
    return not pair[0].dtype.is_floating_point and str(pair[0].dtype) in (
        "torch.bool",
        "torch.uint8",
    )


def _call(op: Op, many: Any, key: _Key, *arguments: Any) -> Any:
    """The operator for up to two indices, or its form for many."""
    if len(key.indices) <= 2 and "first" in {param.name for param in op.params}:
        return op.function(*arguments, *key.indices)
    return many(*arguments, tuple(key.indices))


def taken(many: Any) -> Any:
    """The rule of `_index`; `many` gives the operator for many indices."""

    def rule(op: Op, size: int, split: Split, options: Options) -> Any:
        input = split["input"]
        key = _Key(op, size, split, options, ndim_of(input))
        return key.outward(_call(op, many(), key, filled(input, size), key.dims))

    return rule


def placed(many: Any) -> Any:
    """The rule of `_place`, the adjoint of `_index`."""

    def rule(op: Op, size: int, split: Split, options: Options) -> Any:
        shape = tuple(options["shape"])
        key = _Key(op, size, split, options, len(shape))
        values = key.inward(filled(split["input"], size))
        return _call(op, many(), key, values, (size, *shape), key.dims)

    return rule


def cleared(op: Op, size: int, split: Split, options: Options) -> Any:
    """The rule of `_clear`."""
    input = split["input"]
    key = _Key(op, size, split, options, ndim_of(input))
    return op.function(filled(input, size), key.dims, tuple(key.indices))


def put(many: Any) -> Any:
    """The rule of `_index_put`: values broadcast to what the key names."""

    def rule(op: Op, size: int, split: Split, options: Options) -> Any:
        input, values = split["input"], split["values"]
        key = _Key(op, size, split, options, ndim_of(input))
        whole = filled(values, size)
        missing = key.result_ndim - (whole.ndim - 1)
        whole = whole.reshape((size, *(1,) * missing, *whole.shape[1:]))
        accumulate = options["accumulate"]
        return _call(op, many(), key, filled(input, size), key.inward(whole), key.dims, accumulate)

    return rule


# Searching ----------------------------------------------------------------------------------------


def searched(op: Op, size: int, split: Split, options: Options) -> Any:
    """searchsorted: a sequence for each example is searched row by row."""
    sequence, input, sorter = split["sorted_sequence"], split["input"], split["sorter"]
    if sequence[1] is None and sorter[1] is None and ndim_of(sequence) == 1:
        return op.function(sequence[0], front(*input), sorter=sorter[0], **options)
    values = filled(input, size)
    if not hasattr(values, "reshape"):
        values = sequence[0].new_tensor(values).expand((size,))
    shape = tuple(values.shape)
    flat = values.reshape((size, -1)) if ndim_of(sequence) == 1 else values
    order = None if sorter[0] is None else filled(sorter, size)
    return op.function(filled(sequence, size), flat, sorter=order, **options).reshape(shape)


def contained(op: Op, size: int, split: Split, options: Options) -> Any:
    """isin: tested against the elements of the example's own set."""
    elements, tested = split["elements"], split["test_elements"]
    if tested[1] is None:
        return op.function(front(*elements), tested[0], **options)
    whole = filled(elements, size)
    shape = tuple(whole.shape)
    found = whole.reshape((size, -1, 1)) == filled(tested, size).reshape((size, 1, -1))
    result = found.any(2).reshape(shape)
    return ~result if options["invert"] else result


__all__ = [
    "cleared",
    "contained",
    "flat_places",
    "in_order",
    "masked",
    "placed",
    "put",
    "rows",
    "scattered",
    "searched",
    "taken",
    "unmasked",
    "whole",
]
