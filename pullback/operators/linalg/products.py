"""Products of matrices and vectors: matmul and its special cases.

All large products end in BLAS: transposes go to it as views, a batch of matrices times one matrix
becomes a single product. `product_sums.py` has what is added to a product in one step,
`contraction.py` products that name their dimensions (einsum, tensordot), `matrices.py` those of
several matrices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.dtype import from_numpy_dtype
from pullback.core.memory.meta import MetaArray
from pullback.core.mode import get_mode
from pullback.core.ports import ports
from pullback.core.promotion import is_half, promote_dtypes
from pullback.core.tensor import Tensor
from pullback.operators.arrays import mkl
from pullback.operators.arrays.products import times, times_batches
from pullback.operators.arrays.row_major import row_major
from pullback.operators.attach.give_way import caught, reflected
from pullback.operators.conditions import below, floating, host, says
from pullback.operators.declare import (
    METHODS,
    REQUIRED,
    Array,
    Namespace,
    kernel,
    method,
    multilinear,
    primitive,
    quick,
)
from pullback.operators.dispatch.dispatch import DUNDERS, Unanswered
from pullback.operators.linalg import batch as batch_products
from pullback.operators.linalg.checks import CONVERTED, adjoint
from pullback.operators.options import numpy_named, operand
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.running.inplace import check_out_dtype, write_out
from pullback.operators.shape.reshaping import reshape
from pullback.operators.shape.views import t
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "ger=outer matmul", "linalg": "matmul"}

# The kernel ---------------------------------------------------------------------------------------

BLAS = frozenset("fdFD")
has_blas = says("@_dtype.char in BLAS", BLAS=BLAS)
_TINY = 256  # elements of the right side, up to which a product takes less than to look at it
_HALF = frozenset("eE")  # float16, bfloat16: neither BLAS nor NumPy is fast in them


def product(xp: Namespace, op: str, a: Array, b: Array) -> Array:
    """`a @ b` for arrays of one dtype, through BLAS where it has the dtype."""
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        raise RuntimeError(
            f"{op}: both tensors must have the same dtype, got {from_numpy_dtype(a.dtype)} and "
            f"{from_numpy_dtype(b.dtype)}; convert one of them."
        )
    kind = a.dtype.char
    if kind in BLAS:
        return _folded(xp, a, b)
    if kind in _HALF:
        return _folded(xp, a.astype(xp.float32), b.astype(xp.float32)).astype(a.dtype)
    if kind == "?":
        raise NotImplementedError(
            f"{op}: there is no product of torch.bool tensors; convert them, e.g. to torch.int64."
        )
    return xp.matmul(a, b)


def _folded(xp: Namespace, a: Array, b: Array) -> Array:
    """One product instead of a batch of them, where all have the same right side.

    Matrices and vectors go to `dot`, which takes half of the time that `matmul` does on small ones
    and copies what BLAS cannot read.
    """
    if b.ndim > 2:
        return _by_matmul(xp, a, b)
    if a.ndim <= 2:
        return times(a, b) if a.ndim == 2 == b.ndim else a.dot(b)
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    made = times(rows, b) if b.ndim == 2 else rows.dot(b)
    return made.reshape(a.shape[:-1] + b.shape[1:])


def _by_matmul(xp: Namespace, a: Array, b: Array) -> Array:
    if a.size < _SMALL > b.size:
        return xp.matmul(a, b)
    made = times_batches(a, b)
    return xp.matmul(for_blas(xp, a), for_blas(xp, b)) if made is None else made


_SMALL = 1024  # elements: as fast without BLAS


def times_transposed(a: Array, weight: Array) -> Array:
    """`a @ weight.T` of matrices that BLAS has.

    OpenBLAS packs a transposed right side, which takes longer than the product where the left one
    has few rows: then the smaller matrix is the right side, and the result is turned. 8 x 256 by
    256 x 256 takes 15 us and not 43, 32 rows 52 and not 72; by 1024 x 1024 32 rows take 0.77 ms and
    not 1.23, 96 rows 2.4 and not 3.2.
    """
    rows = len(a)
    made = times_batches(a, weight.T)
    if made is not None:
        return made
    made = mkl.product(a, weight.T) if rows > _FEW_ROWS else None
    if made is not None:
        return made
    if weight.size < LARGE or rows > _SOME_ROWS or rows < 2:
        return a.dot(weight.T)
    outputs = len(weight)
    if rows <= _FEW_ROWS:
        turns = rows * outputs > _UNPACKED
    else:
        turns = 2 * rows < outputs and weight.size >= 4 * LARGE
    if not turns:
        return a.dot(weight.T)
    # What is not packed at all wants no transposed side.
    right = row_major(a.T) if rows * weight.size <= _SMALL_PRODUCT else a.T
    return row_major(weight.dot(right).T)


_FEW_ROWS = 40
_SOME_ROWS = 128
LARGE = 8192  # elements of the right side
_UNPACKED = 1200  # results up to which OpenBLAS packs nothing
_SMALL_PRODUCT = 1_000_000  # and steps, without a transposed right side


def for_blas(xp: Namespace, a: Array) -> Array:
    """The array, or a copy where BLAS cannot read its strides: old NumPy leaves BLAS aside then."""
    if a.size < _SMALL or a.flags.c_contiguous or a.ndim < 2:
        return a
    down, right = a.strides[-2:]
    step = a.itemsize
    if (right == step and down >= step * a.shape[-1]) or (
        down == step and right >= step * a.shape[-2]
    ):
        return a
    return xp.ascontiguousarray(a)


def checked_product(xp: Namespace, op: str, a: Array, b: Array, **ndims: int) -> Array:
    """`a @ b`; `ndims` says what the two are called, and how many dimensions they must have."""
    for array, (name, ndim) in zip((a, b), ndims.items(), strict=True):
        check_ndim(op, name, array, ndim)
    check_inner(op, a, b)
    return product(xp, op, a, b)


def check_ndim(op: str, name: str, array: Array, ndim: int) -> None:
    """Refuse an operand of another number of dimensions."""
    if array.ndim != ndim:
        raise RuntimeError(
            f"{op}: {name} must have {ndim} dimensions, got shape {tuple(array.shape)}."
        )


def check_inner(op: str, a: Array, b: Array) -> None:
    """Refuse factors whose inner sizes differ."""
    rows = b.shape[-2 if b.ndim > 1 else 0]
    if a.shape[-1] != rows:
        which = "second to last" if b.ndim > 1 else "only"
        raise RuntimeError(
            f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied: the last "
            f"size of the first, {a.shape[-1]}, must equal the {which} size of the second, {rows}."
        )


def are_halves(xp: Namespace, *arrays: Array) -> bool:
    """Whether all are of one half precision, in the host's memory.

    Sums with a product of such are computed in single and rounded once, as in torch; a device's
    library does that by itself.
    """
    dtype = arrays[0].dtype
    return xp is numpy and is_half(dtype) and all(one.dtype == dtype for one in arrays)


def expands(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether broadcasting leads from one shape to the other."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in pairs)


def in_one_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype that the two make together, however few dimensions either has."""
    wanted = promote_dtypes(a._array.dtype, b._array.dtype)
    return astype(a, wanted), astype(b, wanted)


