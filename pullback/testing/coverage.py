"""Which operators there are to cover, and which modes each supports: facts, written down as data.

Read by the tests (what to check of an operator) and by the table of operators in the docs, which
looks methods and in-place forms up. A flag is a letter; operators of equal flags stand together;
`div:floor_rounding` is a variant of `div`.
"""

from __future__ import annotations

from typing import NamedTuple

from pullback.operators.declare import OPERATORS

# Letter -> mode.
FLAGS = {
    "g": "grad",  # reverse mode
    "G": "gradgrad",  # reverse mode, twice
    "j": "jvp",  # forward mode
    "b": "vmap",  # can be batched
    "c": "complex",  # takes complex128, with gradient where there is one
    "v": "view",  # the result may share memory with an input
}

_TABLE = {
    "pointwise": {
        "gGjbc": """
            Tensor.__radd__ Tensor.__rdiv__ Tensor.__rmul__ Tensor.__rpow__
            Tensor.__rsub__ logaddexp abs acos acosh add addcdiv addcmul asin asinh atan
            atanh cos cosh div:no_rounding_mode exp exp2 expm1 float_power ldexp lerp
            log log10 log1p log2 mul neg pow reciprocal rsqrt sgn sin sinh sqrt square
            sub tan tanh true_divide rsub
        """,
        "b": """
            Tensor.__rand__ Tensor.__ror__ Tensor.__rxor__ isneginf isposinf signbit
            bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
            bitwise_xor floor_divide gcd ge gt heaviside lcm le lt
        """,
        "gGjb": """
            Tensor.__rmod__ fmax fmin frexp logaddexp2 max:binary maximum min:binary
            minimum atan2 ceil clamp clamp_max clamp_min copysign deg2rad
            div:floor_rounding div:trunc_rounding floor fmod frac hypot nan_to_num
            nextafter rad2deg remainder round round:decimals_0 round:decimals_3
            round:decimals_neg_3 sign trunc
        """,
        "bc": "eq logical_and logical_not logical_or logical_xor ne isclose isfinite isinf isnan",
        "gGjbcv": "positive",
    },
    "special": {
        "gGjb": """
            digamma erf erfc erfinv i0 lgamma logit mvlgamma:mvlgamma_p_1
            mvlgamma:mvlgamma_p_3 mvlgamma:mvlgamma_p_5 polygamma:polygamma_n_0
            polygamma:polygamma_n_1 polygamma:polygamma_n_2 polygamma:polygamma_n_3
            polygamma:polygamma_n_4 xlogy special.entr special.erfcx special.i0e
            special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri
            special.polygamma:special_polygamma_n_0 special.xlog1py
        """,
        "b": """
            igamma igammac special.airy_ai special.bessel_j0 special.bessel_j1
            special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
            special.chebyshev_polynomial_u special.chebyshev_polynomial_v
            special.chebyshev_polynomial_w special.hermite_polynomial_h
            special.hermite_polynomial_he special.laguerre_polynomial_l
            special.legendre_polynomial_p special.modified_bessel_i0
            special.modified_bessel_i1 special.modified_bessel_k0
            special.modified_bessel_k1 special.scaled_modified_bessel_k0
            special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t
            special.shifted_chebyshev_polynomial_u
            special.shifted_chebyshev_polynomial_v
            special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0
            special.zeta
        """,
        "gGjbc": "sinc",
    },
    "complex": {
        "gGjbc": "angle",
        "gGjb": "complex polar",
        "gGjbcv": "conj resolve_conj resolve_neg conj_physical imag real view_as_real",
        "bc": "isreal",
        "gGjbv": "view_as_complex",
    },
    "reductions": {
        "gGjbc": """
            Tensor.sum_to_size corrcoef cov diff dist logcumsumexp logsumexp mean norm
            norm:fro norm:inf norm:nuc prod std std:unbiased sum var var:unbiased
            cumprod cumsum renorm cumulative_trapezoid gradient std_mean
            std_mean:unbiased trapezoid trapz var_mean var_mean:unbiased
        """,
        "bc": "all any count_nonzero",
        "c": "allclose equal",
        "gGjb": """
            amax amin aminmax cummax cummin max:reduction_no_dim max:reduction_with_dim
            median min:reduction_no_dim min:reduction_with_dim mode nanmean nanmedian
            nanquantile nansum quantile
        """,
        "b": "argmax argmin bincount hash_tensor histc histogram",
        "v": "histogramdd",
        "gb": "segment_reduce:lengths segment_reduce:offsets",
    },
    "masked": {
        "gGjb": """
            masked.amax masked.amin masked.log_softmax masked.logaddexp masked.median
            masked.norm masked.softmax masked.softmin
        """,
        "b": "masked.argmax masked.argmin",
        "gGjbc": """
            masked.cumprod masked.cumsum masked.logsumexp masked.mean masked.normalize
            masked.prod masked.std masked.sum masked.var
        """,
    },
    "sorting": {
        "b": "argsort bucketize isin searchsorted",
        "gGjb": "kthvalue msort sort topk",
        "": "unique unique_consecutive",
    },
    "shape/view": {
        "gGjbcv": """
            Tensor.H Tensor.T Tensor.contiguous Tensor.expand Tensor.expand_as Tensor.mH
            Tensor.mT Tensor.reshape_as Tensor.unfold Tensor.view Tensor.view_as
            broadcast_to chunk diagonal dsplit flatten hsplit movedim narrow permute
            ravel reshape select split split:list_args split_with_sizes unbind unflatten
            unsafe_chunk unsafe_split vsplit as_strided squeeze squeeze:multiple t
            transpose unsqueeze atleast_1d atleast_2d atleast_3d broadcast_tensors
            cartesian_prod meshgrid:list_of_tensors meshgrid:variadic_tensors
        """,
        "gGjbc": """
            Tensor.repeat clone diag diag_embed diagflat flip fliplr flipud narrow_copy
            repeat_interleave roll rot90 tile alias_copy as_strided_copy block_diag cat
            combinations diagonal_copy dstack expand_copy hstack permute_copy
            split_with_sizes_copy squeeze_copy stack t_copy transpose_copy unbind_copy
            unfold_copy unsqueeze_copy view_copy vstack tril triu
        """,
        "bc": "Tensor.resize_ Tensor.resize_as_",
        "": "broadcast_shapes",
        "gGjc": "column_stack",
        "gGjcv": "tensor_split",
    },
    "indexing/scatter": {
        "gGjbc": """
            Tensor.__getitem__ diagonal_scatter gather index_select masked_select take
            take_along_dim where index_add index_copy index_fill index_put masked_fill
            masked_scatter put scatter scatter_add
        """,
        "bc": "argwhere nonzero_static",
        "gGjc": "as_strided_scatter",
        "gGb": """
            index_reduce:amax index_reduce:amin index_reduce:mean index_reduce:prod
            scatter_reduce:prod
        """,
        "c": "nonzero",
        "gGjb": """
            scatter_reduce:amax scatter_reduce:amin scatter_reduce:mean
            scatter_reduce:sum select_scatter slice_scatter
        """,
        "b": "unravel_index",
    },
    "linalg": {
        "gGjbc": """
            Tensor.__rmatmul__ bmm cholesky_inverse cholesky_solve cross dot inner kron
            logdet lu lu_solve matmul matrix_exp mm mv outer pinverse qr svd trace
            triangular_solve vdot addbmm addmm addmv addr baddbmm einsum linalg.cholesky
            linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.eig
            linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product
            linalg.inv linalg.inv_ex linalg.lstsq:grad_oriented linalg.lu
            linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm
            linalg.matrix_power linalg.multi_dot linalg.norm
            linalg.norm:subgradients_at_zero linalg.pinv linalg.pinv:hermitian
            linalg.pinv:singular linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
            linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv
            linalg.tensorsolve linalg.vander linalg.vecdot linalg.vector_norm lu_unpack
            tensordot
        """,
        "gb": "cdist",
        "gGbc": "cholesky ormqr linalg.lstsq",
        "bc": """
            geqrf linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve
            linalg.matrix_rank linalg.matrix_rank:hermitian
        """,
        "gGjbcv": "linalg.diagonal",
        "gGjc": "pca_lowrank svd_lowrank",
    },
    "fft/signal": {
        "gGjbc": """
            fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft
            fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.irfft2 fft.irfftn istft stft
        """,
        "gGjb": "fft.ihfft fft.ihfft2 fft.ihfftn fft.rfft fft.rfft2 fft.rfftn",
        "": """
            signal.windows.bartlett signal.windows.blackman signal.windows.cosine
            signal.windows.exponential signal.windows.gaussian
            signal.windows.general_cosine signal.windows.general_hamming
            signal.windows.hamming signal.windows.hann signal.windows.kaiser
            signal.windows.nuttall
        """,
    },
    "nn.activation": {
        "gGjb": """
            log_softmax softmax nn.functional.celu nn.functional.elu
            nn.functional.leaky_relu nn.functional.mish nn.functional.selu
            nn.functional.silu nn.functional.threshold nn.functional.gelu
            nn.functional.glu nn.functional.hardshrink nn.functional.hardswish
            nn.functional.hardtanh nn.functional.logsigmoid nn.functional.prelu
            nn.functional.relu nn.functional.relu6 nn.functional.softmin
            nn.functional.softplus nn.functional.softshrink
        """,
        "gGjbc": """
            log_softmax:with_dtype softmax:with_dtype nn.functional.softmin:with_dtype
            nn.functional.softsign nn.functional.tanhshrink sigmoid
        """,
        "gjb": "nn.functional.hardsigmoid",
        "gGj": "nn.functional.rrelu",
        "bc": "nn.functional.silu:complex",
    },
    "nn.conv": {
        "gGjbc": """
            nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
            nn.functional.conv_transpose1d nn.functional.conv_transpose2d
            nn.functional.conv_transpose3d nn.functional.unfold
        """
    },
    "nn.pool": {
        "gGjb": """
            nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
            nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
            nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
            nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d
            nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d
            nn.functional.max_unpool1d nn.functional.max_unpool1d:grad
            nn.functional.max_unpool2d nn.functional.max_unpool2d:grad
            nn.functional.max_unpool3d nn.functional.max_unpool3d:grad
        """,
        "gGj": "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d",
    },
    "nn.norm": {
        "gGjb": """
            native_batch_norm native_group_norm nn.functional.batch_norm
            nn.functional.group_norm nn.functional.instance_norm
            nn.functional.layer_norm nn.functional.local_response_norm
        """,
        "gGb": "native_layer_norm",
        "gGjbc": "nn.functional.normalize nn.functional.rms_norm",
    },
    "nn.loss": {
        "gGjb": """
            nn.functional.binary_cross_entropy
            nn.functional.binary_cross_entropy_with_logits
            nn.functional.cosine_embedding_loss nn.functional.cross_entropy
            nn.functional.gaussian_nll_loss nn.functional.hinge_embedding_loss
            nn.functional.huber_loss nn.functional.kl_div
            nn.functional.linear_cross_entropy nn.functional.margin_ranking_loss
            nn.functional.mse_loss nn.functional.multilabel_soft_margin_loss
            nn.functional.nll_loss nn.functional.poisson_nll_loss
            nn.functional.smooth_l1_loss nn.functional.soft_margin_loss
        """,
        "gb": """
            nn.functional.ctc_loss nn.functional.multi_margin_loss
            nn.functional.multilabel_margin_loss
        """,
        "gGjbc": """
            nn.functional.l1_loss nn.functional.triplet_margin_loss
            nn.functional.triplet_margin_with_distance_loss
        """,
    },
    "nn.attention/linear": {
        "gGjb": "nn.functional.bilinear nn.functional.cosine_similarity nn.functional.embedding",
        "gb": "nn.functional.embedding_bag nn.functional.pdist",
        "gGjbc": "nn.functional.linear nn.functional.pairwise_distance",
        "gGj": "nn.functional.multi_head_attention_forward",
        "b": "nn.functional.one_hot",
        "gGb": "nn.functional.scaled_dot_product_attention",
    },
    "nn.resample/pad": {
        "gGjbc": """
            constant_pad_nd nn.functional.channel_shuffle nn.functional.pad:circular
            nn.functional.pad:constant nn.functional.pad:reflect
            nn.functional.pad:replicate nn.functional.pad:replicate_negative
            nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
        """,
        "gGb": "grid_sampler_2d grid_sampler_3d nn.functional.grid_sample",
        "gGjb": """
            nn.functional.interpolate:area nn.functional.interpolate:bicubic
            nn.functional.interpolate:bilinear nn.functional.interpolate:linear
            nn.functional.interpolate:nearest nn.functional.interpolate:nearest-exact
            nn.functional.interpolate:trilinear nn.functional.upsample_bilinear
            nn.functional.upsample_nearest
        """,
    },
    "nn.dropout": {
        "gGjbv": """
            nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
            nn.functional.dropout3d nn.functional.feature_alpha_dropout:with_train
        """,
        "gGjbcv": "nn.functional.feature_alpha_dropout:without_train",
    },
    "creation/cast": {
        "bc": """
            Tensor.bool Tensor.byte Tensor.char Tensor.int Tensor.long Tensor.new_empty
            Tensor.new_empty_strided Tensor.new_full Tensor.new_ones Tensor.new_zeros
            Tensor.short empty_like full_like linspace:tensor_overload
            logspace:tensor_overload ones_like zeros_like
        """,
        "gGjbcv": "Tensor.cdouble Tensor.double Tensor.to",
        "gGbc": "Tensor.cfloat Tensor.float Tensor.half",
        "c": """
            Tensor.item empty empty_permuted empty_strided eye full linspace logspace
            ones scalar_tensor zeros
        """,
        "gGjbc": "Tensor.zero_ fill",
        "": "arange tril_indices triu_indices",
    },
    "random": {
        "gGj": "bernoulli",
        "": "multinomial randint randint_like",
        "gG": "normal normal:number_mean",
        "c": "rand_like randn randn_like",
    },
}

