"""Which family of operators to load when a name is first used.

Importing pullback loads what every program needs: arithmetic, shapes, indexing, printing and the
engine. The other families would more than double the time for names that most programs never
touch. Tests hold these tables against what the families really define.
"""

from __future__ import annotations

# Family -> its functions at the top level of pullback.
FUNCTIONS: dict[str, str] = {
    "activation": "celu celu_ prelu relu_ rrelu rrelu_ selu selu_ threshold threshold_",
    "affine": "bilinear",
    "arrange": """
        atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod column_stack
        combinations concat concatenate dsplit dstack fliplr flipud hsplit hstack meshgrid
        repeat_interleave rot90 row_stack vsplit vstack
    """,
    "bessel": "i0",
    "contraction": "einsum inner tensordot",
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "ctc": "ctc_loss",
    "decomposition": "cholesky geqrf orgqr ormqr qr",
    "determinants": "det logdet slogdet",
    "diagonals": "block_diag diag diag_embed diagflat",
    "differences": "cumulative_trapezoid diff gradient trapezoid trapz",
    "distance": "cdist cosine_similarity pairwise_distance pdist",
    "draws": "bernoulli binomial multinomial normal poisson",
    "embedding_bag": "embedding_bag",
    "error_functions": "erf erfc erfinv",
    "extrema": """
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip fmax fmin maximum minimum relu
    """,
    "gather": "gather scatter_add take_along_dim",
    "generator": """
        Generator default_generator fork_rng get_rng_state initial_seed manual_seed seed
        set_rng_state
    """,
    "histograms": "bincount hash_tensor histc histogram histogramdd",
    "least_squares": "pinverse",
    "loss": "binary_cross_entropy_with_logits kl_div poisson_nll_loss",
    "lowrank": "pca_lowrank svd_lowrank",
    "lu": "lu lu_solve lu_unpack",
    "margins": "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss",
    "matrices": "chain_matmul cross kron trace",
    "matrix_functions": "matrix_exp matrix_power",
    "native_dropout": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ native_dropout
    """,
    "normalise": """
        batch_norm group_norm instance_norm layer_norm native_batch_norm native_group_norm
        native_layer_norm rms_norm
    """,
    "norms": "dist norm renorm",
    "order_statistics": "median mode nanmedian nanquantile quantile",
    "pad": "constant_pad_nd",
    "piecewise": "hardshrink",
    "places": "argwhere masked_scatter masked_select nonzero nonzero_static put take unravel_index",
    "pointwise": """
        copysign exp exp2 expm1 frexp heaviside ldexp log log10 log1p log2 logaddexp logaddexp2
        logit nan_to_num nextafter sigmoid xlogy
    """,
    "pool_average": "adaptive_avg_pool1d avg_pool1d",
    "pool_max": "adaptive_max_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d",
    "product_sums": "addbmm addmm addmv addr baddbmm",
    "products": "bmm dot ger matmul mm mv outer vdot",
    "random": "rand rand_like randint randint_like randn randn_like randperm",
    "ranges": "arange linspace logspace range",
    "reduction": "logsumexp mean nanmean nansum prod sum",
    "reduction_extremes": "amax amin aminmax argmax argmin max min",
    "rows": "index_add index_copy index_fill index_select",
    "sampling": "affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d",
    "scan": "cummax cummin cumprod cumsum logcumsumexp",
    "scatter": "scatter",
    "scatter_reduce": "index_reduce scatter_reduce",
    "segments": "segment_reduce",
    "selection": "masked_fill tril triu where",
    "shuffle": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "softmax": "log_softmax softmax",
    "solve": "inverse",
    "sorting": "argsort bucketize isin kthvalue msort searchsorted sort topk",
    "sparse": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor
    """,
    "special": "digamma igamma igammac lgamma mvlgamma polygamma",
    "spectral": "eig svd",
    "statistics": "corrcoef cov std std_mean var var_mean",
    "stft": "istft stft",
    "triangular": "cholesky_inverse cholesky_solve triangular_solve",
    "trigonometry": """
        acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
        cos cosh deg2rad hypot rad2deg sin sinc sinh tan tanh
    """,
    "truth": "all allclose any count_nonzero equal",
    "unique": "unique unique_consecutive",
    "view_copies": """
        alias_copy as_strided_copy diagonal_copy expand_copy permute_copy select_copy slice_copy
        split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy
        unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    """,
    "view_scatter": "as_strided_scatter diagonal_scatter narrow_copy select_scatter slice_scatter",
    "windows_signal": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}