def delivered(op: str, result: Any, out: Any) -> Any:
    """The result of a function made of operators, in `out` where the user gave one."""
    if out is None:
        return result
    if result.requires_grad or (getattr(out, "requires_grad", False) and get_mode().grad):
        raise errors.out_requires_grad(op)
    if op not in CONVERTED and not op.startswith("fft."):
        check_out_dtype(op, out, result._array)
    write_out(op, out, result._array)
    return out


def total(*terms: Any) -> Any:
    """The sum of the tangents that there are; None and False are none."""
    there = [term for term in terms if term is not None and term is not False]
    total = there[0]
    for term in there[1:]:
        total = total + term
    return total


# Products -----------------------------------------------------------------------------------------


@multilinear(
    batch=batch_products.product,
    input=lambda g, mat2: mm(g, t(conj(mat2))),
    mat2=lambda g, input: mm(t(conj(input)), g),
    meta="lengths kept",
)
def mm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The product of two matrices.

    >>> import pullback as torch
    >>> torch.mm(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return checked_product(xp, "mm", input, mat2, input=2, mat2=2)


_matrices = says("input_ndim == 2 == mat2_ndim", "input_dtype is mat2_dtype")


@kernel(mm, when=_matrices & floating & below(_TINY, "mat2_size"), tries=True, inline=True)
def _tiny_matrices(input: Array, mat2: Array) -> Array:
    return input.dot(mat2)


@kernel(mm, when=host & _matrices & has_blas, tries=True)
def _of_matrices(input: Array, mat2: Array) -> Array:
    return times(input, mat2)


@multilinear(
    batch=batch_products.product,
    input=lambda g, mat2: bmm(g, adjoint(mat2)),
    mat2=lambda g, input: bmm(adjoint(input), g),
    meta="lengths kept",
)
def bmm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The products of two batches of matrices; batch sizes must be equal.

    >>> import pullback as torch
    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[[3.]],
    <BLANKLINE>
            [[3.]]])
    """
    return batch_product(xp, "bmm", input, mat2)


_batches = host & says("input_ndim == 3 == mat2_ndim", "input_dtype is mat2_dtype") & has_blas


@kernel(bmm, when=_batches & says("len(input) == 1 == len(mat2)"), tries=True)
def _of_one(input: Array, mat2: Array) -> Array:
    """`matmul` takes longer to begin."""
    return times(input[0], mat2[0])[None]


@kernel(bmm, when=_batches & says("len(input) == len(mat2)", "input_shape[2] == mat2_shape[1]"))
def _of_many(xp: Namespace, input: Array, mat2: Array) -> Array:
    return _by_matmul(xp, input, mat2)


def batch_product(xp: Namespace, op: str, batch1: Array, batch2: Array) -> Array:
    """The products of equally many matrices."""
    if batch1.ndim == 3 == batch2.ndim and len(batch1) != len(batch2):
        raise RuntimeError(
            f"{op}: batches of {len(batch1)} and {len(batch2)} matrices (shapes {batch1.shape} and "
            f"{batch2.shape}); they must be equally many. matmul broadcasts."
        )
    return checked_product(xp, op, batch1, batch2, batch1=3, batch2=3)


@multilinear(
    batch=batch_products.product,
    input=lambda g, vec: outer(g, conj(vec)),
    vec=lambda g, input: mv(adjoint(input), g),
    meta="lengths kept",
)
def mv(xp: Namespace, input: Array, vec: Array) -> Array:
    """A matrix times a vector.

    >>> import pullback as torch
    >>> torch.mv(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return checked_product(xp, "mv", input, vec, input=2, vec=1)


_and_vector = says("input_ndim == 2", "vec_ndim == 1", "input_dtype is vec_dtype")


@kernel(mv, when=_and_vector & floating, tries=True, inline=True)
def _with_vector(input: Array, vec: Array) -> Array:
    return input.dot(vec)


@multilinear(
    batch=batch_products.product,
    input=lambda g, tensor: g * conj(tensor),
    tensor=lambda g, input: g * conj(input),
    meta="lengths kept",
)
def dot(xp: Namespace, input: Array, tensor: Array) -> Array:
    """The sum of the products of two vectors' elements; nothing is conjugated.

    >>> import pullback as torch
    >>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if input.shape == tensor.shape:
        _check_devices("dot", input, tensor)
    return checked_product(xp, "dot", input, tensor, input=1, tensor=1)


_two_vectors = says("input_ndim == 1 == tensor_ndim", "input_dtype is tensor_dtype")
_has_data = says("type(tensor) is ndarray", ndarray=numpy.ndarray)


@kernel(dot, when=_two_vectors & floating & _has_data, tries=True, inline=True)
def _of_vectors(input: Array, tensor: Array) -> Array:
    return input.dot(tensor)


@primitive(
    batch=batch_products.product,
    input=lambda g, other: conj(g) * other,
    other=lambda g, input: g * input,
    jvp=lambda d_input, d_other, input, other: total(
        d_input is not None and vdot(d_input, other), d_other is not None and vdot(input, d_other)
    ),
    meta="lengths kept",
)
def vdot(xp: Namespace, input: Array, other: Array) -> Array:
    """As `dot`, with the elements of `input` conjugated.

    >>> import pullback as torch
    >>> torch.vdot(torch.tensor([1j]), torch.tensor([1j]))
    tensor(1.+0.j)
    """
    _check_devices("vdot", input, other)
    return checked_product(xp, "vdot", conj(input), other, input=1, other=1)


def _check_devices(op: str, input: Array, other: Array) -> None:
    """Here, as a single number does not show that it was computed without data."""
    if type(other) is MetaArray is not type(input):
        raise errors.devices_differ(op, "input")


def times_conjugate(matrix: Any, vector: Any) -> Any:
    """`matrix @ conj(vector)`, for rules of operators that promote: the dtypes may differ."""
    return mv(matrix, astype(conj(vector), matrix.dtype))


@multilinear(
    casts_out=True,
    batch=batch_products.outer,
    input=lambda g, vec2: times_conjugate(g, vec2),
    vec2=lambda g, input: times_conjugate(g.mT, input),
    promote="same",
    numbers=False,
    node="MulBackward0",
)
def outer(xp: Namespace, input: Array, vec2: Array) -> Array:
    """All products of an element of one vector with an element of another, as a matrix.

    >>> import pullback as torch
    >>> torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_ndim("outer", "input", input, 1)
    check_ndim("outer", "vec2", vec2, 1)
    return input[:, None] * vec2


@kernel(outer, when=says("input_ndim == 1 == vec2_ndim"), inline=True)
def _unchecked(input: Array, vec2: Array) -> Array:
    return input[:, None] * vec2


# Any dimensions -----------------------------------------------------------------------------------


def _matmul_input(g: Any, input_shape: Any, other: Any) -> Any:
    if len(input_shape) == 1:
        return _matmul(conj(other), g[..., None])[..., 0]
    if other.ndim == 1:
        return g[..., None] * conj(other)
    return _matmul(g, adjoint(other))


def _matmul_other(g: Any, input: Any, other_shape: Any, other_turned: bool) -> Any:
    if len(other_shape) > 2 and input.ndim > 1:
        return _matmul(adjoint(input), g)
    if input.ndim == 1:
        return conj(input)[:, None] * g[..., None, :]
    rows = math.prod(input.shape[:-1])
    folded = reshape(input, (rows, input.shape[-1]))
    if len(other_shape) == 1:
        return mv(adjoint(folded), reshape(g, (rows,)))
    given = reshape(g, (rows, g.shape[-1]))
    if other_turned:  # a weight's transpose: then its gradient lies as the weight, without a copy
        return t(mm(t(given), conj(folded)))
    return mm(adjoint(folded), given)


@multilinear(
    batch=batch_products.product,
    input=_matmul_input,
    other=_matmul_other,
    node="UnsafeViewBackward0",
    meta="lengths kept",
)
def _matmul(xp: Namespace, input: Array, other: Array) -> Array:
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"matmul: both tensors need at least 1 dimension, got shapes {input.shape} and "
            f"{other.shape}; use mul for 0-d tensors."
        )
    check_inner("matmul", input, other)
    try:
        return product(xp, "matmul", input, other)
    except ValueError:
        raise errors.shapes_do_not_broadcast(
            "matmul (batch dimensions)", input.shape[:-2], other.shape[:-2]
        ) from None