# Other name = the name it stands for.
_ALIASES = """
    absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctan2=atan2
    arctanh=atanh clip=clamp divide=div special.exp2=exp2 special.expm1=expm1 greater_equal=ge
    greater=gt less_equal=le special.log1p=log1p less=lt maximum=max minimum=min multiply=mul
    not_equal=ne negative=neg special.round=round subtract=sub nn.functional.tanh=tanh fix=trunc
    special.psi=digamma special.digamma=digamma special.erf=erf special.erfc=erfc
    special.erfinv=erfinv special.i0=i0 special.gammainc=igamma special.gammaincc=igammac
    special.gammaln=lgamma special.logit=logit special.multigammaln=mvlgamma special.sinc=sinc
    special.xlogy=xlogy special.logsumexp=logsumexp adjoint=Tensor.mH concat=cat concatenate=cat
    moveaxis=movedim swapdims=transpose swapaxes=transpose row_stack=vstack det=linalg.det
    orgqr=linalg.householder_product inverse=linalg.inv matrix_power=linalg.matrix_power
    linalg.matmul=matmul linalg.matrix_exp=matrix_exp ger=outer special.log_softmax=log_softmax
    nn.functional.log_softmax=log_softmax special.expit=sigmoid nn.functional.sigmoid=sigmoid
    special.softmax=softmax nn.functional.softmax=softmax conv1d=nn.functional.conv1d
    conv2d=nn.functional.conv2d conv3d=nn.functional.conv3d
    conv_transpose1d=nn.functional.conv_transpose1d
    conv_transpose2d=nn.functional.conv_transpose2d
    conv_transpose3d=nn.functional.conv_transpose3d group_norm=nn.functional.group_norm
    layer_norm=nn.functional.layer_norm rms_norm=nn.functional.rms_norm relu=nn.functional.relu
"""