# Family -> its methods of Tensor.
METHODS: dict[str, str] = {
    "activation": "prelu",
    "arrange": "dsplit fliplr flipud hsplit repeat_interleave rot90 vsplit",
    "bessel": "i0 i0_",
    "contraction": "inner",
    "decomposition": "cholesky geqrf orgqr ormqr qr",
    "determinants": "det logdet slogdet",
    "diagonals": "diag diag_embed diagflat",
    "differences": "diff",
    "draws": "bernoulli multinomial",
    "error_functions": "erf erf_ erfc erfc_ erfinv erfinv_",
    "extrema": """
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ fmax fmin maximum minimum
        relu relu_
    """,
    "fills": "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_",
    "gather": "gather scatter_add scatter_add_ take_along_dim",
    "histograms": "bincount hash_tensor histc histogram",
    "least_squares": "pinverse",
    "lu": "lu lu_solve",
    "matrices": "cross kron trace",
    "matrix_functions": "matrix_exp matrix_power",
    "norms": "dist norm renorm renorm_",
    "order_statistics": "median mode nanmedian nanquantile quantile",
    "piecewise": "hardshrink",
    "places": """
        argwhere masked_scatter masked_scatter_ masked_select nonzero nonzero_static put put_ take
    """,
    "pointwise": """
        copysign copysign_ exp exp_ exp2 exp2_ expm1 expm1_ frexp heaviside heaviside_ ldexp ldexp_
        log log_ log10 log10_ log1p log1p_ log2 log2_ logaddexp logaddexp2 logit logit_ nan_to_num
        nan_to_num_ nextafter nextafter_ sigmoid sigmoid_ xlogy xlogy_
    """,
    "product_sums": "addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_",
    "products": "bmm dot ger __matmul__ matmul mm mv outer __rmatmul__ vdot",
    "reduction": "logsumexp mean nanmean nansum prod sum sum_to_size",
    "reduction_extremes": "amax amin aminmax argmax argmin max min",
    "reshape_inplace": """
        as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_
    """,
    "rows": "index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_select",
    "scan": "cummax cummin cumprod cumprod_ cumsum cumsum_ logcumsumexp",
    "scatter": "scatter scatter_",
    "scatter_reduce": "index_reduce index_reduce_ scatter_reduce scatter_reduce_",
    "selection": "masked_fill masked_fill_ tril tril_ triu triu_ where",
    "softmax": "log_softmax softmax",
    "solve": "inverse",
    "sorting": "argsort kthvalue msort sort topk",
    "sparse": """
        sparse_mask to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr
    """,
    "special": """
        digamma digamma_ igamma igamma_ igammac igammac_ lgamma lgamma_ mvlgamma mvlgamma_ polygamma
        polygamma_
    """,
    "spectral": "svd",
    "statistics": "corrcoef cov std var",
    "stft": "istft stft",
    "triangular": "cholesky_inverse cholesky_solve triangular_solve",
    "trigonometry": """
        acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_
        arctan arctan_ arctan2 arctan2_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan_ atan2
        atan2_ atanh atanh_ cos cos_ cosh cosh_ deg2rad deg2rad_ hypot hypot_ rad2deg rad2deg_ sin
        sin_ sinc sinc_ sinh sinh_ tan tan_ tanh tanh_
    """,
    "truth": "all allclose any count_nonzero equal",
    "unique": "unique unique_consecutive",
    "view_scatter": "as_strided_scatter diagonal_scatter narrow_copy select_scatter slice_scatter",
}
