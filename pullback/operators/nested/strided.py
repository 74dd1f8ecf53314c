"""Functions of nested tensors of the strided layout: component by component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.explain import layout_errors as errors
from pullback.core.tensor import Tensor
from pullback.operators.nested.array import form_of, is_nested
from pullback.operators.nested.form import Shapes
from pullback.operators.nested.parts import filled, mapped, of_components, steps_of, unbind, viewed
from pullback.operators.nested.primitives import from_values, values_of
from pullback.operators.nested.shape import component
from pullback.operators.nested.symbol import RaggedSize
from pullback.operators.options import as_dim, as_dims
from pullback.operators.running.naming import shown_as

__all__ = ["TABLE"]


def _dim(x: Any, dim: Any, op: str, *, more: int = 0) -> int:
    """A dimension of components, from one of the batch of them."""
    at = as_dim(dim, x._array.ndim + more, op)
    if at == 0:
        raise RuntimeError(
            f"{op}: dim 0 of a nested tensor is the batch, which stays as it is; use unbind()."
        )
    return at - 1


def _viewed(func: Any, function: Callable[[Any], Any], x: Any) -> Any:
    """A function that makes views of components: a view of the whole, or copies if it must."""
    made = viewed(function, x)
    return _named(func, mapped(function, x) if made is None else made)


def _named(func: Any, made: Any) -> Any:
    """The result, shown by the name of the function that was called."""
    words = func.__name__.strip("_").split("_")
    return shown_as("".join(word.capitalize() for word in words) + "Backward0", made)


def _along(name: str, *, more: int = 0) -> Callable[..., Any]:
    """A function whose first argument behind the tensor is a dimension."""

    def run(func: Any, x: Any, dim: Any, *args: Any, **kwargs: Any) -> Any:
        at = _dim(x, dim, name, more=more)
        return _viewed(func, lambda one: func(one, at, *args, **kwargs), x)

    return run


def _softmax(func: Any, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not form_of(x).count:
        return x.clone()
    at = _dim(x, dim, func.__name__)
    return _named(func, mapped(lambda one: func(one, at, *args, **kwargs), x))


def _transpose(func: Any, x: Any, dim0: Any, dim1: Any) -> Any:
    a, b = _dim(x, dim0, "transpose"), _dim(x, dim1, "transpose")
    return _viewed(func, lambda one: func(one, a, b), x)


def _select(func: Any, x: Any, dim: Any, index: Any) -> Any:
    if as_dim(dim, x._array.ndim, "select") == 0:
        return component(x, index)
    return _along("select")(func, x, dim, index)


def _squeeze(func: Any, x: Any, dim: Any = None) -> Any:
    if dim is None:
        raise errors.not_taken_nested("squeeze", x.layout, " without dim")
    dims = tuple(_dim(x, one, "squeeze") for one in ([dim] if isinstance(dim, int) else dim))
    return _viewed(func, lambda one: one.squeeze(dims), x)


def _chunk(func: Any, x: Any, chunks: Any, dim: Any = 0) -> Any:
    at = _dim(x, dim, "chunk")
    return _pieces(func, lambda one: func(one, chunks, at), x)


def _split(func: Any, x: Any, sizes: Any = None, dim: Any = 0, **named: Any) -> Any:
    sizes = next(iter(named.values()), sizes)
    at = _dim(x, dim, func.__name__)
    return _pieces(func, lambda one: func(one, sizes, at), x)


def _pieces(func: Any, cut: Callable[[Any], Any], x: Any) -> Any:
    """Views of the pieces that each component is cut into, as many of each."""
    counts = {len(cut(one)) for one in unbind(x.detach())}
    if len(counts) > 1:
        raise RuntimeError(
            f"{func.__name__}: components are cut into different numbers of pieces; cut along a "
            "dimension in which they agree."
        )
    return tuple(
        _viewed(func, lambda one, number=number: cut(one)[number], x)  # type: ignore[misc]  # bound
        for number in range(counts.pop() if counts else 0)
    )


def _narrow(func: Any, x: Any, dim: Any, start: Any, length: Any) -> Any:
    if as_dim(dim, x._array.ndim, "narrow") == 0:
        return _named(func, _some(x, slice(int(start), int(start) + int(length))))
    return _along("narrow")(func, x, dim, start, length)


def _reshape(func: Any, x: Any, *shape: Any) -> Any:
    """Other shapes of components: -1 keeps a size that differs."""
    sizes = tuple(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    form = form_of(x)
    if not sizes or sizes[0] not in (form.count, -1):
        raise RuntimeError(
            f"{func.__name__}: a nested tensor of {form.count} components keeps its first size, "
            f"got {sizes}."
        )
    return _viewed(func, lambda one: func(one, sizes[1:]), x)


def _some(x: Any, kept: slice) -> Any:
    """Some of the components, a view."""
    form = form_of(x)
    strides = form.strides or tuple(steps_of(size) for size in form.sizes)
    starts = form.starts if form.strides is not None else tuple(form.offsets[:-1])
    return from_values(values_of(x), Shapes(form.sizes[kept], strides[kept], starts[kept]))


def _sum(func: Any, x: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    if dim is None:
        return func(values_of(filled(x)), **options)
    dims: Any = as_dims(dim, x._array.ndim, func.__name__)
    if 0 in dims:
        raise RuntimeError(
            f"{func.__name__}: over the batch components of different sizes have no result."
        )
    axes = tuple(one - 1 for one in dims)
    return _named(func, mapped(lambda one: func(one, axes, keepdim=keepdim, **options), x))


def _products(func: Any, input: Any, other: Any, **named: Any) -> Any:
    if not (is_nested(input) and is_nested(other)):
        dense = other if is_nested(input) else input
        if isinstance(dense, Tensor) and dense.ndim > 2:
            parts = list(zip(_each(input), _each(other), strict=True))
            return _named(func, of_components([a @ b for a, b in parts]))
    return _named(func, mapped(lambda a, b: a @ b, input, other))


def _each(one: Any) -> Any:
    return unbind(one) if is_nested(one) else one.unbind(0)


def _linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    return shown_as("LinearBackward0", mapped(lambda one: func(one, weight, bias), input))


def _norm(func: Any, x: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape
    if any(isinstance(size, RaggedSize) for size in sizes):
        raise errors.not_taken_nested(func.__name__, x.layout, " over sizes that differ")
    return _on_each(func, x, normalized_shape, *args, **kwargs)


def _on_each(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return _named(func, mapped(lambda one: func(one, *args, **kwargs), x))


def _attention(func: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    return mapped(lambda q, k, v: func(q, k, v, *args, **kwargs), query, key, value)


def _cat(func: Any, tensors: Any, dim: Any = 0) -> Any:
    first = next(one for one in tensors if is_nested(one))
    if not all(is_nested(one) for one in tensors):
        raise errors.not_taken_nested("cat", first.layout, " together with dense ones")
    if as_dim(dim, first._array.ndim, "cat") == 0:
        return of_components([part for one in tensors for part in unbind(one)])
    at = _dim(first, dim, "cat")
    columns = zip(*(unbind(one) for one in tensors), strict=True)
    return _named(func, of_components([func(list(column), at) for column in columns]))


def _stack(func: Any, tensors: Any, dim: Any = 0) -> Any:
    at = _dim(tensors[0], dim, "stack", more=1)
    columns = zip(*(unbind(one) for one in tensors), strict=True)
    return _named(func, of_components([func(list(column), at) for column in columns]))


def _getitem(func: Any, x: Any, key: Any) -> Any:
    items = key if isinstance(key, tuple) else (key,)
    if items and isinstance(items[0], int) and not isinstance(items[0], bool):
        return component(x, items[0])[items[1:]] if len(items) > 1 else component(x, items[0])
    if items in ((Ellipsis,), ()):
        return x
    if items and isinstance(items[0], slice):
        some = x if items[0] == slice(None) else _some(x, items[0])
        return _viewed(func, lambda one: one[items[1:]], some) if items[1:] else some
    raise errors.not_taken_nested("x[...] by these keys", x.layout)


TABLE: dict[str, Callable[..., Any]] = {
    "softmax": _softmax,
    "log_softmax": _softmax,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "select": _select,
    "unsqueeze": _along("unsqueeze", more=1),
    "unflatten": _along("unflatten"),
    "squeeze": _squeeze,
    "chunk": _chunk,
    "narrow": _narrow,
    "split": _split,
    "split_with_sizes": _split,
    "reshape": _reshape,
    "view": _reshape,
    "sum": _sum,
    "mean": _sum,
    "amax": _sum,
    "amin": _sum,
    "any": _sum,
    "all": _sum,
    "matmul": _products,
    "bmm": _products,
    "__matmul__": _products,
    "linear": _linear,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "embedding": _on_each,
    "scaled_dot_product_attention": _attention,
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "stack": _stack,
    "__getitem__": _getitem,
}
