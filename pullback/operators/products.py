"""Products of matrices and vectors: matmul and its special cases, and sums with a product.

All large products end in BLAS: transposes go to it as views, a batch of matrices times one matrix
becomes a single product. `contraction.py` has those that name their dimensions (einsum, tensordot),
`matrices.py` those of several matrices.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core import errors
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import get_mode
from pullback.operators import batch_products
from pullback.operators.arithmetic import conj, mul
from pullback.operators.declare import METHODS, Array, Namespace, method, multilinear, primitive
from pullback.operators.give_way import caught, gives_way
from pullback.operators.inplace import write_out
from pullback.operators.reduction import sum
from pullback.operators.shape import reshape
from pullback.operators.views import t

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "dot",
    "ger",
    "matmul",
    "mm",
    "mv",
    "outer",
    "vdot",
]

# The kernel ---------------------------------------------------------------------------------------

_BLAS = frozenset("fdFD")
_HALF = frozenset("eE")  # float16, bfloat16: neither BLAS nor NumPy is fast in them


def product(xp: Namespace, op: str, a: Array, b: Array) -> Array:
    """`a @ b` for arrays of one dtype, through BLAS where it has the dtype."""
    kind = a.dtype.char
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        raise RuntimeError(
            f"{op}: both tensors must have the same dtype, got {from_numpy_dtype(a.dtype)} and "
            f"{from_numpy_dtype(b.dtype)}; convert one of them."
        )
    if kind in _BLAS:
        return _folded(xp, a, b)
    if kind in _HALF:
        return _folded(xp, a.astype(xp.float32), b.astype(xp.float32)).astype(a.dtype)
    if kind == "?":
        raise NotImplementedError(
            f"{op}: there is no product of torch.bool tensors; convert them, e.g. to torch.int64."
        )
    return xp.matmul(a, b)


def _folded(xp: Namespace, a: Array, b: Array) -> Array:
    """One product instead of a batch of them, where all have the same right side."""
    if a.ndim <= 2 or b.ndim > 2:
        return xp.matmul(_for_blas(xp, a), _for_blas(xp, b))
    rows, columns = math.prod(a.shape[:-1]), a.shape[-1]
    return xp.matmul(a.reshape(rows, columns), _for_blas(xp, b)).reshape(a.shape[:-1] + b.shape[1:])


def _for_blas(xp: Namespace, a: Array) -> Array:
    """The array, or a copy where BLAS cannot read its strides: old NumPy leaves BLAS aside then."""
    if a.size < 1024 or a.flags.c_contiguous or a.ndim < 2:
        return a
    down, right = a.strides[-2:]
    step = a.itemsize
    if (right == step and down >= step * a.shape[-1]) or (
        down == step and right >= step * a.shape[-2]
    ):
        return a
    return xp.ascontiguousarray(a)


def _adjoint(matrix: Any) -> Any:
    return conj(matrix).mT


def _check_ndim(op: str, name: str, array: Array, ndim: int) -> None:
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


def delivered(op: str, result: Any, out: Any) -> Any:
    """The result of a function made of operators, in `out` where the user gave one."""
    if out is None:
        return result
    if result.requires_grad or (out.requires_grad and get_mode().grad):
        raise errors.out_requires_grad(op)
    write_out(op, out, result._array)
    return out


# Products -----------------------------------------------------------------------------------------


@method
def outer(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """All products of an element of one vector with an element of another, as a matrix."""
    _check_ndim("outer", "input", input, 1)
    _check_ndim("outer", "vec2", vec2, 1)
    column = input[:, None]
    return mul(column, vec2) if out is None else mul(column, vec2, out=out)


@multilinear(
    batch=batch_products.product,
    input=lambda g, mat2: mm(g, t(conj(mat2))),
    mat2=lambda g, input: mm(t(conj(input)), g),
)
def mm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The product of two matrices."""
    if (
        input.ndim == mat2.ndim == 2
        and input.dtype is mat2.dtype
        and input.dtype.char in _BLAS
        and input.shape[1] == mat2.shape[0]
    ):
        return xp.matmul(_for_blas(xp, input), _for_blas(xp, mat2))
    _check_ndim("mm", "input", input, 2)
    _check_ndim("mm", "mat2", mat2, 2)
    check_inner("mm", input, mat2)
    return product(xp, "mm", input, mat2)


