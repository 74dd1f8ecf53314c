"""Every operator on all its samples: values, derivatives, in-place forms, both speeds, both passes.

A new line in a table of pullback/testing is tested here without another word. One test item is one
operator in one dtype; a failure names the sample.
"""

import contextlib
import itertools

import numpy
import pytest

import pullback
from pullback.autograd import forward_ad
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.core.promotion import can_cast
from pullback.core.tensor import Tensor
from pullback.engine import backward as engine
from pullback.engine import request
from pullback.operators.running import interpret
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports

NAMES = [name for name in SAMPLES if resolve(pullback, name) is not None]
COMPLEX = [name for name in NAMES if supports(name, "complex")]
DTYPES = [pytest.param(name, pullback.float64, id=f"{name}-float64") for name in NAMES]
DTYPES += [pytest.param(name, pullback.complex128, id=f"{name}-complex128") for name in COMPLEX]
DECLARED = [name for name in NAMES if hasattr(resolve(pullback, name), "op")]

in_both_dtypes = pytest.mark.parametrize(("name", "dtype"), DTYPES)

# What the foundation promises; a name that goes missing is a failure, not a shorter list.
PROMISED = """
    add sub mul div pow neg abs sign reciprocal sqrt rsqrt exp log log1p expm1 sin cos tan tanh
    sigmoid relu clamp maximum minimum where lerp addcmul addcdiv remainder fmod floor ceil round
    eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite
    sum mean prod max min amax amin var std var_mean norm logsumexp argmax argmin all any cumsum
    cumprod Tensor.view reshape flatten unflatten squeeze unsqueeze transpose permute t Tensor.T
    Tensor.mT Tensor.H Tensor.mH Tensor.expand Tensor.expand_as broadcast_to narrow select
    Tensor.__getitem__ split chunk unbind diagonal Tensor.unfold as_strided movedim swapaxes flip
    roll Tensor.repeat tile cat stack matmul mm bmm mv dot addmm baddbmm einsum outer tensordot
    gather scatter scatter_add index_select index_add masked_fill masked_select take_along_dim
    sort topk tril triu clone Tensor.contiguous Tensor.to softmax log_softmax
    nn.functional.linear nn.functional.relu nn.functional.gelu nn.functional.cross_entropy
    nn.functional.nll_loss nn.functional.mse_loss nn.functional.layer_norm
    nn.functional.embedding nn.functional.dropout
"""

# No two calls agree on values: their own tests look at distributions.
RANDOM = {"bernoulli", "poisson"}

# Their results are double precision, whatever goes in.
DOUBLING = {"float_power", "Tensor.double"}

