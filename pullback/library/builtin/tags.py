"""Which tags torch gives its operators: what compilers and policies ask of an overload.

A word is a name with its in-place form and all overloads, `=name` one without the other form, and
`name.overload` one overload.
"""

from __future__ import annotations

from functools import cache

from pullback.library.schema.tags import Tag

__all__ = ["tags_of"]

_TABLE = {
    "core": """
        _cdist_forward abs.default acos.default acosh.default adaptive_avg_pool1d add.Tensor
        add.Scalar addmm.default amax.default amin.default any.default any.dim any.dims
        arange.start_step argmax.default argmin.default =as_strided asin.default asinh.default
        atan.default =atan2 atanh.default avg_pool1d bitwise_and.Tensor bitwise_and.Scalar
        bitwise_not.default bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor
        bitwise_xor.Scalar bmm.default cat ceil.default =clamp clone constant_pad_nd =copy
        cos.default cosh.default cumsum.default diagonal =div elu embedding empty empty_strided =eq
        erf.default exp.default expand expm1.default fill.Scalar flip floor.default =fmod full
        full_like gather.default =ge grid_sampler_2d =gt index_put.default index_select.default
        isinf isnan =le log.default log10.default log1p.default log2.default logical_and.default
        logical_not.default logical_or.default logical_xor.default =lt =masked_scatter max.dim
        maximum.default mean min.dim minimum.default mm.default mul.Tensor mul.Scalar native_dropout
        native_group_norm native_layer_norm =ne neg.default nonzero permute =pow prod rand randn
        randperm reciprocal.default relu.default remainder.Tensor remainder.Scalar repeat resize
        round.default rsqrt.default scalar_tensor scatter.src scatter.value scatter_add.default
        =scatter_reduce select select_scatter sigmoid.default sign.default sin.default sinh.default
        slice slice_scatter sort.default split_with_sizes sqrt.default squeeze.dim squeeze.dims
        sub.Tensor sub.Scalar sum.dim_IntList tan.default tanh.default topk trunc.default =unsqueeze
        var.dim var.correction view.default where.self
    """,
    "data_dependent_output": "allclose equal item",
    "dynamic_output_shape": """
        argwhere bincount masked_select nonzero repeat_interleave.Tensor unique_consecutive
    """,
    "generated": "bernoulli.Tensor count_nonzero.out relu.out =zero",
    "inplace_view": """
        =as_strided_ =detach_ resize resize_as set =squeeze_ =swapaxes_ =swapdims_ =t_ =unsqueeze_
    """,
    "maybe_aliasing_or_mutating": """
        =alpha_dropout atleast_1d atleast_2d atleast_3d batch_norm cartesian_prod =conj_physical
        =dropout =feature_alpha_dropout =feature_dropout unsafe_chunk
    """,
    "nondeterministic_seeded": """
        _sample_dirichlet _standard_gamma alpha_dropout bernoulli binomial cauchy dropout
        exponential feature_alpha_dropout feature_dropout geometric log_normal multinomial
        native_dropout normal poisson rand rand_like randint randint_like randn randn_like random
        randperm rrelu uniform
    """,
    "pointwise": """
        =abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and
        bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp
        clamp_max clamp_min clip clone conj_physical =copysign cos cosh deg2rad digamma div elu =eq
        equal erf erfc erfinv exp exp2 expm1 float_power floor fmax fmin fmod frac frexp =gcd =ge
        =gt hardshrink.default =heaviside hypot i0 igamma igammac isfinite isinf isnan isneginf
        isposinf =lcm ldexp =le lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and
        logical_not logical_or logical_xor logit =lt masked_fill.Scalar max.other maximum min.other
        minimum mish mul mvlgamma nan_to_num =ne neg nextafter polygamma positive pow rad2deg
        reciprocal relu.default =relu_ remainder round =rrelu rsqrt rsub.Scalar selu sgn sigmoid
        sign signbit silu sin sinc sinh sqrt square sub tan tanh =threshold true_divide.Tensor trunc
        where.self =xlogy xlogy_.Tensor
    """,
    "reduction": """
        all amax amin aminmax any argmax argmin count_nonzero.default count_nonzero.dim_IntList
        linalg_vector_norm logsumexp max.default max.dim mean min.default min.dim nansum norm prod
        std std_mean sum var var_mean
    """,
    "view_copy": """
        alias_copy as_strided_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy
        slice_copy slice_scatter split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
        unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    """,
}


@cache
def _words() -> dict[str, list[Tag]]:
    found: dict[str, list[Tag]] = {}
    for tag, words in _TABLE.items():
        for word in words.split():
            found.setdefault(word, []).append(Tag[tag])
    return found


def tags_of(name: str, overload: str) -> list[Tag]:
    """The tags of a built-in operator's overload."""
    words = _words()
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    found = [Tag.pt2_compliant_tag]
    if base != name:
        found.append(Tag.inplace)
    if overload == "out":
        found.append(Tag.out)
    for word in (base, f"={name}", f"{name}.{overload}"):
        found += words.get(word, ())
    return sorted(found, key=lambda tag: tag.name)
