"""Functions of whole matrices: powers, the exponential, norms, rank, condition."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import namespace
from pullback.core.layout import contiguous_format
from pullback.core.tensor import Tensor, wrap
from pullback.operators.batching import filled, ndim_of, padded
from pullback.operators.create.ranges import arange
from pullback.operators.create.sizes import eye
from pullback.operators.declare import Array, Namespace, Op, method, primitive
from pullback.operators.indexing.selection import where
from pullback.operators.linalg.checks import adjoint, check_matrices, check_square
from pullback.operators.linalg.products import delivered, matmul
from pullback.operators.linalg.solve import inv, inv_ex
from pullback.operators.linalg.spectral import eigvalsh, svdvals
from pullback.operators.options import as_bool, as_dim, numpy_spelled
from pullback.operators.pointwise.direction import abs
from pullback.operators.pointwise.exponentials import nan_to_num
from pullback.operators.reduce.extremes import amax, amin
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.reduce.scan import cumprod
from pullback.operators.reduce.sums import sum
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import clone, expand, movedim, reshape
from pullback.operators.tensor.convert import astype
from pullback.operators.tensor.filling import copied_into

FOUND_IN = {
    "torch": "matrix_exp matrix_power vander=falling_powers",
    "linalg": "cond matrix_exp matrix_norm matrix_power matrix_rank norm=linalg_norm vander",
}

# Powers -------------------------------------------------------------------------------------------


@method
def matrix_power(input: Any, n: int, *, out: Any = None) -> Any:
    """The product of `n` copies of a square matrix; of its inverse, for negative `n`.

    >>> import pullback as torch
    >>> torch.linalg.matrix_power(torch.tensor([[2.0, 0.0], [0.0, 3.0]]), 3)
    tensor([[ 8.,  0.],
            [ 0., 27.]])
    """
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        check_square("linalg.matrix_power", input._array)
    if n == 0:
        result = copied_into(input, eye(input.shape[-1], dtype=input.dtype, device=input.device))
    else:
        base = inv(input) if n < 0 else input
        result = _powered(base, int(n) if n > 0 else -int(n))
        if result is input:
            result = clone(input, memory_format=contiguous_format)
    return delivered("linalg.matrix_power", result, out)


def _powered(base: Any, n: int) -> Any:
    result = None
    while True:
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        if not n:
            return result
        base = matmul(base, base)


def _exp_adjoint(g: Any, input: Any) -> Any:
    return _exp_slope(adjoint(input), g)


def _exp_slope(matrix: Any, along: Any) -> Any:
    """The derivative of exp at `matrix` along a direction: the corner of exp of a block matrix."""
    n = matrix.shape[-1]
    block = cat([cat([matrix, along], -1), cat([matrix * 0, matrix], -1)], -2)
    return _matrix_exp(block)[..., :n, n:]


@primitive(
    input=_exp_adjoint,
    jvp=lambda d_input, input: _exp_slope(input, d_input),
    node="LinalgMatrixExpBackward0",
    aten="linalg_matrix_exp.default",
)
def _matrix_exp(xp: Namespace, input: Array) -> Array:
    if input.dtype.itemsize == 2:
        return _exponential(xp, input.astype(xp.float32)).astype(input.dtype)
    return _exponential(xp, input)


# Coefficients of the numerators of Pade approximants, by degree, and the largest norm at which each
# is exact to the last digit of double and single precision (Higham 2005, tables 2.3 and 2.4).
_PADE = {
    3: (120, 60, 12, 1),
    5: (30240, 15120, 3360, 420, 30, 1),
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
    9: (17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1),
    13: (
        *(
            64764752532480000,
            32382376266240000,
            7771770303897600,
            1187353796428800,
            129060195264000,
        ),
        *(10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1),
    ),
}
_DOUBLE = {3: 1.495585217958292e-2, 5: 0.2539398330063230, 7: 0.9504178996162932}
_DOUBLE |= {9: 2.097847961257068, 13: 5.371920351148152}
_SINGLE = {3: 0.4258730016922831, 5: 1.880152677804762, 7: 3.925724783138660}


def _exponential(xp: Namespace, A: Array) -> Array:
    """Scaling and squaring: exp(A) = exp(A / 2^s)^(2^s), each matrix with an s of its own."""
    if not A.size:
        return xp.array(A)
    norm = xp.abs(A).sum(-2).max(-1)
    limits = _SINGLE if A.dtype.char in "fF" else _DOUBLE
    largest = float(norm.max())
    if largest > limits[3]:
        shift = _diagonal_part(xp, A, norm)
        if shift is not None:
            unit = xp.eye(A.shape[-1], dtype=A.dtype)
            rest = A - shift * unit
            return _squared_up(xp, rest, xp.abs(rest).sum(-2).max(-1), limits) * xp.exp(shift)
    return _squared_up(xp, A, norm, limits)


def _diagonal_part(xp: Namespace, A: Array, norm: Array) -> Array | None:
    """Multiples c of the identity whose exponential is better taken apart, exp(c) exp(A - c).

    Each product of a power adds its rounding, and the rest has a smaller norm, so fewer products.
    Multiples stay so small that neither factor can overflow where the result does not.
    """
    mean = xp.trace(A, axis1=-2, axis2=-1) / A.dtype.type(A.shape[-1])
    real = xp.clip(mean.real, -_LARGEST_SHIFT, _LARGEST_SHIFT)
    useful = (xp.abs(mean.real) > 0.5 * norm) & ((real > 0) | (norm < _LARGEST_SHIFT))
    if not useful.any():  # NaN is not
        return None
    return xp.where(useful, real, 0).astype(A.dtype)[..., None, None]


_LARGEST_SHIFT = 40.0


def _squared_up(xp: Namespace, A: Array, norm: Array, limits: dict[int, float]) -> Array:
    largest = float(norm.max())
    degree = next((d for d, limit in limits.items() if largest <= limit), max(limits))
    with_scale = xp.isfinite(norm) & (norm > limits[degree])
    halvings = xp.where(
        with_scale, xp.ceil(xp.log2(xp.where(with_scale, norm, 1) / limits[degree])), 0
    )
    scale = xp.exp2(-halvings).astype(A.real.dtype)
    result = _approximant(xp, A * scale[..., None, None], _PADE[degree])
    for step in range(int(halvings.max())):
        again = xp.matmul(result, result)
        result = xp.where((halvings > step)[..., None, None], again, result)
    return result


def _approximant(xp: Namespace, A: Array, coefficients: tuple[int, ...]) -> Array:
    """The quotient of polynomials p(A) / p(-A), even and odd powers apart."""
    unit = xp.eye(A.shape[-1], dtype=A.dtype)
    square = xp.matmul(A, A)
    even, odd = unit * float(coefficients[0]), unit * float(coefficients[1])
    power = unit
    for i in range(2, len(coefficients), 2):
        power = square if i == 2 else xp.matmul(power, square)
        even = even + power * float(coefficients[i])
        odd = odd + power * float(coefficients[i + 1])
    odd = xp.matmul(A, odd)
    return xp.linalg.solve(even - odd, even + odd)


@method
def matrix_exp(input: Any) -> Any:
    """The exponential of each square matrix, by its power series in effect.

    >>> import pullback as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.ndim < 2 or input._array.dtype.itemsize != 2 or input._array.dtype.kind not in "fV":
        check_square("linalg.matrix_exp", input._array)
    return _matrix_exp(input)