@multilinear(
    batch=batch_products.product,
    input=lambda g, mat2: bmm(g, _adjoint(mat2)),
    mat2=lambda g, input: bmm(_adjoint(input), g),
)
def bmm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The products of two batches of matrices; batch sizes must be equal."""
    return _batch_product(xp, "bmm", input, mat2)


def _batch_product(xp: Namespace, op: str, batch1: Array, batch2: Array) -> Array:
    _check_ndim(op, "the first batch", batch1, 3)
    _check_ndim(op, "the second batch", batch2, 3)
    if len(batch1) != len(batch2):
        raise RuntimeError(
            f"{op}: batches of {len(batch1)} and {len(batch2)} matrices (shapes {batch1.shape} and "
            f"{batch2.shape}); they must be equally many. matmul broadcasts."
        )
    check_inner(op, batch1, batch2)
    return product(xp, op, batch1, batch2)


@multilinear(
    batch=batch_products.product,
    input=lambda g, vec: outer(g, conj(vec)),
    vec=lambda g, input: mv(_adjoint(input), g),
)
def mv(xp: Namespace, input: Array, vec: Array) -> Array:
    """A matrix times a vector."""
    _check_ndim("mv", "input", input, 2)
    _check_ndim("mv", "vec", vec, 1)
    check_inner("mv", input, vec)
    return product(xp, "mv", input, vec)


@multilinear(
    batch=batch_products.product,
    input=lambda g, tensor: g * conj(tensor),
    tensor=lambda g, input: g * conj(input),
)
def dot(xp: Namespace, input: Array, tensor: Array) -> Array:
    """The sum of the products of two vectors' elements; nothing is conjugated."""
    _check_vectors("dot", input, tensor)
    return product(xp, "dot", input, tensor)


@primitive(
    batch=batch_products.product,
    input=lambda g, other: conj(g) * other,
    other=lambda g, input: g * input,
    jvp=lambda d_input, d_other, input, other: total(
        d_input is not None and vdot(d_input, other), d_other is not None and vdot(input, d_other)
    ),
)
def vdot(xp: Namespace, input: Array, other: Array) -> Array:
    """As `dot`, with the elements of `input` conjugated."""
    _check_vectors("vdot", input, other)
    return product(xp, "vdot", conj(input), other)


def _check_vectors(op: str, a: Array, b: Array) -> None:
    _check_ndim(op, "the first vector", a, 1)
    _check_ndim(op, "the second vector", b, 1)
    if len(a) != len(b):
        raise RuntimeError(
            f"{op}: vectors of {len(a)} and {len(b)} elements; they must be equally long."
        )


def _matmul_input(g: Any, input_shape: Any, other: Any) -> Any:
    if len(input_shape) == 1:
        return matmul(conj(other), g[..., None])[..., 0]
    if other.ndim == 1:
        return g[..., None] * conj(other)
    return matmul(g, _adjoint(other))


def _matmul_other(g: Any, input: Any, other_shape: Any) -> Any:
    if input.ndim == 1:
        return conj(input)[:, None] * g[..., None, :]
    rows = math.prod(input.shape[:-1])
    if len(other_shape) == 1:
        return mv(_adjoint(reshape(input, (rows, input.shape[-1]))), reshape(g, (rows,)))
    if len(other_shape) == 2:
        folded = _adjoint(reshape(input, (rows, input.shape[-1])))
        return mm(folded, reshape(g, (rows, g.shape[-1])))
    return matmul(_adjoint(input), g)


