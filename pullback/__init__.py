"""pullback: PyTorch's autograd in Python you can read, on NumPy.

>>> import pullback as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from pullback.core import memory as _memory
from pullback.core.device import device, get_default_device, set_default_device
from pullback.core.dtype import (
    ALIASES as _DTYPE_ALIASES,
)
from pullback.core.dtype import (
    DTYPES as _DTYPES,
)
from pullback.core.dtype import (
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    set_default_dtype,
)
from pullback.core.layout import *
from pullback.core.promotion import can_cast, promote_types, result_type
from pullback.core.size import Size
from pullback.core.tensor import Tensor

# fmt: off
from pullback.operators import build as _build
from pullback.operators.activation import (
    celu, celu_, prelu, relu_, rrelu, rrelu_, selu, selu_, threshold, threshold_,
)
from pullback.operators.advanced import index_put, index_put_
from pullback.operators.affine import bilinear
from pullback.operators.arithmetic import (
    add, addcdiv, addcmul, conj, conj_physical, lerp, mul, multiply, neg, negative, positive,
    reciprocal, rsub, sub, subtract, true_divide,
)
from pullback.operators.arrange import (
    atleast_2d, atleast_3d, broadcast_shapes, broadcast_tensors, cartesian_prod, column_stack,
    combinations, concat, concatenate, dsplit, dstack, fliplr, flipud, hsplit, hstack, meshgrid,
    repeat_interleave, rot90, row_stack, unsafe_chunk, unsafe_split, vsplit, vstack,
)
from pullback.operators.comparison import (
    bitwise_and, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, eq,
    gcd, ge, greater, greater_equal, gt, isclose, isfinite, isinf, isnan, isneginf, isposinf, lcm,
    le, less, less_equal, logical_and, logical_not, logical_or, logical_xor, lt, ne, not_equal,
    signbit,
)
from pullback.operators.complex import (
    complex, imag, isreal, real, resolve_conj, resolve_neg, view_as_complex, view_as_real,
)
from pullback.operators.contraction import einsum, inner, tensordot
from pullback.operators.convert import is_nonzero
from pullback.operators.copy import fill, fill_, zero_
from pullback.operators.creation import (
    empty, empty_like, empty_permuted, empty_strided, eye, full, full_like, ones, ones_like,
    scalar_tensor, tril_indices, triu_indices, zeros, zeros_like,
)
from pullback.operators.data import as_tensor, asarray, frombuffer, tensor
from pullback.operators.decomposition import cholesky, geqrf, ormqr, qr
from pullback.operators.diagonals import block_diag, diag, diag_embed, diagflat
from pullback.operators.differences import cumulative_trapezoid, diff, gradient, trapezoid, trapz
from pullback.operators.direction import abs, abs_, absolute, angle, polar, sgn, sign
from pullback.operators.exchange import from_dlpack, from_numpy
from pullback.operators.extrema import (
    clamp, clamp_, clamp_max, clamp_max_, clamp_min, clamp_min_, clip, fmax, fmin, maximum, minimum,
    relu,
)
from pullback.operators.gather import gather, scatter_add, take_along_dim
from pullback.operators.generator import (
    Generator, default_generator, fork_rng, get_rng_state, initial_seed, manual_seed, seed,
    set_rng_state,
)
from pullback.operators.histograms import bincount, hash_tensor, histc, histogram, histogramdd
from pullback.operators.least_squares import pinverse
from pullback.operators.lu import lu, lu_solve, lu_unpack
from pullback.operators.matrices import chain_matmul, cross, kron, trace
from pullback.operators.matrix_functions import matrix_exp, matrix_power
from pullback.operators.metadata import (
    UntypedStorage, get_device, is_complex, is_conj, is_floating_point, is_neg, is_same_size,
    is_signed, is_storage, is_tensor, numel,
)
from pullback.operators.norms import dist, norm, renorm
from pullback.operators.order_statistics import median, mode, nanmedian, nanquantile, quantile
from pullback.operators.piecewise import hardshrink
from pullback.operators.places import (
    argwhere, masked_scatter, masked_select, nonzero, nonzero_static, put, take, unravel_index,
)
from pullback.operators.pointwise import (
    copysign, exp, exp2, expm1, frexp, heaviside, ldexp, log, log10, log1p, log2, logaddexp,
    logaddexp2, logit, nan_to_num, nextafter, sigmoid, xlogy,
)
from pullback.operators.powers import float_power, pow, rsqrt, sqrt, square, square_
from pullback.operators.printing import get_printoptions, printoptions, set_printoptions
from pullback.operators.products import (
    addbmm, addmm, addmv, addr, baddbmm, bmm, dot, ger, matmul, mm, mv, outer, vdot,
)
from pullback.operators.random import (
    bernoulli, binomial, multinomial, normal, poisson, rand, rand_like, randint, randint_like,
    randn, randn_like, randperm,
)
from pullback.operators.ranges import arange, linspace, logspace, range
from pullback.operators.reduction import (
    all, allclose, any, count_nonzero, equal, logsumexp, mean, nanmean, nansum, prod, sum,
)
from pullback.operators.reduction_extremes import amax, amin, aminmax, argmax, argmin, max, min
from pullback.operators.rounding import (
    ceil, div, divide, fix, floor, floor_divide, fmod, frac, remainder, round, trunc,
)
from pullback.operators.rows import index_add, index_copy, index_fill, index_select
from pullback.operators.scan import cummax, cummin, cumprod, cumsum, logcumsumexp
from pullback.operators.scatter import scatter
from pullback.operators.scatter_reduce import index_reduce, scatter_reduce
from pullback.operators.selection import masked_fill, tril, triu, where
from pullback.operators.shape import (
    adjoint, atleast_1d, broadcast_to, cat, chunk, clone, flatten, flip, moveaxis, movedim, narrow,
    permute, ravel, reshape, roll, split, split_with_sizes, squeeze, stack, swapaxes, swapdims,
    tensor_split, tile, unbind, unflatten,
)
from pullback.operators.softmax import log_softmax, softmax
from pullback.operators.solve import det, inverse, logdet, slogdet
from pullback.operators.sorting import (
    argsort, bucketize, isin, kthvalue, msort, searchsorted, sort, topk,
)
from pullback.operators.special import (
    digamma, erf, erfc, erfinv, igamma, igammac, lgamma, mvlgamma, polygamma,
)
from pullback.operators.spectral import eig, svd
from pullback.operators.statistics import corrcoef, cov, std, std_mean, var, var_mean
from pullback.operators.stft import istft, stft
from pullback.operators.triangular import cholesky_inverse, cholesky_solve, triangular_solve
from pullback.operators.trigonometry import (
    acos, acosh, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, asin, asinh, atan,
    atan2, atanh, cos, cosh, deg2rad, hypot, rad2deg, sin, sinc, sinh, tan, tanh,
)
from pullback.operators.unique import unique, unique_consecutive
from pullback.operators.view_scatter import (
    as_strided_scatter, diagonal_scatter, narrow_copy, select_scatter, slice_scatter,
)
from pullback.operators.views import as_strided, diagonal, select, t, transpose, unsqueeze
from pullback.operators.legacy import *
from pullback.operators.methods import attach_methods as _attach_methods
# fmt: on

_attach_methods()
_memory.keep_freed_memory()

# After the methods: these layers use tensors as users do.
from pullback import autograd
from pullback.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from pullback.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)


globals().update({**_DTYPES, **_DTYPE_ALIASES})

# What is not worth its time at start: families without methods, bfloat16 (needs ml_dtypes), files.
_FAMILIES = {
    "pullback.operators.conv": """
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    """,
    "pullback.operators.ctc": """
        ctc_loss
    """,
    "pullback.operators.distance": """
        cdist cosine_similarity pairwise_distance pdist
    """,
    "pullback.operators.dropout": """
        alpha_dropout dropout feature_alpha_dropout
    """,
    "pullback.operators.embedding_bag": """
        embedding_bag
    """,
    "pullback.operators.loss": """
        binary_cross_entropy_with_logits kl_div poisson_nll_loss
    """,
    "pullback.operators.lowrank": """
        pca_lowrank svd_lowrank
    """,
    "pullback.operators.margins": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss
    """,
    "pullback.operators.normalise": """
        batch_norm group_norm instance_norm layer_norm native_batch_norm native_group_norm
        native_layer_norm rms_norm
    """,
    "pullback.operators.pad": """
        constant_pad_nd
    """,
    "pullback.operators.pool_average": """
        adaptive_avg_pool1d avg_pool1d
    """,
    "pullback.operators.pool_max": """
        adaptive_max_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d
    """,
    "pullback.operators.sampling": """
        affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d
    """,
    "pullback.operators.segments": """
        segment_reduce
    """,
    "pullback.operators.shuffle": """
        channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle
    """,
    "pullback.operators.view_copies": """
        alias_copy as_strided_copy diagonal_copy expand_copy permute_copy select_copy
        slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
        unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy
        view_copy
    """,
    "pullback.operators.windows_signal": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window
    """,
}
_LATER = {name: family for family, names in _FAMILIES.items() for name in names.split()} | {
    **dict.fromkeys(("bfloat16", "complex32", "chalf"), "pullback.core.dtype"),
    **dict.fromkeys(("save", "load"), "pullback.serialization"),
    "vmap": "pullback.func",
    "embedding": "pullback.operators.embedding",
}
_MODULES = (
    *("_C", "_custom_op", "_custom_ops", "_library", "_vmap_internals", "fft", "func", "library"),
    *("linalg", "masked", "nn", "ops", "overrides", "profiler", "random", "serialization"),
    *("signal", "special", "testing", "types", "utils"),
)

__all__ = sorted(
    {name for name in globals() if not name.startswith("_") and name != "annotations"}
    | (_LATER.keys() - {"bfloat16", "complex32", "chalf"})
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def __getattr__(name: str) -> _Any:
    if name == "embedding":  # torch.embedding takes the weight first, nn.functional's does not
        return _import_module("pullback.operators.embedding").embedding_rows
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    if name in _MODULES:
        return _import_module(f"pullback.{name}")
    raise AttributeError(f"module 'pullback' has no attribute {name!r}")