# Norms --------------------------------------------------------------------------------------------


def matrix_norm(
    input: Any,
    ord: float | str = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """The norm of matrices: "fro", "nuc", 2 and -2 (singular values), 1, -1, inf, -inf (sums).

    >>> import pullback as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    op = "linalg.matrix_norm"
    if input._array.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{op}: defined for floating-point and complex tensors, not {input.dtype}; convert "
            "first."
        )
    if isinstance(dim, int):
        raise TypeError(f"{op}: dim must be a tuple of 2 dimensions, got {dim}.")
    dims = tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{op}: dim must name 2 dimensions, got {dim}.")
    if input.ndim < 2:
        raise RuntimeError(f"{op}: needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    rows, columns = (as_dim(d, input.ndim, op) for d in dims)
    if rows == columns:
        raise RuntimeError(f"{op}: dim must name 2 different dimensions, got {dim}.")
    as_bool(keepdim, op, "keepdim")
    result = _norm_of(op, input, ord, rows, columns, keepdim, dtype)
    return delivered(op, result, out)


def _norm_of(op: str, A: Any, ord: Any, rows: int, columns: int, keepdim: Any, dtype: Any) -> Any:
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    if dtype is not None:
        A = astype(A, dtype)
    if ord in (2, -2, "nuc"):
        return _spectral_norm(A, ord, rows, columns, keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(
            f"{op}: order {ord!r} is not one of 'fro', 'nuc', 1, -1, 2, -2, inf and -inf."
        )
    along, across = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = sum(abs(A), along, keepdim)
    if not keepdim and along < across:
        across -= 1
    return _extreme(sums, across, keepdim, largest=ord > 0)


def _extreme(values: Any, dim: int, keepdim: Any, *, largest: bool) -> Any:
    """The largest of some norms, 0 if there is none, or the smallest."""
    if not largest:
        return amin(values, dim, keepdim)
    return amax(values, dim, keepdim) if values.shape[dim] else sum(values, dim, keepdim)


def _spectral_norm(A: Any, ord: Any, rows: int, columns: int, keepdim: Any) -> Any:
    values = svdvals(movedim(A, (rows, columns), (-2, -1)))
    if ord == "nuc":
        result = sum(values, -1)
    else:
        result = _extreme(values, -1, False, largest=ord > 0)
    if not keepdim:
        return result
    shape = [1 if d in (rows, columns) else n for d, n in enumerate(A.shape)]
    return reshape(result, tuple(shape))


@numpy_spelled
def linalg_norm(
    input: Any,
    ord: float | str | None = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """A norm of vectors or matrices, by how many dims there are; without `ord` the 2-norm.

    >>> import pullback as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(dim, int):
        dim = (dim,)
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None and input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: with ord={ord!r} and without dim the tensor must be a vector or a "
            f"matrix, got shape {tuple(input.shape)}."
        )
    count = len(dim) if dim is not None else input.ndim
    if dim is not None and count not in (1, 2):
        raise RuntimeError(f"linalg.norm: with ord={ord!r}, dim must name 1 or 2 dims, got {dim}.")
    if isinstance(ord, str) or count == 2:
        return matrix_norm(
            input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    return vector_norm(input, ord, dim, keepdim, dtype=dtype, out=out)


# Rank and condition -------------------------------------------------------------------------------


def cond(input: Any, p: float | str | None = None, *, out: Any = None) -> Any:
    """How much a matrix can amplify relative errors: its norm times that of its inverse.

    >>> import pullback as torch
    >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"linalg.cond: needs at least 2 dimensions, got shape {tuple(input.shape)}."
        )
    if not input.numel():
        nothing = wrap(
            namespace(input._array).zeros(tuple(input.shape[:-2]), input._array.real.dtype)
        )
        return delivered("linalg.cond", nothing, out)
    if p is None or p in (2, -2):
        values = svdvals(input)
        largest, smallest = values[..., 0], values[..., -1]
        result = smallest / largest if p == -2 else largest / smallest
        return delivered("linalg.cond", result, out)
    check_square("linalg.cond", input._array)
    if p == "nuc":  # its singular values do not exist for what is not finite
        inverse, info = inv_ex(input)
        singular = info != 0
        inverse = where(singular[..., None, None], 0.0, inverse)
        result = matrix_norm(input, p) * where(singular, math.inf, matrix_norm(inverse, p))
    else:  # of a singular matrix: infinite
        result = matrix_norm(input, p) * matrix_norm(inv_ex(input).inverse, p)
        result = nan_to_num(result, math.inf, math.inf, -math.inf)
    return delivered("linalg.cond", result, out)


def tolerances(op: str, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Both tolerances as numbers or arrays; where none is given, errors of rounding."""
    absolute, relative = (v._array if isinstance(v, Tensor) else v for v in (atol, rtol))
    for value in (absolute, relative):
        if numpy.iscomplexobj(value):
            raise RuntimeError(f"{op}: a tolerance must be real, got a complex one.")
    if absolute is None:
        absolute = 0.0
    if relative is None:
        rounding = float(numpy.finfo(A._array.dtype).eps) * max(A.shape[-2:])
        relative = numpy.where(numpy.asarray(absolute) > 0, 0.0, rounding)
    return absolute, relative


def matrix_rank(
    input: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Any = None,
) -> Any:
    """How many singular values exceed `max(atol, rtol * the largest)`.

    >>> import pullback as torch
    >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    tensor(1)
    """
    if (level := level_reading(tol, atol, rtol)) is not None:
        return each_example(
            level, matrix_rank, input, tol, hermitian, atol=atol, rtol=rtol, out=out
        )
    check_matrices("linalg.matrix_rank", input._array)
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = tolerances("linalg.matrix_rank", input, atol, rtol)
    plain = input.detach()
    if 0 in input.shape[-2:]:
        return delivered("linalg.matrix_rank", _zeros(plain), out)
    values = abs(eigvalsh(plain)) if hermitian else svdvals(plain)
    largest = amax(values, -1, True)
    return delivered("linalg.matrix_rank", _rank(values, largest, absolute, relative), out)


def _zeros(A: Any) -> Any:
    return sum(A.new_zeros((*A.shape[:-2], 1)) != 0, -1)


def _rank(values: Any, largest: Any, absolute: Any, relative: Any) -> Any:
    return sum(_exceeds(values, largest, absolute, relative), -1)


def _in_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Ranks are made equal behind the examples; tolerances may have more dimensions than values."""
    given = [numpy.ndim(options[name]) + 1 for name in ("absolute", "relative")]
    rank = max(ndim_of(split["values"]), *given)
    values = {name: padded(filled(pair, size), 0, rank) for name, pair in split.items()}
    return op.function(**values, **options)


@primitive(batch=_in_batches)
def _exceeds(xp: Namespace, values: Array, largest: Array, absolute: Any, relative: Any) -> Array:
    """Which values are above both tolerances."""
    absolute, relative = (xp.asarray(x, values.dtype)[..., None] for x in (absolute, relative))
    return values > xp.maximum(absolute, relative * largest)


_NO_POWERS = "?eE"  # bool, float16, bfloat16


def vander(x: Any, *, N: int | None = None) -> Any:
    """For each element a row of its powers 0 to N - 1; without `N`, as many as elements.

    >>> import pullback as torch
    >>> torch.linalg.vander(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 1., 1.],
            [1., 2., 4.],
            [1., 3., 9.]])
    """
    count = N if N is not None else x.shape[-1] if x.ndim else 0
    if count <= 1 or x._array.dtype.char in _NO_POWERS:
        raise RuntimeError(
            "linalg.vander: needs numbers, and N > 1 (by default as many as there are), got "
            f" {x.dtype} of shape {tuple(x.shape)} and N={N}."
        )
    column = x[..., None] if x.ndim else x[None, None]
    if x._array.dtype.kind in "biu":
        column = astype(column, numpy.dtype("int64"))
    ones = column.detach().new_ones(tuple(column.shape))
    powers = cumprod(expand(column, (*column.shape[:-1], count - 1)), -1)
    return cat([ones, powers], -1)


def falling_powers(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """For each element of a vector a row of its powers N - 1 to 0, or 0 to N - 1.

    >>> import pullback as torch
    >>> torch.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: takes a vector, got shape {tuple(x.shape)}.")
    count = len(x) if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N is a number of columns, got {N}.")
    powers = arange(count) if increasing else arange(count - 1, -1, -1)
    return x[:, None] ** powers.to(x.dtype) if x.is_complex() else x[:, None] ** powers
