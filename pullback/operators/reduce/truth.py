"""Truth over all elements or some dimensions, and whether two tensors are the same."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import LIBRARIES, as_array, namespace, on_device_of
from pullback.core.device import META
from pullback.core.overriding import answers
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.patterned import Patterned
from pullback.operators.arrays.reductions import check_keepdim, reduced
from pullback.operators.conditions import below, given, host, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dims,
    Namespace,
    kernel,
    method,
    primitive,
    quick,
)
from pullback.operators.options import numpy_named, operand
from pullback.operators.pointwise.comparison import isclose

FOUND_IN = {"torch": "_is_all_true _is_any_true _test_check_tensor allclose equal"}


def _truth(xp: Namespace, op: str, ufunc: Any, input: Array, dim: Any, keepdim: Any) -> Array:
    """Reduce with `ufunc`; no dims at all, (), leave every element for itself, as in torch."""
    if keepdim is not False:
        check_keepdim(op, keepdim)
    if dim == ():
        result = input != 0
    else:
        result = reduced(ufunc, input, dim if input.ndim else None, None, keepdim)
    return result.astype(xp.uint8) if input.dtype.char == "B" else xp.asarray(result, xp.bool_)


@primitive(meta="lengths kept")
def all(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether all elements are true (not 0), or all over the dimensions `dim`.

    >>> import pullback as torch
    >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
    """
    return _truth(xp, "all", xp.logical_and, input, dim, keepdim)


@primitive(meta="lengths kept")
def any(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether any element is true (not 0), or any over the dimensions `dim`.

    >>> import pullback as torch
    >>> torch.any(torch.tensor([[True, False], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth(xp, "any", xp.logical_or, input, dim, keepdim)


_FEW = 4096
_few_truths = given(dim=None, keepdim=False) & host & below(_FEW)
_few_truths &= says("input_dtype is BOOL", BOOL=numpy.dtype("?"))


@kernel(all, when=_few_truths)  # a search in bytes starts sooner; true is any byte but 0
def _no_false_byte(input: Array) -> Array:
    return numpy.array(0 not in input.tobytes())


@kernel(any, when=_few_truths)
def _a_true_byte(input: Array) -> Array:
    return numpy.array(input.tobytes().strip(b"\0") != b"")


@primitive(meta="lengths kept")
def count_nonzero(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    """How many elements are not 0.

    >>> import pullback as torch
    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=1)
    tensor([1, 2])
    """
    if not dim or not input.ndim:
        return xp.asarray(xp.count_nonzero(input), xp.int64)
    return reduced(xp.add, input != 0, dim, xp.int64, keepdim=False)


def _whole_truth(op: str, ufunc: Any, tensor: Any) -> Tensor:
    """One truth value of all elements; inside vmap of the whole batch, and not mapped."""
    if tensor._array.dtype.kind != "b":
        raise RuntimeError(f"{op}: the tensor must be of dtype bool, got {tensor.dtype}.")
    while hasattr(tensor, "bdim"):  # mapped: all examples count
        tensor = tensor.value
    if tensor.is_nested:
        parts = [ufunc.reduce(one, None) for one in tensor._array.components()]
        return wrap(as_array(ufunc.reduce(parts)))
    combine = getattr(namespace(tensor._array), ufunc.__name__).reduce
    return wrap(as_array(combine(tensor._array, None)))


def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are true, over the whole batch inside vmap."""
    return _whole_truth("_is_all_true", numpy.logical_and, input)


def _is_any_true(input: Tensor) -> Tensor:
    """Whether any element of a bool tensor is true, over the whole batch inside vmap."""
    return _whole_truth("_is_any_true", numpy.logical_or, input)


def _test_check_tensor(input: Tensor) -> Tensor:
    """The tensor itself; RuntimeError unless all its elements are true, over the whole batch."""
    if not _is_all_true(input)._array:
        raise RuntimeError("_test_check_tensor: an element of the tensor is false.")
    return input


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements of two tensors are close, as by `isclose`.

    >>> import pullback as torch
    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-9]))
    True
    """
    close = all(isclose(input, other, rtol, atol, equal_nan))
    return bool(close if answers(close) else close._array)


@method
@quick
@numpy_named
def equal(
    input: Tensor = REQUIRED,
    other: Tensor = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    x2: Any = None,
) -> bool:
    """Whether two tensors have the same shape and elements; NaN equals nothing.

    >>> import pullback as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("equal", "input", input, x=x, a=a, x1=x1)
    if x2 is not None:
        other = operand("equal", "other", other, x2=x2)
    if input.__class__ is Tensor is other.__class__:
        a, b = input._array, other._array
        if type(a) is numpy.ndarray is type(b) and a.shape == b.shape and a.size < _FEW:
            return 0 not in (a == b).tobytes()  # a search in bytes starts sooner than `all`
    for name, one in (("input", input), ("other", other)):
        if not isinstance(one, Tensor):
            taken, answer = ports.met_by("equal", (input, other))
            if taken:
                return answer
            raise errors.not_a_tensor("equal", name, one)
    if answers(input, other):
        return bool(ports.answered_below("equal", input, other))
    a, b = input._array, other._array
    if isinstance(a, Patterned):
        return bool(a.equals(b))
    if a.shape != b.shape:
        if META in (input.device, other.device):
            raise errors.no_data("equal()")
        return False
    if type(a) in LIBRARIES:
        with on_device_of(a):
            return bool((a == b).all())
    return bool((a == b).all())
