"""Makes nested tensors: of components, of values with offsets, of parts of padded tensors."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import as_dtype
from pullback.core.layout import jagged, strided
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.data import tensor
from pullback.operators.nested import calls as _calls  # noqa: F401 (lets operators ask)
from pullback.operators.nested import methods as _methods  # noqa: F401 (gives the class its methods)
from pullback.operators.nested.array import is_nested
from pullback.operators.nested.form import Jagged, Rows, rows_of
from pullback.operators.nested.parts import of_components, of_rows, rows_of_lengths
from pullback.operators.nested.primitives import from_values
from pullback.operators.shape.reshaping import reshape

__all__ = [
    *("as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged")
]


def _layout(op: str, layout: Any) -> Any:
    layout = strided if layout is None else layout
    if layout not in (strided, jagged):
        raise RuntimeError(f"{op}: layout must be torch.strided or torch.jagged, got {layout}.")
    return layout


def _moved(one: Any, dtype: Any, device: Any) -> Any:
    if dtype is not None and one.dtype is not as_dtype(dtype):
        one = one.to(as_dtype(dtype))
    return one if device is None else one.to(device)


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A batch of tensors of different sizes, copied; a leaf.

    Example:
        >>> import pullback as torch
        >>> a, b = torch.ones(2, 3), torch.ones(1, 3)
        >>> x = torch.nested.nested_tensor([a, b], layout=torch.jagged)
        >>> x.sum(1)
        tensor([[2., 2., 2.],
                [1., 1., 1.]])
    """
    kind = _layout("nested_tensor", layout)
    if not isinstance(tensor_list, list | tuple):
        raise TypeError(
            "nested_tensor: needs a list of tensors or of lists of numbers, got "
            f"{type(tensor_list).__name__}."
        )
    parts = [one.detach() if isinstance(one, Tensor) else tensor(one) for one in tensor_list]
    parts = [_moved(one, dtype, device) for one in parts]
    if not parts and dtype is not None and kind is strided:
        parts_dtype = as_dtype(dtype)
        made = of_components([]).to(parts_dtype)
    else:
        made = _gathered("nested_tensor", parts, kind)
    if len(parts) == 1:  # `cat` of one may stand on its memory
        made = made.clone()
    made = made.detach()
    return made.requires_grad_() if requires_grad else made


def _gathered(op: str, parts: list[Any], kind: Any) -> Tensor:
    if kind is strided:
        return of_components(parts)
    if not parts:
        raise RuntimeError(f"{op}: of layout torch.jagged an empty list makes no nested tensor.")
    return of_rows(parts)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A batch of tensors of different sizes, which gradients go back to.

    Example:
        >>> import pullback as torch
        >>> a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        >>> x = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
        >>> (x * 2).sum().backward()
        >>> b.grad
        tensor([2., 2., 2.])
    """
    kind = _layout("as_nested_tensor", layout)
    if isinstance(ts, Tensor):
        if is_nested(ts):
            if ts.layout is not kind:
                raise RuntimeError(
                    f"as_nested_tensor: {ts.layout} does not become {kind}; call unbind() and make "
                    "a nested tensor of the components."
                )
            made: Tensor = _moved(ts, dtype, device)
            return made
        if ts.ndim == 0:
            raise RuntimeError("as_nested_tensor: a tensor without dimensions is no batch.")
        return _of_batch(_moved(ts, dtype, device), kind)
    if not isinstance(ts, list | tuple) or not all(isinstance(one, Tensor) for one in ts):
        raise TypeError(
            f"as_nested_tensor: needs a tensor or a list of tensors, got {type(ts).__name__}."
        )
    return _gathered("as_nested_tensor", [_moved(one, dtype, device) for one in ts], kind)


def _of_batch(dense: Any, kind: Any) -> Tensor:
    """A nested tensor of the equally long components of a dense batch."""
    if kind is strided or dense.ndim < 2:
        return _gathered("as_nested_tensor", list(dense.unbind(0)), kind)
    count, length, *rest = dense.shape
    return from_values(
        reshape(dense, (count * length, *rest)), Jagged(rows_of_lengths([length] * count))
    )


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A jagged tensor on the memory of `values`: component i from `offsets[i]` on.

    It is `lengths[i]` long, or goes to `offsets[i + 1]`.

    Example:
        >>> import pullback as torch
        >>> x = torch.nested.nested_tensor_from_jagged(torch.arange(5.0), torch.tensor([0, 2, 5]))
        >>> x.unbind()
        (tensor([0., 1.]), tensor([2., 3., 4.]))
    """
    if not isinstance(values, Tensor) or is_nested(values):
        raise TypeError("nested_tensor_from_jagged: values must be a dense tensor.")
    for name, one in (("offsets", offsets), ("lengths", lengths)):
        if one is not None and not isinstance(one, Tensor):
            raise TypeError(
                f"nested_tensor_from_jagged: {name} must be a Tensor, got {type(one).__name__}."
            )
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged: needs offsets, lengths or both.")
    dim = 1 if jagged_dim is None else jagged_dim
    if not 1 <= dim <= values.ndim:
        raise ValueError(
            f"nested_tensor_from_jagged: jagged_dim must be 1 to {values.ndim}, got {jagged_dim}."
        )
    rows = rows_of_lengths(lengths._array) if offsets is None else rows_of(offsets, lengths)  # type: ignore[union-attr]  # one of them is there
    _check_rows(rows, values._array.shape[dim - 1])
    made: Tensor = from_values(values, Jagged(rows, dim))
    return made