# In-place forms that change a tensor's shape, not its values.
RESHAPING = {"squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "as_strided"}

# NumPy's name, and ours where it differs.
UFUNCS = """
    abs arccos=acos arcsin=asin arctan=atan arccosh=acosh arcsinh=asinh arctanh=atanh ceil cos cosh
    exp exp2 expm1 floor log log10 log1p log2 negative=neg negative positive reciprocal
    rint=round signbit sin sinh sqrt square tan tanh trunc isfinite isinf isnan logical_not
    conjugate=conj conjugate=conj_physical add subtract=sub multiply=mul divide=div
    divide=true_divide arctan2=atan2 hypot copysign logaddexp logaddexp2 maximum minimum fmax fmin
    equal=eq not_equal=ne less=lt less_equal=le greater=gt greater_equal=ge logical_and logical_or
    logical_xor fmod remainder matmul
"""
REFERENCES = {
    ours or theirs: getattr(numpy, theirs)
    for theirs, _, ours in (pair.partition("=") for pair in UFUNCS.split())
}


@contextlib.contextmanager
def naming(sample):
    """Say in a failure which sample it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"on {sample!r}")
        raise


def pairs(name, dtype=pullback.float64, **options):
    """The samples twice over, so that two computations can run on equal, separate tensors."""
    both = zip(
        samples_for(name, dtype, **options), samples_for(name, dtype, **options), strict=True
    )
    for one, other in both:
        with naming(one):
            yield one, other


def as_arrays(sample):
    """The sample's arguments with arrays for tensors, Python numbers and options as they are."""
    given = [getattr(value, "_array", value) for value in (sample.input, *sample.args)]
    kwargs = {name: getattr(value, "_array", value) for name, value in sample.kwargs.items()}
    return given, kwargs


def for_numpy(sample):
    """The same where NumPy promotes as torch does: arrays of one dtype alone, else None."""
    given, kwargs = as_arrays(sample)
    alike = all(getattr(value, "dtype", None) == "float64" for value in given)
    return given if alike and not kwargs else None


def outputs(result):
    return list(tensors_in(result))


def is_for_differences(sample):
    """Whether to check it by finite differences; other layouts are compared with this one."""
    return sample.smooth and sample.differentiable and sample.layout == "contiguous"


def differentiable_part(sample, function):
    """What gradcheck wants: a function of tensors to those outputs that have a history."""
    bound = sample.bound(function)
    made = outputs(bound(*sample.differentiable))
    places = [place for place, one in enumerate(made) if one.requires_grad]

    def call(*tensors):
        found = list(outputs(bound(*tensors)))
        return tuple(found[place] for place in places)

    return call


def weights_like(tensor, seed=0):
    """A gradient that no symmetry can hide behind."""
    random = numpy.random.default_rng(seed)
    values = random.normal(size=tensor.shape)
    if tensor.dtype.is_complex:
        values = values + 1j * random.normal(size=tensor.shape)
    return pullback.from_numpy(numpy.asarray(values).astype(tensor.dtype.numpy))


def gradients(result, inputs, **options):
    """Gradients of `inputs` for weighted outputs; an empty list where nothing has history."""
    roots = [out for out in outputs(result) if out.requires_grad]
    if not roots or not inputs:
        return []
    weights = [weights_like(out, number) for number, out in enumerate(roots)]
    return list(engine.grad(roots, inputs, weights, allow_unused=True, **options))


def assert_same(ours, others, *, exactly=True):
    """Equal values, shapes and dtypes; NaN equals NaN."""
    assert len(ours) == len(others)
    for a, b in zip(ours, others, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        if exactly:
            numpy.testing.assert_array_equal(a._array, b._array)
        else:
            numpy.testing.assert_allclose(a._array, b._array, rtol=1e-10, atol=1e-12)


def test_every_promised_operator_is_there_and_has_samples():
    assert not [name for name in PROMISED.split() if resolve(pullback, name) is None]
    assert not [name for name in PROMISED.split() if name not in SAMPLES]


def test_every_public_operator_has_samples():
    public = {name for name in pullback.__all__ if hasattr(getattr(pullback, name), "op")}
    sampled = {name.removeprefix("Tensor.") for name in SAMPLES}
    assert public - sampled - RANDOM == set()


@in_both_dtypes
def test_result_is_as_many_tensors_on_every_call(name, dtype):
    function = resolve(pullback, name)
    for one, other in pairs(name, dtype):
        results = outputs(one.call(function))
        assert_same(results, outputs(other.call(function)))
        for array in (result._raw for result in results):
            assert type(array) is numpy.ndarray
            assert array.flags.writeable
            assert array.dtype.isnative
            assert min(array.strides, default=0) >= 0  # as every tensor's


@pytest.mark.parametrize("name", [name for name in REFERENCES if name in NAMES])
def test_values_are_those_of_numpy(name):
    function, reference = resolve(pullback, name), REFERENCES[name]
    for sample, _ in pairs(name, requires_grad=False):
        arguments = for_numpy(sample)
        if arguments is None:
            continue
        with numpy.errstate(all="ignore"):
            expected = reference(*arguments)
        result = sample.call(function)
        assert result.shape == numpy.shape(expected)
        numpy.testing.assert_allclose(result._array, expected, rtol=1e-12)


@in_both_dtypes
def test_first_derivatives_agree_with_finite_differences(name, dtype):
    if not supports(name, "grad"):
        pytest.skip("has no derivative")
    function = resolve(pullback, name)
    for sample in samples_for(name, dtype):
        if is_for_differences(sample):
            with naming(sample):
                call = differentiable_part(sample, function)
                assert gradcheck(call, sample.differentiable, check_grad_dtypes=True)


@in_both_dtypes
def test_second_derivatives_agree_with_finite_differences(name, dtype):
    if not supports(name, "gradgrad"):
        pytest.skip("has no second derivative")
    function = resolve(pullback, name)
    for sample in samples_for(name, dtype):
        if is_for_differences(sample):
            with naming(sample):
                call = differentiable_part(sample, function)
                if call(*sample.differentiable):
                    assert gradgradcheck(call, sample.differentiable, fast_mode=True)


@in_both_dtypes
def test_forward_mode_agrees_with_finite_differences(name, dtype):
    if not supports(name, "jvp"):
        pytest.skip("has no forward mode")
    function = resolve(pullback, name)
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": True}
    for sample in samples_for(name, dtype):
        if is_for_differences(sample):
            with naming(sample):
                call = differentiable_part(sample, function)
                # A mean of nothing is NaN, also of a zero tangent: gradcheck wants zeros there.
                defined = not any(part.isnan().any() for part in call(*sample.differentiable))
                assert gradcheck(
                    call, sample.differentiable, check_undefined_grad=defined, **options
                )


@in_both_dtypes
def test_tangents_lie_in_memory_of_their_own_as_results_do(name, dtype):
    """Else a write to the result would change the tangent that the user gave."""
    if not supports(name, "jvp"):
        pytest.skip("has no forward mode")
    function = resolve(pullback, name)
    for sample in samples_for(name, dtype):
        with naming(sample), forward_ad.dual_level():
            duals, given = [], []
            for tensor in sample.differentiable:
                given.append(weights_like(tensor, len(given)))
                duals.append(forward_ad.make_dual(tensor, given[-1]))
            for out in outputs(sample.bound(function)(*duals)):
                tangent = forward_ad.unpack_dual(out).tangent
                if tangent is None:
                    continue
                assert tangent.is_conj() == out.is_conj()
                assert tangent.is_neg() == out.is_neg()
                for tensor, one in zip(sample.differentiable, given, strict=True):
                    if not numpy.may_share_memory(out._raw, tensor._raw):
                        assert not numpy.may_share_memory(tangent._raw, one._raw)


@in_both_dtypes
def test_recorded_gradients_equal_unrecorded_ones(name, dtype):
    function = resolve(pullback, name)
    for one, other in pairs(name, dtype):
        if supports(name, "grad"):
            plain = gradients(one.call(function), one.differentiable)
            recorded = gradients(other.call(function), other.differentiable, create_graph=True)
            assert_same(plain, [None if g is None else g.detach() for g in recorded], exactly=False)


@in_both_dtypes
def test_gradient_that_numpy_made_a_scalar_is_as_good_as_an_array(name, dtype):
    """Products of 0-d arrays are NumPy scalars, and reach the rules of earlier nodes as such."""
    if not supports(name, "grad"):
        pytest.skip("has no derivative")
    function = resolve(pullback, name)
    for one, other in pairs(name, dtype):
        inputs = one.differentiable, other.differentiable
        both = zip(outputs(one.call(function)), outputs(other.call(function)), strict=True)
        for number, (a, b) in enumerate(both):
            if a.shape == () and a.requires_grad and all(inputs):
                weight = weights_like(a, number)
                options = {"allow_unused": True, "retain_graph": True}
                expected = engine.grad(a, inputs[0], weight.conj().resolve_conj(), **options)
                ones = pullback.ones_like(b)
                found = engine.grad(b * weight, inputs[1], ones, **options)
                assert_same(expected, found, exactly=False)


INPLACE = [name for name in NAMES if hasattr(Tensor, f"{name}_")]


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_form_writes_what_the_function_returns(name):
    function, write = resolve(pullback, name), getattr(Tensor, f"{name}_")
    for one, other in pairs(name):
        if not isinstance(one.input, Tensor):
            continue
        expected = function(one.input.clone(), *one.args, **one.kwargs)
        if not isinstance(expected, Tensor):
            continue
        target = other.input.clone()
        fits = expected.shape == target.shape and can_cast(expected.dtype, target.dtype)
        if not fits and name not in RESHAPING:
            before = target._array.copy()
            with pytest.raises(RuntimeError):
                write(target, *other.args, **other.kwargs)
            numpy.testing.assert_array_equal(target._array, before)
            continue
        assert write(target, *other.args, **other.kwargs) is target
        assert_same([target.detach()], [expected.detach().to(target.dtype)])
        if supports(name, "grad") and expected.dtype is target.dtype:
            assert_same(
                gradients(target, other.differentiable),
                gradients(expected, one.differentiable),
                exactly=False,
            )


@pytest.mark.parametrize("name", [name for name in INPLACE if supports(name, "grad")])
def test_second_derivatives_through_a_written_view_are_those_of_the_function(name):
    """The pass that frees comes to the written operator twice, once through what it kept."""
    function, write = resolve(pullback, name), getattr(Tensor, f"{name}_")
    for one, other in pairs(name):
        if not isinstance(one.input, Tensor) or not one.input.requires_grad:
            continue
        plain = one.input.clone()
        expected = function(plain, *one.args, **one.kwargs)
        if not isinstance(expected, Tensor) or (expected.shape, expected.dtype) != (
            plain.shape,
            plain.dtype,
        ):
            continue
        base = other.input.clone()
        written = base.view_as(base)
        write(written, *other.args, **other.kwargs)
        assert_same(
            second_derivatives(written, other.differentiable),
            second_derivatives(expected, one.differentiable),
            exactly=False,
        )


def second_derivatives(result, inputs):
    """By one pass, which frees what it goes through, after the one that records it."""
    total = 0
    if result.requires_grad:
        first = gradients(result.square(), inputs, create_graph=True)
        for number, g in enumerate(first):
            if g is not None:
                total = total + (g * weights_like(g, number)).sum()
    if not getattr(total, "requires_grad", False):
        return [pullback.zeros_like(x) for x in inputs]
    second = engine.grad(total, inputs, allow_unused=True)
    return [pullback.zeros_like(x) if g is None else g for x, g in zip(inputs, second, strict=True)]


@pytest.mark.parametrize("name", DECLARED)
def test_built_function_equals_interpreter(name):
    function = resolve(pullback, name)
    for one, other in pairs(name):
        built = one.call(function)
        interpreted = interpret.call(function.op, (other.input, *other.args), dict(other.kwargs))
        assert_same(outputs(built), outputs(interpreted))
        for a, b in zip(outputs(built), outputs(interpreted), strict=True):
            assert type(a.grad_fn) is type(b.grad_fn)
        if supports(name, "grad"):
            assert_same(
                gradients(built, one.differentiable), gradients(interpreted, other.differentiable)
            )


@pytest.mark.parametrize("name", NAMES)
def test_plain_pass_equals_ordered_pass(name, monkeypatch):
    if not supports(name, "grad"):
        pytest.skip("has no derivative")
    function = resolve(pullback, name)
    for one, other in pairs(name):
        for sample, ordered in ((one, False), (other, True)):
            monkeypatch.setattr(request, "always_ordered", ordered)
            for number, out in enumerate(outputs(sample.call(function))):
                if out.requires_grad:
                    engine.backward(out, weights_like(out, number), retain_graph=True)
        assert_same(
            [tensor.grad for tensor in one.differentiable],
            [tensor.grad for tensor in other.differentiable],
        )


@in_both_dtypes
def test_memory_layout_makes_no_difference(name, dtype):
    function = resolve(pullback, name)
    first = next(iter(samples_for(name, dtype)), None)
    for sample in samples_for(name, dtype):
        if sample.layout not in ("transposed", "sliced"):
            continue
        with naming(sample):
            result, expected = sample.call(function), first.call(function)
            assert_same(outputs(result), outputs(expected), exactly=False)
            if supports(name, "grad"):
                assert_same(
                    gradients(result, sample.differentiable),
                    gradients(expected, first.differentiable),
                    exactly=False,
                )


@pytest.mark.parametrize("name", [n for n in DECLARED if resolve(pullback, n).op.promote])
def test_arrays_are_refused(name):
    """A NumPy array where a tensor belongs is a mistake, and torch's error for it."""
    function = resolve(pullback, name)
    for sample, _ in pairs(name, requires_grad=False):
        args, kwargs = as_arrays(sample)
        if not any(isinstance(value, numpy.ndarray) for value in args):
            continue
        with pytest.raises(TypeError):
            function(*args, **kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_goes_where_float16_goes(name):
    pytest.importorskip("ml_dtypes")
    function = resolve(pullback, name)
    try:
        halves = [list(samples_for(name, half)) for half in (pullback.float16, pullback.bfloat16)]
    except TypeError:
        pytest.skip("the samples are factors from LAPACK, which has no half precision")
    for sample, other in itertools.islice(zip(*halves, strict=True), 2):
        with naming(sample), numpy.errstate(all="ignore"):
            try:
                expected = outputs(sample.call(function))
            except (NotImplementedError, RuntimeError, TypeError):
                continue  # nothing for half precision
            if any(one.dtype is pullback.complex32 for one in expected):
                with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
                    other.call(function)  # there are no complex numbers of bfloat16
                continue
            for a, b in zip(outputs(other.call(function)), expected, strict=True):
                follows = b.dtype is pullback.float16 and name != "Tensor.half"
                same = pullback.bfloat16 if follows else b.dtype
                assert a.shape == b.shape
                assert a.dtype is same


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_single(name):
    function = resolve(pullback, name)
    for sample, double in zip(
        samples_for(name, pullback.float32), samples_for(name, pullback.float64), strict=True
    ):
        with naming(sample):
            results = outputs(sample.call(function))
            for a, b in zip(results, outputs(double.call(function)), strict=True):
                assert a.shape == b.shape
                if b.dtype is pullback.float64 and sample.kwargs.get("dtype") is None:
                    takes_single = any(x.dtype is pullback.float32 for x in sample.tensors)
                    assert a.dtype is pullback.float32 or name in DOUBLING or not takes_single
            if supports(name, "grad"):
                for g, x in zip(
                    gradients(results, sample.differentiable), sample.differentiable, strict=False
                ):
                    assert g is None or (g.dtype is x.dtype and g.shape == x.shape)
