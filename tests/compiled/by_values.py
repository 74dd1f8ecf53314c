"""Operators that no program can contain."""

# What needs the values of its tensors: such calls run eagerly, and say so.
BY_VALUES = frozenset(
    [
        "Tensor.__getitem__",
        "allclose",
        "argwhere",
        "bincount",
        "combinations",
        "equal",
        "histogram",
        "histogramdd",
        "index_put",
        "linalg.lstsq",
        "masked_scatter",
        "masked_select",
        "nn.functional.ctc_loss",
        "nn.functional.embedding_bag",
        "nn.functional.gaussian_nll_loss",
        "nn.functional.one_hot",
        "nonzero",
        "repeat_interleave",
        "segment_reduce",
        "unique",
        "unique_consecutive",
        "where",
        "floor_divide",
        "geqrf",
        "heaviside",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
    ]
)
