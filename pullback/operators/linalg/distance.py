"""How far vectors are from one another: cosine similarity, pairwise distances, and unit length."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.promotion import promote_dtypes
from pullback.core.tensor import Tensor
from pullback.operators.create.constants import constant_like
from pullback.operators.create.sizes import zeros_like
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.linalg.between import euclidean_between
from pullback.operators.linalg.products import delivered
from pullback.operators.options import numpy_spelled
from pullback.operators.pointwise.arithmetic import lifted
from pullback.operators.pointwise.extrema import clamp_min
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.reduce.sums import sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.arrange import broadcast_tensors
from pullback.operators.shape.reshaping import contiguous, expand_as
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "torch": "cdist cosine_similarity norm_except_dim pairwise_distance pdist",
    "nn.functional": "cosine_similarity normalize pairwise_distance pdist",
}


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: Any = 1e-12, out: Any = None) -> Any:
    """Divide by the norm of order `p` along `dim`, or by `eps` where that is larger.

    >>> import pullback as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = clamp_min(vector_norm(input, p, dim, keepdim=True), eps)
    return delivered("normalize", input / expand_as(length, input), out)


@numpy_spelled
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between the vectors along `dim` of the broadcast tensors.

    >>> import pullback as torch
    >>> torch.cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    one, other = x1._array, x2._array
    if one.dtype.kind in "biu" or other.dtype.kind in "biu":
        common = promote_dtypes(one.dtype, other.dtype)
        x1, x2 = astype(x1, common), astype(x2, common)
    if one.shape != other.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    return sum((x1 / _length(x1, dim, eps)) * (x2 / _length(x2, dim, eps)), dim)


def _length(x: Any, dim: int, eps: float) -> Any:
    """The norm along `dim`, at least `eps`; the bound is no part of what is differentiated."""
    return lifted(vector_norm(x, 2, dim, True), eps)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The norm of order `p` of the differences, along the last dimension; `eps` keeps it off 0.

    >>> import pullback as torch
    >>> torch.pairwise_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    return shown_as("NormBackward1", vector_norm(x1 - x2 + eps, p, -1, keepdim))


def cdist(
    x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Any:
    """Distances of order `p` between all pairs of rows of `x1` and `x2`; batches broadcast.

    >>> import pullback as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [1.0, 0.0]]))
    tensor([[5., 1.]])
    """
    shapes = tuple(x1.shape), tuple(x2.shape)
    if x1.ndim < 2 or x2.ndim < 2 or shapes[0][-1] != shapes[1][-1]:
        raise RuntimeError(
            f"cdist: needs rows of equal length in at least 2 dimensions, got shapes {shapes[0]} "
            f"and {shapes[1]}."
        )
    if p < 0:
        raise RuntimeError(f"cdist: p must not be negative, got {p}.")
    if compute_mode not in _MODES:
        raise ValueError(f"cdist: compute_mode must be one of {[*_MODES]}, got {compute_mode!r}.")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(
            f"cdist: both tensors must have one dtype, got {x1.dtype} and {x2.dtype}; convert one."
        )
    if shapes[0][:-2] != shapes[1][:-2]:
        try:
            numpy.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
        except ValueError:
            raise errors.shapes_do_not_broadcast("cdist", *shapes) from None
    if p == 2:
        return euclidean_between(x1, x2, 2.0, _MODES[compute_mode])
    return shown_as(
        "CdistBackward0", contiguous(_lengths(x1[..., :, None, :] - x2[..., None, :, :], p))
    )


_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def pdist(input: Any, p: float = 2.0) -> Any:
    """Distances of order `p` between the rows of a matrix: each pair once, in rising order.

    >>> import pullback as torch
    >>> torch.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: needs a matrix, got shape {tuple(input.shape)}.")
    if p < 0 or math.isnan(p):
        raise RuntimeError(f"pdist: p must not be negative, got {p}.")
    first, second = numpy.triu_indices(input.shape[0], 1)
    return shown_as(
        "PdistBackward0",
        _lengths(input[constant_like(input, first)] - input[constant_like(input, second)], p),
    )


@primitive(
    input=lambda g, input: zeros_like(input),
    jvp=lambda out: zeros_like(out),
    method=False,
    has_out=False,
)
def _count(xp: Namespace, input: Array) -> Array:
    """How many elements along the last dimension are not zero; its gradients are zero."""
    return xp.add.reduce(input != 0, -1, input.dtype)


def _lengths(differences: Any, p: float) -> Any:
    """Norms along the last dimension; of order 0 with a gradient, unlike those of vectors."""
    return _count(differences) if p == 0 else vector_norm(differences, p, -1)


@numpy_spelled
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but one; of everything if `dim` is -1.

    >>> import pullback as torch
    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return v.norm(pow)
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return v.norm(pow, others, keepdim=True) if others else v.abs()
