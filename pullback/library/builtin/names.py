"""What dispatch modes call built-in operators: torch's names, overloads and argument order.

A declared operator keeps one implementation where torch has several overloads, so the name depends
on the arguments. Each line of the table is a declaration's name and how its call is spelled:

    name.overload                     the parameters as they are declared
    name.overload(a b * c)            these parameters in this order; after `*` as keywords
    name.A|B:parameter                overload A if a tensor is passed there, else B
                                      (before a list of parameters, if there is one)

What stands in no line goes by its own name and `default`; names of parts that torch has not (the
adjoints that rules call) are in the namespace `pullback` instead of `aten`.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.declare import REQUIRED

__all__ = ["DEFAULTS", "OVERLOADS", "OWN", "SPELLINGS"]


def _table(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.strip().splitlines())
    return dict((part.strip() for part in line.split(None, 1)) for line in lines if line)  # type: ignore[misc]  # each line splits in two


SPELLINGS: dict[str, str] = _table(
    """
    _as_strided          as_strided.default
    _channel_shuffle     channel_shuffle.default(input groups)
    _conj                _conj.default
    _conj_physical       conj_physical.default
    _copy                copy.default(input src)
    _diag_embed          diag_embed.default
    _diagonal_scatter    diagonal_scatter.default
    _eig                 linalg_eig.default(A)
    _expand              expand.default
    _frexp               frexp.Tensor
    _fill                fill.Scalar
    _fill_rows           index_fill.int_Scalar
    _fill_rows_with      index_fill.int_Tensor
    _fill_with           fill.Tensor
    _flip                flip.default
    _geqrf               geqrf.default
    _linalg_cross        linalg_cross.default(input other * dim)
    _linalg_qr           linalg_qr.default(A form)
    _matrix_exp          linalg_matrix_exp.default
    _nonzero             nonzero.default
    _permute             permute.default
    _refill              fill.Scalar
    _refill_with         fill.Tensor
    _repeat              repeat.default
    _scatter             scatter.src
    _select_scatter      select_scatter.default
    _slice_scatter       slice_scatter.default
    _solve_triangular    linalg_solve_triangular.default(A B * upper left unitriangular)
    _split_with_sizes    split_with_sizes.default
    _squeeze_all         squeeze.default
    _unsafe_view         _unsafe_view.default
    _view                view.default
    _where               where.self
    _zero                zero.default
    add                  add.Tensor
    bitwise_and          bitwise_and.Tensor|Scalar:other
    bitwise_left_shift   bitwise_left_shift.Tensor|Tensor_Scalar:other
    bitwise_or           bitwise_or.Tensor|Scalar:other
    bitwise_right_shift  bitwise_right_shift.Tensor|Tensor_Scalar:other
    bitwise_xor          bitwise_xor.Tensor|Scalar:other
    clamp.Scalar         clamp.default
    clamp.Tensor         clamp.Tensor
    clamp_max.Scalar     clamp_max.default
    clamp_max.Tensor     clamp_max.Tensor
    clamp_min.Scalar     clamp_min.default
    clamp_min.Tensor     clamp_min.Tensor
    copysign             copysign.Tensor|Scalar:other
    div.Tensor_mode      div.Tensor_mode
    eq                   eq.Tensor|Scalar:other
    eq_                  eq.Tensor|Scalar:other
    euclidean_between    _cdist_forward.default
    fill_along           scatter.value
    fmod                 fmod.Tensor|Scalar:other
    ge                   ge.Tensor|Scalar:other
    ge_                  ge.Tensor|Scalar:other
    gt                   gt.Tensor|Scalar:other
    gt_                  gt.Tensor|Scalar:other
    ldexp                ldexp.Tensor
    le                   le.Tensor|Scalar:other
    le_                  le.Tensor|Scalar:other
    lerp.Scalar          lerp.Scalar
    lerp.Tensor          lerp.Tensor
    linalg.vector_norm   linalg_vector_norm.default
    logical_and_         logical_and.default
    logical_not_         logical_not.default
    logical_or_          logical_or.default
    logical_xor_         logical_xor.default
    lt                   lt.Tensor|Scalar:other
    lt_                  lt.Tensor|Scalar:other
    masked_fill          masked_fill.Tensor|Scalar:value
    max                  max.dim
    max.full             max.default(input)
    mean                 mean.dim
    mean.full            mean.default(input * dtype)
    median               median.dim
    median.full          median.default(input)
    min                  min.dim
    min.full             min.default(input)
    mish_kernel          mish.default
    mul                  mul.Tensor
    nanmedian            nanmedian.dim
    nanmedian.full       nanmedian.default(input)
    ne                   ne.Tensor|Scalar:other
    ne_                  ne.Tensor|Scalar:other
    nn.functional.elu    elu.default
    nn.functional.logsigmoid  log_sigmoid.default
    nn.functional.prelu  _prelu_kernel.default
    polygamma            polygamma.default(n input)
    pow.Scalar           pow.Scalar(base input)
    pow.Tensor_Scalar    pow.Tensor_Scalar
    pow.Tensor_Tensor    pow.Tensor_Tensor
    prod                 prod.dim_int
    prod.full            prod.default(input * dtype)
    rsub                 rsub.Tensor|Scalar:other
    scatter_reduce       scatter_reduce.two
    searchsorted         searchsorted.Tensor
    select               select.int
    silu_kernel          silu.default
    slice_along          slice.Tensor
    sort.stable          sort.stable(input * dim descending)
    std                  std.correction(input dim * correction keepdim)
    std_mean             std_mean.correction(input dim * correction keepdim)
    sub                  sub.Tensor
    sum                  sum.dim_IntList
    sum.full             sum.default(input * dtype)
    transpose            transpose.int
    true_divide          div.Tensor
    unbind               unbind.int
    var                  var.correction(input dim * correction keepdim)
    var_mean             var_mean.correction(input dim * correction keepdim)
    view_as_dtype        view.dtype
    xlogy                xlogy.Tensor|Scalar_Other:other
    """
)

# Declarations without an underscore that torch has under no name, or not with these arguments.
_OWN = """
    add_back batch_standardise clear convolution_weight divide_or_zero exceeds group_standardise
    hash_tensor inverse_deviation keep_where layer_standardise nn.functional.cross_entropy
    nn.functional.mse_loss nn.functional.nll_loss over_gap pick put_back put_places
    recurrence resample reverse_cumsum same shifted shortfall take_places zeros_of
"""
OWN: frozenset[str] = frozenset(_OWN.split())

# Defaults that torch's overloads have and our declarations have not: left out where they come last.
DEFAULTS: dict[str, dict[str, Any]] = {
    **{name: {"dim": 0} for name in ("cat", "stack", "_split_with_sizes")},
    **{name: {"dim": None} for name in ("std", "std_mean", "var", "var_mean")},
    "_diagonal_scatter": {"offset": 0, "dim1": 0, "dim2": 1},
    "_linalg_qr": {"form": "reduced"},
    "div.Tensor_mode": {"rounding_mode": REQUIRED},
    "_slice_scatter": {"end": None, "step": 1},
    "_solve_triangular": {"left": True, "unitriangular": False},
    "nn.functional.celu": {"alpha": 1.0},
    "nn.functional.elu": {"alpha": 1, "scale": 1.0, "input_scale": 1.0},
    "nn.functional.leaky_relu": {"negative_slope": 0.01},
}


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
    self ScalarOther ScalarSelf Scalar: where
    src value reduce value_reduce: scatter
    two: scatter_reduce
    using_ints: flatten
    x dx: cumulative_trapezoid trapezoid trapz
    """
)
