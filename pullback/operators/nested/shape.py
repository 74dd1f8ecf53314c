"""Jagged tensors with dimensions in another order, taken apart or joined; the batch stays first."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.explain import layout_errors as errors
from pullback.core.tensor import Tensor
from pullback.operators.nested.array import form_of, is_nested
from pullback.operators.nested.form import Jagged
from pullback.operators.nested.parts import filled, rows_of_lengths, unbind
from pullback.operators.nested.pointwise import wrapped
from pullback.operators.nested.primitives import from_values, values_of
from pullback.operators.nested.symbol import RaggedSize
from pullback.operators.options import as_dim
from pullback.operators.shape import joining, reshaping, views

__all__: list[str] = []


def _dim(x: Any, dim: Any, op: str, *, more: int = 0) -> int:
    """A dimension that is neither the batch nor (without `more`) the ragged one."""
    at = as_dim(dim, x._array.ndim + more, op)
    if at == 0:
        raise RuntimeError(
            f"{op}: dim 0 of a nested tensor is the batch, which stays as it is; use unbind()."
        )
    if at == form_of(x).dim and not more:
        raise RuntimeError(
            f"{op}: in dim {at} the components of this nested tensor of shape "
            f"{tuple(x._array.shape)} differ; name another one, or use unbind()."
        )
    return at


# Order of dimensions ------------------------------------------------------------------------------


def transpose(func: Any, x: Any, dim0: Any, dim1: Any) -> Any:
    """Two dimensions swapped, none of them the batch."""
    a, b = (as_dim(dim, x._array.ndim, "transpose") for dim in (dim0, dim1))
    if a == b:
        return x
    order = list(range(x._array.ndim))
    order[a], order[b] = b, a
    return _permuted(
        x, order, "transpose", views.transpose(values_of(x), a - 1, b - 1) if a * b else None
    )


def permute(func: Any, x: Any, *dims: Any, **named: Any) -> Any:
    """The dimensions in another order, the batch first."""
    given = named.get("dims", dims[0] if len(dims) == 1 else dims)
    order = [as_dim(dim, x._array.ndim, "permute") for dim in given]
    if sorted(order) != list(range(x._array.ndim)):
        raise RuntimeError(
            f"permute: {tuple(given)} does not name each of {x._array.ndim} dimensions once."
        )
    return _permuted(x, order, "permute")


def _permuted(x: Any, order: list[int], op: str, values: Any = None) -> Any:
    if order[0] != 0:
        raise ValueError(f"{op}: the batch, dim 0 of a nested tensor, stays the first dimension.")
    if values is None:
        values = reshaping.permute(values_of(x), [dim - 1 for dim in order[1:]])
    form = form_of(x)
    return wrapped(values, form.at(order.index(form.dim)))


def movedim(func: Any, x: Any, source: Any, destination: Any) -> Any:
    """Dimensions at other places."""
    from_, to = ([one] if isinstance(one, int) else list(one) for one in (source, destination))
    ndim = x._array.ndim
    taken = [as_dim(dim, ndim, "movedim") for dim in from_]
    placed = [as_dim(dim, ndim, "movedim") for dim in to]
    order = [dim for dim in range(ndim) if dim not in taken]
    for place, dim in sorted(zip(placed, taken, strict=True)):
        order.insert(place, dim)
    return _permuted(x, order, "movedim")


# More or fewer dimensions -------------------------------------------------------------------------


def unsqueeze(func: Any, x: Any, dim: Any) -> Any:
    """One more dimension, of size 1."""
    at = _dim(x, dim, "unsqueeze", more=1)
    form = form_of(x)
    made = views.unsqueeze(values_of(x), at - 1)
    return wrapped(made, form.at(form.dim + (at <= form.dim)))


def squeeze(func: Any, x: Any, dim: Any = None) -> Any:
    """Without dimensions of size 1."""
    form, sizes = form_of(x), x._array.values.shape
    if dim is None:
        raise errors.not_taken_nested("squeeze", x.layout, " without dim")
    given = [dim] if isinstance(dim, int) else list(dim)
    axes = sorted(_dim(x, one, "squeeze") - 1 for one in given)
    axes = [axis for axis in axes if sizes[axis] == 1]
    before = sum(axis < form.axis for axis in axes)
    return wrapped(reshaping.squeeze(values_of(x), tuple(axes)), form.at(form.dim - before))


def unflatten(func: Any, x: Any, dim: Any, sizes: Any) -> Any:
    """One dense dimension as several."""
    at, form = _dim(x, dim, "unflatten"), form_of(x)
    made = reshaping.unflatten(values_of(x), at - 1, sizes)
    more = made.ndim - x._array.values.ndim
    return wrapped(made, form.at(form.dim + (more if at < form.dim else 0)))


def flatten(func: Any, x: Any, start_dim: Any = 0, end_dim: Any = -1) -> Any:
    """Several dense dimensions as one."""
    ndim, form = x._array.ndim, form_of(x)
    first, last = (as_dim(dim, ndim, "flatten") for dim in (start_dim, end_dim))
    if first <= form.dim <= last or first == 0:
        raise RuntimeError(
            f"flatten: dims {first} to {last} contain the batch or the ragged dim {form.dim} of "
            "this nested tensor; only dense ones become one."
        )
    made = reshaping.flatten(values_of(x), first - 1, last - 1)
    return wrapped(made, form.at(form.dim - (last - first if last < form.dim else 0)))


def reshape(func: Any, x: Any, *shape: Any, **named: Any) -> Any:
    """Another shape: batch and ragged dimension (its symbol, or -1) stay."""
    given = named.get("shape", named.get("size", shape))
    if len(given) == 1 and isinstance(given[0], tuple | list):
        given = given[0]
    name = func.__name__
    if len(given) == 1 and not isinstance(given[0], int | RaggedSize):
        if name.startswith("view"):  # another dtype
            return wrapped(func(values_of(x), given[0]), form_of(x))
        raise TypeError(f"{name}: needs sizes, got {given[0]!r}.")
    sizes = tuple(given)
    form, own = form_of(x), tuple(x._array.shape)
    if not sizes or sizes[0] not in (own[0], -1):
        raise RuntimeError(
            f"{name}: a nested tensor of {own[0]} components keeps its first size, got {sizes}."
        )
    at = _where_ragged(name, own, sizes, form)
    values = x._array.values.shape
    taken = (*sizes[1:at], values[form.axis], *sizes[at + 1 :])
    made = func(values_of(x), taken)
    return wrapped(made, form.at(at))


def _where_ragged(op: str, own: tuple[Any, ...], sizes: tuple[Any, ...], form: Jagged) -> int:
    symbol = form.rows.symbol
    named = [dim for dim, size in enumerate(sizes) if size == symbol]
    if not named:  # -1 stands for it, if the sizes before it are those before the ragged one
        before = math.prod(own[1 : form.dim])
        named = [
            dim
            for dim, size in enumerate(sizes)
            if dim and size == -1 and math.prod(sizes[1:dim]) == before
        ]
    if not named or math.prod(sizes[1 : named[0]]) != math.prod(own[1 : form.dim]):
        raise RuntimeError(
            f"{op}: shape {own} cannot become {sizes}; batch and ragged dimension ({symbol}, or "
            "-1) must stay, and as many elements before and behind it."
        )
    return named[0]


def view_as(func: Any, x: Any, other: Any) -> Any:
    """In the shape of another."""
    if other._array.shape == x._array.shape:
        return from_values(reshaping.view_as(values := values_of(x), values), form_of(x))
    return reshape(getattr(Tensor, func.__name__[:-3]), x, *other._array.shape)


def expand(func: Any, x: Any, *size: Any, **named: Any) -> Any:
    """Dimensions of size 1 repeated."""
    given = named.get("size", size)
    if len(given) == 1 and isinstance(given[0], tuple | list):
        given = given[0]
    form, own = form_of(x), tuple(x._array.shape)
    if len(given) != len(own) or given[0] not in (own[0], -1):
        raise RuntimeError(f"expand: {own} does not become {tuple(given)}.")
    if given[form.dim] != -1 and given[form.dim] != own[form.dim]:
        raise RuntimeError(f"expand: the ragged dim {form.dim} of {own} stays; use -1 there.")
    sizes = list(given[1:])
    sizes[form.axis] = -1
    return wrapped(values_of(x).expand(*sizes), form)


def expand_as(func: Any, x: Any, other: Any) -> Any:
    """A nested tensor, or a dense one, in the shape of a nested one."""
    if is_nested(x):
        return expand(func, x, *other._array.shape)
    from pullback.operators.nested.pointwise import _laid

    form, values = form_of(other), other._array.values
    laid = _laid(func, x, form, other, values.shape[form.axis])
    return wrapped(laid.expand(*values.shape), form)


# Parts --------------------------------------------------------------------------------------------


def select(func: Any, x: Any, dim: Any, index: Any) -> Any:
    """What stands at one index: a component, or all components at one place."""
    if as_dim(dim, x._array.ndim, "select") == 0:
        return component(x, index)
    at, form = _dim(x, dim, "select"), form_of(x)
    made = views.select(values_of(x), at - 1, index)
    return wrapped(made, form.at(form.dim - (at < form.dim)))


def component(x: Any, index: Any) -> Any:
    """The component at an index, a view."""
    form = form_of(x)
    number = int(index)
    if not -form.count <= number < form.count:
        raise IndexError(f"component {number} does not exist; there are {form.count}.")
    if not isinstance(form, Jagged):
        return unbind(x)[number]
    start, length = int(form.rows.starts[number]), int(form.rows.lengths[number])
    return joining.narrow(values_of(x), form.axis, start, length)


def narrow(func: Any, x: Any, dim: Any, start: Any, length: Any) -> Any:
    """Some of the elements along a dense dimension, or some components."""
    if as_dim(dim, x._array.ndim, "narrow") == 0:
        return _components(x, int(start), int(start) + int(length))
    return wrapped(func(values_of(x), _dim(x, dim, "narrow") - 1, start, length), form_of(x))


def _components(x: Any, start: int, stop: int) -> Any:
    """A range of components, on the same memory."""
    form = form_of(x)
    rows = form.rows
    if rows.given_lengths is not None:
        x = filled(x)
        form, rows = form_of(x), form_of(x).rows
    begin = int(rows.offsets._array[start])
    count = int(rows.offsets._array[stop]) - begin
    part = joining.narrow(values_of(x), form.axis, begin, count)
    return wrapped(part, Jagged(rows_of_lengths(rows.lengths[start:stop]), form.dim))


def split(func: Any, x: Any, split_size_or_sections: Any = None, dim: Any = 0, **named: Any) -> Any:
    """Pieces along a dense dimension."""
    sizes = named.get("split_size", split_size_or_sections)
    return wrapped(func(values_of(x), sizes, _dim(x, dim, "split") - 1), form_of(x))


def chunk(func: Any, x: Any, chunks: Any, dim: Any = 0) -> Any:
    """Pieces along a dense dimension, or of the batch."""
    if as_dim(dim, x._array.ndim, "chunk") != 0:
        return wrapped(func(values_of(x), chunks, _dim(x, dim, "chunk") - 1), form_of(x))
    count = form_of(x).count
    size = -(-count // chunks)
    return tuple(_components(x, a, min(a + size, count)) for a in range(0, count, size))


def getitem(func: Any, x: Any, key: Any) -> Any:
    """`x[i]` is a component, `x[i, ...]` a part of one; slices along dense dimensions."""
    items = key if isinstance(key, tuple) else (key,)
    if items and isinstance(items[0], int) and not isinstance(items[0], bool):
        return component(x, items[0])[items[1:]] if len(items) > 1 else component(x, items[0])
    whole = slice(None)
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items = (*items[:at], *[whole] * (x._array.ndim - len(items) + 1), *items[at + 1 :])
    items = (*items, *[whole] * (x._array.ndim - len(items)))
    form = form_of(x)
    if isinstance(items[0], slice) and items[0] != whole:
        start, stop, step = items[0].indices(form.count)
        if step != 1:
            raise errors.not_taken_nested("x[...] with a step", x.layout)
        x = _components(x, start, max(start, stop))
        form = form_of(x)
    plain = all(isinstance(one, slice | int) for one in items)
    if not plain or items[form.dim] != whole or not isinstance(items[0], slice):
        raise errors.not_taken_nested("x[...] by these keys", x.layout)
    if all(one == whole for one in items[1:]):
        return x
    gone = sum(isinstance(one, int) for one in items[1 : form.dim])
    return wrapped(values_of(x)[tuple(items[1:])], form.at(form.dim - gone))


# Several ------------------------------------------------------------------------------------------


def _joined(func: Any, tensors: Any, dim: Any, op: str, *, more: int) -> Any:
    parts = [one if is_nested(one) else None for one in tensors]
    if any(one is None for one in parts) or not parts:
        raise errors.not_taken_nested(op, "torch.jagged", " together with dense ones")
    first: Any = parts[0]
    at, form = _dim(first, dim, op, more=more), form_of(first)
    if not all(
        form_of(one).dim == form.dim and form.rows.same_lengths(form_of(one).rows) for one in parts
    ):
        raise RuntimeError(
            f"{op}: nested tensors need components of the same lengths, got shapes "
            f"{[tuple(one._array.shape) for one in parts]}."  # type: ignore[union-attr]  # none is None
        )
    if any(form_of(one).rows is not form.rows for one in parts):
        parts = [filled(one) for one in parts]
        form = Jagged(form.rows.packed, form.dim)
    made = func([values_of(one) for one in parts], at - 1)
    return wrapped(made, form.at(form.dim + (more and at <= form.dim)))


def cat(func: Any, tensors: Any, dim: Any = 0, **named: Any) -> Any:
    """One behind the other along a dense dimension, or one batch behind the other."""
    dim = named.get("axis", dim)
    first = next(one for one in tensors if isinstance(one, Tensor) and is_nested(one))
    if as_dim(dim, first._array.ndim, "cat") == 0 and all(is_nested(one) for one in tensors):
        from pullback.operators.nested.parts import of_rows

        return of_rows([part for one in tensors for part in unbind(one)])
    return _joined(func, tensors, dim, "cat", more=0)


def stack(func: Any, tensors: Any, dim: Any = 0, **named: Any) -> Any:
    """Along a new dense dimension."""
    return _joined(func, tensors, dim, "stack", more=1)