@multilinear(
    batch=batch_products.product,
    input=_matmul_input,
    other=_matmul_other,
    node="UnsafeViewBackward0",
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


@method
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The product of two tensors: vectors, matrices, or batches of matrices that broadcast.

    >>> import pullback as torch
    >>> torch.matmul(torch.ones(5, 2, 3), torch.ones(3, 4)).shape
    torch.Size([5, 2, 4])
    """
    try:
        dims = input.ndim, other.ndim
    except AttributeError:
        name = "other" if hasattr(input, "ndim") else "input"
        raise errors.not_a_tensor("matmul", name, other if name == "other" else input) from None
    if dims == (2, 2):
        function = mm
    else:
        function = dot if dims == (1, 1) else mv if dims == (2, 1) else _matmul
    return function(input, other) if out is None else function(input, other, out=out)


ger = outer


# Sums with a product ------------------------------------------------------------------------------


def _scaled(g: Any, factor: Any) -> Any:
    return g if factor == 1 else g * conj(factor)


def total(*terms: Any) -> Any:
    """The sum of the tangents that there are; None and False are none."""
    there = [term for term in terms if term is not None and term is not False]
    total = there[0]
    for term in there[1:]:
        total = total + term
    return total


def _plus(xp: Namespace, op: str, result: Array, input: Array, beta: Any, alpha: Any) -> Array:
    """`beta * input + alpha * result`, into `result`, which is new."""
    if input.dtype != result.dtype:
        raise RuntimeError(
            f"{op}: input has dtype {from_numpy_dtype(input.dtype)}, the product has "
            f"{from_numpy_dtype(result.dtype)}; convert one of them."
        )
    if not expands(input.shape, result.shape):
        raise RuntimeError(
            f"{op}: input of shape {input.shape} does not expand to the product's {result.shape}."
        )
    if alpha != 1:
        result *= _factor(op, "alpha", alpha, result)
    if beta == 0:  # whatever input holds, infinite or not
        return result
    if beta != 1:
        input = input * _factor(op, "beta", beta, result)
    if result.ndim == 0:
        return result + input
    result += input
    return result


def expands(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether broadcasting leads from one shape to the other."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in pairs)


def _plus_tangent(
    multiply: Any, d_input: Any, d_a: Any, d_b: Any, a: Any, b: Any, beta: Any, alpha: Any
) -> Any:
    """The tangent of `beta * input + alpha * multiply(a, b)`."""
    return total(
        d_input is not None and _scaled(d_input, beta),
        d_a is not None and _scaled(multiply(d_a, b), alpha),
        d_b is not None and _scaled(multiply(a, d_b), alpha),
    )


def _factor(op: str, name: str, value: Any, like: Array) -> Any:
    if isinstance(value, complex) and like.dtype.kind != "c":
        raise RuntimeError(
            f"{op}: {name} is the complex number {value}, but the tensors are "
            f"{from_numpy_dtype(like.dtype)}."
        )
    return like.dtype.type(value)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    mat1=lambda g, mat2, alpha: _scaled(mm(g, _adjoint(mat2)), alpha),
    mat2=lambda g, mat1, alpha: _scaled(mm(_adjoint(mat1), g), alpha),
    jvp=lambda d_input, d_mat1, d_mat2, mat1, mat2, beta, alpha: _plus_tangent(
        mm, d_input, d_mat1, d_mat2, mat1, mat2, beta, alpha
    ),
    inplace=True,
)
def addmm(
    xp: Namespace, input: Array, mat1: Array, mat2: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta * input + alpha * (mat1 @ mat2)`; `input` broadcasts."""
    _check_ndim("addmm", "mat1", mat1, 2)
    _check_ndim("addmm", "mat2", mat2, 2)
    check_inner("addmm", mat1, mat2)
    return _plus(xp, "addmm", product(xp, "addmm", mat1, mat2), input, beta, alpha)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    mat=lambda g, vec, alpha: _scaled(outer(g, conj(vec)), alpha),
    vec=lambda g, mat, alpha: _scaled(mv(_adjoint(mat), g), alpha),
    jvp=lambda d_input, d_mat, d_vec, mat, vec, beta, alpha: _plus_tangent(
        mv, d_input, d_mat, d_vec, mat, vec, beta, alpha
    ),
    inplace=True,
)
def addmv(
    xp: Namespace, input: Array, mat: Array, vec: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta * input + alpha * (mat @ vec)`; `input` broadcasts."""
    _check_ndim("addmv", "mat", mat, 2)
    _check_ndim("addmv", "vec", vec, 1)
    check_inner("addmv", mat, vec)
    return _plus(xp, "addmv", product(xp, "addmv", mat, vec), input, beta, alpha)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    vec1=lambda g, vec2, alpha: _scaled(mv(g, conj(vec2)), alpha),
    vec2=lambda g, vec1, alpha: _scaled(mv(g.mT, conj(vec1)), alpha),
    jvp=lambda d_input, d_vec1, d_vec2, vec1, vec2, beta, alpha: _plus_tangent(
        outer, d_input, d_vec1, d_vec2, vec1, vec2, beta, alpha
    ),
    inplace=True,
    promote="same",
    numbers=False,
)
def addr(
    xp: Namespace, input: Array, vec1: Array, vec2: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta * input + alpha * outer(vec1, vec2)`; `input` broadcasts."""
    _check_ndim("addr", "vec1", vec1, 1)
    _check_ndim("addr", "vec2", vec2, 1)
    return _plus(xp, "addr", vec1[:, None] * vec2, input, beta, alpha)


def _addbmm_tangent(
    d_input: Any, d_batch1: Any, d_batch2: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any
) -> Any:
    return total(
        d_input is not None and _scaled(d_input, beta),
        d_batch1 is not None and _scaled(sum(bmm(d_batch1, batch2), 0), alpha),
        d_batch2 is not None and _scaled(sum(bmm(batch1, d_batch2), 0), alpha),
    )


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(matmul(g, _adjoint(batch2)), alpha),
    batch2=lambda g, batch1, alpha: _scaled(matmul(_adjoint(batch1), g), alpha),
    jvp=_addbmm_tangent,
    inplace=True,
)
def addbmm(
    xp: Namespace, input: Array, batch1: Array, batch2: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)`; `input` broadcasts."""
    result = _batch_product(xp, "addbmm", batch1, batch2).sum(0, dtype=batch1.dtype)
    return _plus(xp, "addbmm", result, input, beta, alpha)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(bmm(g, _adjoint(batch2)), alpha),
    batch2=lambda g, batch1, alpha: _scaled(bmm(_adjoint(batch1), g), alpha),
    jvp=lambda d_input, d_batch1, d_batch2, batch1, batch2, beta, alpha: _plus_tangent(
        bmm, d_input, d_batch1, d_batch2, batch1, batch2, beta, alpha
    ),
    inplace=True,
)
def baddbmm(
    xp: Namespace, input: Array, batch1: Array, batch2: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta * input + alpha * (batch1 @ batch2)`, matrix by matrix; `input` broadcasts."""
    result = _batch_product(xp, "baddbmm", batch1, batch2)
    return _plus(xp, "baddbmm", result, input, beta, alpha)


METHODS["__matmul__"] = gives_way(matmul)


def _reversed_matmul(self: Any, other: Any) -> Any:
    return matmul(other, self)


METHODS["__rmatmul__"] = caught(_reversed_matmul)
