"""Which family of operators to load when a name is first used.

Importing pullback loads what every program needs: arithmetic, shapes, indexing, printing and the
engine. The other families would more than double the time for names that most programs never
touch. Tests hold these tables against what the families really define.
"""

from __future__ import annotations

# Family -> its functions at the top level of pullback.
FUNCTIONS: dict[str, str] = {
    "nn.activation.functions": """
        celu celu_ prelu relu_ rrelu rrelu_ selu selu_ threshold threshold_
    """,
    "linalg.affine": "bilinear",
    "shape.arrange": """
        atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod column_stack
        combinations concat concatenate dsplit dstack fliplr flipud hsplit hstack meshgrid
        repeat_interleave rot90 row_stack vsplit vstack
    """,
    "special.bessel": "i0",
    "linalg.contraction": "einsum inner tensordot",
    "nn.conv.functions": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.loss.ctc": "ctc_loss",
    "linalg.decomposition": "cholesky geqrf orgqr ormqr qr",
    "linalg.determinants": "det logdet slogdet",
    "shape.diagonals": "block_diag diag diag_embed diagflat",
    "reduce.differences": "cumulative_trapezoid diff gradient trapezoid trapz",
    "linalg.distance": "cdist cosine_similarity pairwise_distance pdist",
    "random.draws": "bernoulli binomial multinomial normal poisson",
    "nn.embedding.bags": "embedding_bag",
    "special.error_functions": "erf erfc erfinv",
    "pointwise.extrema": """
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip fmax fmin maximum minimum relu
    """,
    "indexing.gather": "gather scatter_add take_along_dim",
    "random.generator": """
        Generator default_generator fork_rng get_rng_state initial_seed manual_seed seed
        set_rng_state
    """,
    "reduce.histograms": "bincount hash_tensor histc histogram histogramdd",
    "linalg.least_squares": "pinverse",
    "nn.loss.elementwise": "binary_cross_entropy_with_logits kl_div poisson_nll_loss",
    "linalg.lowrank": "pca_lowrank svd_lowrank",
    "linalg.lu": "lu lu_solve lu_unpack",
    "nn.loss.margins": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss
    """,
    "linalg.matrices": "chain_matmul cross kron trace",
    "linalg.matrix_functions": "matrix_exp matrix_power",
    "nn.activation.native_dropout": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ native_dropout
    """,
    "nn.norm.layers": """
        batch_norm group_norm instance_norm layer_norm native_batch_norm native_group_norm
        native_layer_norm rms_norm
    """,
    "reduce.norms": "dist norm renorm",
    "reduce.order_statistics": "median mode nanmedian nanquantile quantile",
    "nn.image.pad": "constant_pad_nd",
    "nn.activation.piecewise": "hardshrink",
    "indexing.places": """
        argwhere masked_scatter masked_select nonzero nonzero_static put take unravel_index
    """,
    "pointwise.exponentials": """
        copysign exp exp2 expm1 frexp heaviside ldexp log log10 log1p log2 logaddexp logaddexp2
        logit nan_to_num nextafter sigmoid xlogy
    """,
    "nn.pool.average": "adaptive_avg_pool1d avg_pool1d",
    "nn.pool.maximum": """
        max_pool1d max_pool1d_with_indices max_pool2d max_pool3d
    """,
    "linalg.product_sums": "addbmm addmm addmv addr baddbmm",
    "linalg.products": "bmm dot ger matmul mm mv outer vdot",
    "random.tensors": "rand rand_like randint randint_like randn randn_like randperm",
    "create.ranges": "arange linspace logspace range",
    "reduce.sums": "logsumexp mean nanmean nansum prod sum",
    "reduce.extremes": "amax amin aminmax argmax argmin max min",
    "indexing.rows": "index_add index_copy index_fill index_select",
    "nn.image.sampling": "affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d",
    "reduce.scan": "cummax cummin cumprod cumsum logcumsumexp",
    "indexing.scatter": "scatter",
    "indexing.scatter_reduce": "index_reduce scatter_reduce",
    "reduce.segments": "segment_reduce",
    "indexing.selection": "masked_fill tril triu where",
    "nn.image.shuffle": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "nn.activation.softmax": "log_softmax softmax",
    "linalg.solve": "inverse",
    "reduce.sorting": "argsort bucketize isin kthvalue msort searchsorted sort topk",
    "sparse.filled": "resize_as_sparse_",
    "sparse.products": "dsmm hsmm hspmm saddmm smm spmm sspaddmm",
    "sparse.create": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor
    """,
    "special.functions": "digamma igamma igammac lgamma mvlgamma polygamma",
    "linalg.spectral": "eig svd",
    "reduce.statistics": "corrcoef cov std std_mean var var_mean",
    "fourier.stft": "istft stft",
    "linalg.triangular": "cholesky_inverse cholesky_solve triangular_solve",
    "pointwise.trigonometry": """
        acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
        cos cosh deg2rad hypot rad2deg sin sinc sinh tan tanh
    """,
    "reduce.truth": "all allclose any count_nonzero equal",
    "reduce.unique": "unique unique_consecutive",
    "shape.view_copies": """
        alias_copy as_strided_copy diagonal_copy expand_copy permute_copy select_copy slice_copy
        split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy
        unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    """,
    "shape.view_scatter": """
        as_strided_scatter diagonal_scatter narrow_copy select_scatter slice_scatter
    """,
    "fourier.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}

# Family -> its methods of Tensor.
METHODS: dict[str, str] = {
    "nn.activation.functions": "prelu",
    "shape.arrange": "dsplit fliplr flipud hsplit repeat_interleave rot90 vsplit",
    "special.bessel": "i0 i0_",
    "linalg.contraction": "inner",
    "linalg.decomposition": "cholesky geqrf orgqr ormqr qr",
    "linalg.determinants": "det logdet slogdet",
    "shape.diagonals": "diag diag_embed diagflat",
    "reduce.differences": "diff",
    "random.draws": "bernoulli multinomial",
    "special.error_functions": "erf erf_ erfc erfc_ erfinv erfinv_",
    "pointwise.extrema": """
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ fmax fmin maximum minimum
        relu relu_
    """,
    "random.fills": """
        bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_
    """,
    "indexing.gather": "gather scatter_add scatter_add_ take_along_dim",
    "reduce.histograms": "bincount hash_tensor histc histogram",
    "linalg.least_squares": "pinverse",
    "linalg.lu": "lu lu_solve",
    "linalg.matrices": "cross kron trace",
    "linalg.matrix_functions": "matrix_exp matrix_power",
    "reduce.norms": "dist norm renorm renorm_",
    "reduce.order_statistics": "median mode nanmedian nanquantile quantile",
    "nn.activation.piecewise": "hardshrink",
    "indexing.places": """
        argwhere masked_scatter masked_scatter_ masked_select nonzero nonzero_static put put_ take
    """,
    "pointwise.exponentials": """
        copysign copysign_ exp exp_ exp2 exp2_ expm1 expm1_ frexp heaviside heaviside_ ldexp ldexp_
        log log_ log10 log10_ log1p log1p_ log2 log2_ logaddexp logaddexp2 logit logit_ nan_to_num
        nan_to_num_ nextafter nextafter_ sigmoid sigmoid_ xlogy xlogy_
    """,
    "linalg.product_sums": "addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_",
    "linalg.products": "bmm dot ger __matmul__ matmul mm mv outer __rmatmul__ vdot",
    "reduce.sums": "logsumexp mean nanmean nansum prod sum sum_to_size",
    "reduce.extremes": "amax amin aminmax argmax argmin max min",
    "shape.reshape_inplace": """
        as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_
    """,
    "indexing.rows": """
        index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_select
    """,
    "reduce.scan": "cummax cummin cumprod cumprod_ cumsum cumsum_ logcumsumexp",
    "indexing.scatter": "scatter scatter_",
    "indexing.scatter_reduce": "index_reduce index_reduce_ scatter_reduce scatter_reduce_",
    "indexing.selection": "masked_fill masked_fill_ tril tril_ triu triu_ where",
    "nn.activation.softmax": "log_softmax softmax",
    "linalg.solve": "inverse",
    "reduce.sorting": "argsort kthvalue msort sort topk",
    "sparse.filled": "resize_as_sparse_ sparse_resize_ sparse_resize_and_clear_",
    "sparse.products": "smm sspaddmm",
    "sparse.convert": """
        ccol_indices coalesce _coalesced_ col_indices crow_indices dense_dim _dimI _dimV indices
        _indices is_coalesced _nnz row_indices sparse_dim sparse_mask to_dense to_sparse
        to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values _values
    """,
    "special.functions": """
        digamma digamma_ igamma igamma_ igammac igammac_ lgamma lgamma_ mvlgamma mvlgamma_ polygamma
        polygamma_
    """,
    "linalg.spectral": "svd",
    "reduce.statistics": "corrcoef cov std var",
    "fourier.stft": "istft stft",
    "linalg.triangular": "cholesky_inverse cholesky_solve triangular_solve",
    "pointwise.trigonometry": """
        acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_
        arctan arctan_ arctan2 arctan2_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan_ atan2
        atan2_ atanh atanh_ cos cos_ cosh cosh_ deg2rad deg2rad_ hypot hypot_ rad2deg rad2deg_ sin
        sin_ sinc sinc_ sinh sinh_ tan tan_ tanh tanh_
    """,
    "reduce.truth": "all allclose any count_nonzero equal",
    "reduce.unique": "unique unique_consecutive",
    "shape.view_scatter": """
        as_strided_scatter diagonal_scatter narrow_copy select_scatter slice_scatter
    """,
}