def _check_rows(rows: Rows, count: int) -> None:
    offsets, lengths = rows.offsets._array, rows.lengths
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or not len(offsets):
        raise RuntimeError(
            "nested_tensor_from_jagged: offsets must be whole numbers, one more than components."
        )
    if len(lengths) != len(offsets) - 1:
        raise AssertionError(
            f"nested_tensor_from_jagged: {len(offsets)} offsets are for {len(offsets) - 1} "
            f"components, but there are {len(lengths)} lengths."
        )
    ends = rows.starts + lengths
    if len(ends) and (lengths.min() < 0 or rows.starts.min() < 0 or ends.max() > count):
        raise RuntimeError(
            f"nested_tensor_from_jagged: components must lie within {count} rows and not end "
            f"before they begin; offsets are {offsets.tolist()}, lengths {lengths.tolist()}."
        )


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Tensor:
    """A part of each row of a batch along dim 1, of different beginnings and lengths.

    Of layout torch.jagged a view on the memory of `tensor`.

    Example:
        >>> import pullback as torch
        >>> x = torch.nested.narrow(
        ...     torch.arange(6.0).reshape(2, 3), 1, 0, torch.tensor([1, 2]), layout=torch.jagged)
        >>> x.unbind()
        (tensor([0.]), tensor([3., 4.]))
    """
    kind = _layout("nested.narrow", layout)
    if kind is strided:
        if not isinstance(start, int) or not isinstance(length, int):
            raise RuntimeError(
                "nested.narrow: of layout torch.strided start and length are ints; use "
                "layout=torch.jagged for tensors of them."
            )
        return _of_batch(tensor.narrow(dim, start, length), strided)
    if dim != 1 or tensor.ndim < 2:
        raise RuntimeError(
            f"nested.narrow: of layout torch.jagged only dim 1 becomes ragged, not {dim}."
        )
    count, size = tensor.shape[:2]
    starts, lengths = (_numbers(one, count) for one in (start, length))
    if (starts < 0).any() or (lengths < 0).any() or (starts + lengths > size).any():
        raise RuntimeError(
            f"nested.narrow: parts must lie within the {size} elements of dim 1; start is "
            f"{starts.tolist()}, length {lengths.tolist()}."
        )
    begun = starts + numpy.arange(count) * size
    ends = begun[-1:] + lengths[-1:] if count else numpy.zeros(1, numpy.int64)
    rows = Rows(wrap(numpy.concatenate([begun, ends])), wrap(lengths))
    flat = reshape(tensor, (count * size, *tensor.shape[2:]))
    made: Tensor = from_values(flat, Jagged(rows))
    if tensor.is_contiguous():  # else the memory is that of a copy
        vars(made)["_viewed"] = tensor if tensor._base is None else tensor._base
    return made


def _numbers(given: Any, count: int) -> Any:
    if isinstance(given, int):
        return numpy.full(count, given, numpy.int64)
    numbers = given._array
    if numbers.shape != (count,):
        raise RuntimeError(
            f"nested.narrow: start and length need one number for each of {count} rows, got shape "
            f"{numbers.shape}."
        )
    return numbers.astype(numpy.int64)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of each row where a mask is true, as a jagged tensor; a row is the last dim.

    Example:
        >>> import pullback as torch
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.nested.masked_select(x, x > 1.5).unbind()
        (tensor([2.]), tensor([3., 4.]))
    """
    if tensor.layout is not strided or mask.layout is not strided:
        raise RuntimeError("nested.masked_select: needs dense tensors.")
    from pullback.operators.shape.reshaping import broadcast_to

    shape = numpy.broadcast_shapes(tuple(tensor.shape), tuple(mask.shape))
    if not shape:
        raise RuntimeError("nested.masked_select: a tensor without dimensions has no rows.")
    chosen = broadcast_to(mask, shape)
    values = broadcast_to(tensor, shape).masked_select(chosen)
    made: Tensor = from_values(values, Jagged(rows_of_lengths(chosen._array.sum(-1).reshape(-1))))
    return made
