"""What the page of operators by mode says beyond their flags: `out=`, and tests of their own."""

from __future__ import annotations

# Functions of torch that take `out=`.
_OUT = """
    abs acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax angle any
    arange argmax argmin asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bucketize cat ceil
    cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min column_stack complex
    conj_physical copysign cos cosh cross cummax cummin cumprod cumsum deg2rad diag diff digamma div
    dot dstack empty eq erf erfc erfinv exp exp2 expm1 eye fft.fft fft.fft2 fft.fftn fft.hfft
    fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft
    fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn float_power floor floor_divide fmax fmin fmod
    frac frexp full gather gcd ge geqrf gt heaviside histc histogram hstack hypot i0 igamma igammac
    index_add index_copy index_reduce index_select inner isin isneginf isposinf kron kthvalue lcm
    ldexp le lerp lgamma linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det
    linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv
    linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex linalg.lstsq linalg.lu linalg.lu_factor
    linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
    linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
    linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve
    linalg.vecdot linalg.vector_norm linspace log log10 log1p log2 log_softmax logaddexp logaddexp2
    logcumsumexp logical_and logical_not logical_or logical_xor logit logspace logsumexp lt lu
    lu_solve lu_unpack masked_select matmul max maximum mean median min minimum mm mode msort mul
    multinomial mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow_copy ne neg
    nextafter nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.gelu
    nn.functional.hardshrink nn.functional.linear nn.functional.logsigmoid nn.functional.normalize
    nn.functional.softplus nn.functional.softshrink nonzero nonzero_static norm normal ones ormqr
    outer polar polygamma pow prod qr quantile rad2deg randint randn reciprocal remainder renorm
    round rsqrt scatter scatter_add scatter_reduce searchsorted sgn sigmoid sign signbit sin sinc
    sinh slice_scatter softmax sort special.airy_ai special.bessel_j0 special.bessel_j1
    special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
    special.entr special.erfcx special.hermite_polynomial_h special.hermite_polynomial_he
    special.i0e special.i1 special.i1e special.laguerre_polynomial_l special.legendre_polynomial_p
    special.log_ndtr special.modified_bessel_i0 special.modified_bessel_i1
    special.modified_bessel_k0 special.modified_bessel_k1 special.ndtr special.ndtri
    special.polygamma special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w
    special.spherical_bessel_j0 special.xlog1py special.zeta sqrt square stack std sub sum svd take
    take_along_dim tan tanh tensordot topk triangular_solve tril triu true_divide trunc var vdot
    vstack where xlogy zeros
"""

OUT = frozenset(_OUT.split())

# Where operators are tested that have no line in the tables of samples -> which, and why.
OWN_TESTS = {
    "tests/differential/operators/test_linalg.py": (
        "vectors are unique only up to a factor",
        "svd linalg.svd linalg.eig linalg.eigh",
    ),
    "tests/operators/linalg/test_linalg.py": (
        "the subspace is found by random trials",
        "pca_lowrank svd_lowrank",
    ),
    "tests/operators/random/test_tensors.py": (
        "the values are random",
        """
        bernoulli multinomial normal rand_like randn randn_like randint randint_like
        """,
    ),
    "tests/operators/create/test_sizes.py": (
        "the values are not determined",
        """
        empty empty_permuted empty_strided empty_like Tensor.new_empty Tensor.new_empty_strided
        """,
    ),
    "tests/operators/nn/image/test_resample.py": (
        "warns that it is an old name",
        "nn.functional.upsample_bilinear nn.functional.upsample_nearest",
    ),
    "tests/operators/tensor/test_convert.py": ("gives a Python number", "Tensor.item"),
    "tests/core/test_inplace.py": (
        "changes the memory of its input",
        "Tensor.resize_ Tensor.resize_as_",
    ),
}