@kernel(
    _matmul,
    when=host
    & says("input_ndim == 3 == other_ndim", "input_dtype is other_dtype")
    & has_blas
    & says("input_shape[2] == other_shape[1]", "len(input) == len(other)"),
)
def _of_equally_many(xp: Namespace, input: Array, other: Array) -> Array:
    return _by_matmul(xp, input, other)


@method
@quick
@numpy_named
def matmul(
    input: Any = REQUIRED,
    other: Any = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    x2: Any = None,
    *,
    out: Any = None,
) -> Any:
    """The product of two tensors: vectors, matrices, or batches of matrices that broadcast.

    >>> import pullback as torch
    >>> torch.matmul(torch.ones(5, 2, 3), torch.ones(3, 4)).shape
    torch.Size([5, 2, 4])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("matmul", "input", input, x=x, a=a, x1=x1)
    if x2 is not None:
        other = operand("matmul", "other", other, x2=x2)
    try:
        if input.__class__ is Tensor is other.__class__:
            left, right = input._array.ndim, other._array.ndim
        else:  # arrays too, in rules
            left, right = input.ndim, other.ndim
    except AttributeError:
        taken, answer = ports.met_by("matmul", (input, other))
        if taken:
            return answer
        name = "other" if hasattr(input, "ndim") else "input"
        raise errors.not_a_tensor("matmul", name, other if name == "other" else input) from None
    if left == 2 == right:
        function = mm
    elif right == 1 and 1 <= left <= 2:  # no table: rules want operators by name
        function = dot if left == 1 else mv
    else:
        function = _matmul
    try:
        return function(input, other) if out is None else function(input, other, out=out)
    except RuntimeError as error:
        raise errors.as_called(error, "matmul", "mm", "mv", "dot") from None


def _times(self: Any, other: Any) -> Any:
    """`self @ other`; as `matmul`, but what is no tensor gets its turn."""
    try:
        left, right = self._raw.ndim, other._raw.ndim
    except AttributeError:
        return _caught(self, other)
    if left == 2 == right:
        function = mm
    elif right == 1 and 1 <= left <= 2:
        function = dot if left == 1 else mv
    else:
        function = _matmul
    try:
        return function(self, other)
    except Unanswered:
        return NotImplemented
    except RuntimeError as error:
        raise errors.as_called(error, "matmul (@)", "mm", "mv", "dot", "matmul") from None


_caught = caught(matmul)
METHODS["__matmul__"] = _times
DUNDERS.add(_times)


METHODS["__rmatmul__"] = reflected(matmul)