class Support(NamedTuple):
    """What one operator can do."""

    family: str
    variants: tuple[str, ...]
    modes: frozenset[str]  # of the operator or of any of its variants


def _read_table() -> dict[str, Support]:
    known: dict[str, Support] = {}
    for family, groups in _TABLE.items():
        for flags, names in groups.items():
            modes = frozenset(FLAGS[flag] for flag in flags)
            for entry in names.split():
                name, _, variant = entry.partition(":")
                first, variants, others = known.get(name, (family, (), frozenset()))
                known[name] = Support(first, (*variants, variant), modes | others)
    return known


COVERAGE: dict[str, Support] = _read_table()
ALIASES: dict[str, str] = dict(pair.split("=") for pair in _ALIASES.split())


def supports(name: str, mode: str) -> bool:
    """Whether the operator of this name, function, method or alias, works in a mode.

    >>> supports("sin", "complex"), supports("arctan2", "complex")
    (True, False)
    """
    bare = name.removeprefix("Tensor.")
    names = (name, bare, f"Tensor.{bare}", f"nn.functional.{bare}", ALIASES.get(bare, ""))
    known = [COVERAGE[one] for one in names if one in COVERAGE]
    if known:
        return any(mode in one.modes for one in known)
    return mode in _declared_modes(bare)


def _declared_modes(name: str) -> frozenset[str]:
    """What an operator that torch has not can do, by its declaration; all of it is tested."""
    op = OPERATORS.get(name)
    if op is None:
        return frozenset()
    modes = {"vmap"}
    if op.rules:
        modes |= {"grad", "gradgrad", "jvp"}
    return frozenset(modes | ({"view"} if op.kind == "view" else set()))
