"""The overloads that built-in operators have in torch, for dispatch modes and `torch.ops.aten`.

Which of them a call of a declared operator is shown as stands in its declaration, as `aten=`:

    name.overload                     the parameters as they are declared
    name.overload(a b * c)            these parameters in this order; after `*` as keywords
    name.A|B:parameter                overload A if a tensor is passed there, else B
                                      (before a list of parameters, if there is one)

A declaration without it goes by its own name and `default`; one that torch has not (the adjoints
that rules call, and where `aten=""` says so) is in the namespace `pullback` instead of `aten`.
"""

from __future__ import annotations

__all__ = ["OVERLOADS"]


def _overloads(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in text.strip().splitlines():
        overloads, _, names = line.partition(":")
        found.update(dict.fromkeys(names.split(), tuple(overloads.split())))
    return found


# Overloads of names that have others than `default`; an in-place form has those of its function.
OVERLOADS: dict[str, tuple[str, ...]] = _overloads(
    """
    Tensor Scalar: add sub mul multiply subtract rsub true_divide eq ne lt le gt ge greater
    Tensor Scalar: greater_equal less less_equal not_equal copysign fmod bucketize searchsorted
    Tensor Scalar: fill lerp masked_fill
    Tensor Scalar Scalar_Tensor: bitwise_and bitwise_or bitwise_xor remainder
    Tensor Tensor_Scalar Scalar_Tensor: bitwise_left_shift bitwise_right_shift
    Tensor Scalar Tensor_mode Scalar_mode: div divide
    Tensor_Tensor Tensor_Scalar Scalar: pow float_power
    Tensor_Tensor Tensor_Scalar Scalar_Tensor: isin
    Tensor Scalar_Other Scalar_Self: xlogy
    Tensor: frexp ldexp slice slice_copy split_copy unsafe_split index
    Tensor sizes: split
    default int: sym_size
    default other_scalar self_scalar: special_xlog1py special_xlogy special_zeta
    default x_scalar n_scalar: special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    default x_scalar n_scalar: special_chebyshev_polynomial_v special_chebyshev_polynomial_w
    default x_scalar n_scalar: special_hermite_polynomial_h special_hermite_polynomial_he
    default x_scalar n_scalar: special_laguerre_polynomial_l special_legendre_polynomial_p
    default x_scalar n_scalar: special_shifted_chebyshev_polynomial_t
    default x_scalar n_scalar: special_shifted_chebyshev_polynomial_u
    default x_scalar n_scalar: special_shifted_chebyshev_polynomial_v
    default x_scalar n_scalar: special_shifted_chebyshev_polynomial_w
    default Tensor: clamp clamp_max clamp_min clip narrow
    default Scalar: floor_divide
    default dim dims: squeeze squeeze_copy all any
    default dim correction: std std_mean var var_mean
    default dim: mean median nanmedian
    default dim_IntList: sum count_nonzero
    default dim_int: prod
    default dim other: max min
    default decimals: round
    default stable: sort argsort
    default dtype: view view_copy
    default start start_step: arange
    default m: eye
    default p Tensor: bernoulli
    default padding: conv1d conv2d conv3d
    default padding_idx: embedding_bag
    default periodic: bartlett_window blackman_window hann_window
    default indexing: meshgrid
    default low: randint randint_like
    default scalar: quantile nanquantile
    default from to: random_
    default msg: _assert_async
    device dtype other dtype_layout: to
    default hacked_twin: index_put
    default ord_str: linalg_norm
    default str_ord: linalg_matrix_norm
    default p_str: linalg_cond
    default atol_rtol_tensor atol_rtol_float: linalg_pinv linalg_matrix_rank
    input: conv_transpose2d conv_transpose3d
    int: log_softmax softmax select select_copy transpose transpose_copy unbind unbind_copy
    int: unflatten
    int intlist: movedim moveaxis
    int array: dsplit hsplit vsplit
    int_Scalar int_Tensor: index_fill
    IntList Tensor: ctc_loss
    Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype: norm
    Tensor_float float_Tensor Tensor_Tensor float_float: normal
    Tensor self_Tensor self_int: repeat_interleave
    bin_ct bins_tensor: histogram
    memory_format: empty
    sections indices: tensor_split
    default self ScalarOther ScalarSelf Scalar: where
    src value reduce value_reduce: scatter
    two: scatter_reduce
    using_ints: flatten
    x dx: cumulative_trapezoid trapezoid trapz
    """
)
