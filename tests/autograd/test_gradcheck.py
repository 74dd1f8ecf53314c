"""gradcheck passes what is right, and says what is wrong with what is not."""

import warnings

import numpy
import pytest

import pullback
from pullback.autograd.gradcheck import (
    GradcheckError,
    get_analytical_jacobian,
    get_numerical_jacobian,
    gradcheck,
    gradgradcheck,
)
from pullback.core.tensor import wrap

RANDOM = numpy.random.default_rng(0)


def leaf(*shape, dtype="float64"):
    values = RANDOM.uniform(0.5, 2, shape)
    if dtype.startswith("complex"):
        values = values + 1j * RANDOM.uniform(0.5, 2, shape)
    return wrap(numpy.asarray(values, dtype)).requires_grad_()


def half_wrong(x):
    """x squared, whose gradient misses its factor of two."""
    return x * x.detach()


def with_backward(x, hook):
    """The identity, with a backward of the test's own; an undefined gradient passes by."""
    y = x * 1
    y.register_hook(lambda g: g if g is None else hook(g))
    return y * 1


both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


@both_modes
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_right_derivatives_pass(dtype, fast):
    """T-111"""
    inputs = (leaf(2, 3, dtype=dtype), leaf(3, dtype=dtype))
    assert gradcheck(lambda x, y: (x * y, x + y), inputs, fast_mode=fast) is True
    assert gradgradcheck(lambda x, y: (x * y, x + y), inputs, fast_mode=fast) is True


@both_modes
def test_real_and_complex_may_mix(fast):
    """T-121"""
    inputs = (leaf(2, dtype="complex128"), leaf(2))
    assert gradcheck(lambda z, x: z * x, inputs, fast_mode=fast)
    assert gradgradcheck(lambda z, x: z * x, inputs, fast_mode=fast)


@both_modes
@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_scalars_and_empty_tensors_are_checked(shape, fast):
    """T-111"""
    options = {"check_forward_ad": True, "check_batched_grad": True}
    assert gradcheck(lambda x: x * x, leaf(*shape), fast_mode=fast, **options)
    assert gradgradcheck(lambda x: x * x, leaf(*shape), fast_mode=fast)


@both_modes
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_wrong_derivative_is_found_and_shown(dtype, fast):
    """T-112"""
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda k, x: half_wrong(x), (3, leaf(2, dtype=dtype)), fast_mode=fast)
    said = str(caught.value)
    assert "output 0" in said
    assert "input 1" in said
    assert "numerical:" in said
    assert "analytical:" in said
    assert isinstance(caught.value, RuntimeError)


def test_wrong_second_derivative_is_found():
    """T-123"""

    def cut_in_backward(x):
        return with_backward(x * x, lambda g: g.detach())

    assert gradcheck(cut_in_backward, leaf(2))
    with pytest.raises(GradcheckError):
        gradgradcheck(cut_in_backward, leaf(2))


def test_failure_can_be_false_instead_of_raised():
    """T-112"""
    assert gradcheck(half_wrong, leaf(2), raise_exception=False) is False


def test_only_gradcheck_errors_become_false():
    """T-112"""

    def broken(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gradcheck(broken, leaf(2), raise_exception=False)


def test_fast_mode_says_what_slow_mode_finds():
    """T-120"""
    with pytest.raises(GradcheckError, match="full comparison fails too"):
        gradcheck(half_wrong, leaf(2), fast_mode=True)


def test_nan_never_passes():
    """T-112"""
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: x * float("nan"), leaf(2))


def test_backward_that_differs_from_call_to_call_is_found():
    """T-115"""

    def noisy(x):
        return with_backward(x, lambda g: g * (1 + 1e-7 * RANDOM.uniform(0.5, 1)))

    with pytest.raises(GradcheckError, match="not deterministic"):
        gradcheck(noisy, leaf(2))
    assert gradcheck(noisy, leaf(2), nondet_tol=1e-6)


def test_backward_must_give_zero_for_zero():
    """T-116"""

    def restless(x):
        return with_backward(x, lambda g: g if g._array.any() else g + 1)

    with pytest.raises(GradcheckError, match="linear"):
        gradcheck(restless, leaf(2))


def test_output_without_history_must_not_depend_on_inputs():
    """T-118"""
    with pytest.raises(GradcheckError, match="requires grad"):
        gradcheck(lambda x: x.detach() * 2, leaf(2))
    assert gradcheck(lambda x: x.detach() * 0, leaf(2))


def test_inputs_come_back_bit_for_bit_and_unversioned():
    """T-114"""
    x = leaf(3)
    before, version = x._array.copy(), x._version
    gradcheck(lambda x: x * x, x)
    gradcheck(lambda x: x * x, x, fast_mode=True)
    assert x._array.tobytes() == before.tobytes()
    assert x._version == version
    assert x.grad is None


def test_inputs_come_back_when_the_function_fails():
    """T-114"""
    x = leaf(2)
    before = x._array.copy()
    calls = []

    def fails_later(x):
        calls.append(1)
        if len(calls) > 3:
            raise ZeroDivisionError
        return x * 2

    with pytest.raises(ZeroDivisionError):
        gradcheck(fails_later, x)
    assert x._array.tobytes() == before.tobytes()


def test_users_random_numbers_are_left_alone():
    """T-120"""
    numpy.random.seed(3)  # noqa: NPY002 (the global generator is the subject)
    state = numpy.random.get_state()[1].copy()  # noqa: NPY002 (the old source is what is tested)
    gradcheck(lambda x: x * x, leaf(2), fast_mode=True)
    gradgradcheck(lambda x: x * x, leaf(2))
    assert (numpy.random.get_state()[1] == state).all()  # noqa: NPY002 (the old source is what is tested)


def test_other_values_than_tensors_pass_through():
    """T-113"""
    assert gradcheck(lambda x, factor, name: x * factor, [leaf(2), 3.0, "name"])


def test_inputs_that_are_not_leaves_are_checked():
    """T-113"""
    assert gradcheck(lambda x: x * x, leaf(2) * 2)


def test_nothing_to_differentiate_by_is_a_value_error():
    """T-113"""
    with pytest.raises(ValueError, match="requires grad"):
        gradcheck(lambda x: x, leaf(2).detach())


def test_single_precision_warns():
    """T-113"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="float64"):
            gradcheck(lambda x: x * x, leaf(2, dtype="float32"))


def test_expanded_input_is_refused():
    """T-113"""
    expanded = wrap(numpy.broadcast_to(numpy.ones(1), (3,))).requires_grad_()
    with pytest.raises(RuntimeError, match=r"contiguous\(\)"):
        gradcheck(lambda x: x * 2, expanded)


def test_output_that_is_no_tensor_is_refused():
    """T-112"""
    with pytest.raises(TypeError, match="output 1"):
        gradcheck(lambda x: (x * 2, 3), leaf(2))


@pytest.mark.parametrize(
    "options",
    [
        {"check_backward_ad": False},
        {"check_batched_grad": True, "check_backward_ad": False, "check_forward_ad": True},
        {"check_batched_forward_grad": True},
    ],
)
def test_options_that_contradict_are_assertion_errors(options):
    """T-119"""
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x * 2, leaf(2), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"check_rev_over_rev": False},
        {"check_rev_over_rev": False, "check_fwd_over_rev": True},
        {
            "check_rev_over_rev": False,
            "check_fwd_over_rev": True,
            "check_undefined_grad": False,
            "check_batched_grad": True,
        },
    ],
)
def test_second_order_options_that_contradict_are_assertion_errors(options):
    """T-123"""
    with pytest.raises(AssertionError):
        gradgradcheck(lambda x: x * x, leaf(2), **options)


class Doubled(pullback.autograd.Function):
    """2 x, with derivatives that the tests below get wrong in one way or another."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, dx):
        return dx * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return Doubled.apply(x), in_dims[0]


class WrongForward(Doubled):
    @staticmethod
    def jvp(ctx, dx):
        return dx * 3


class WrongBackward(Doubled):
    @staticmethod
    def backward(ctx, g):
        return g * 3


class LooksAtValues(Doubled):
    @staticmethod
    def backward(ctx, g):
        return g * (2 if g.sum().item() > -100 else 3)


class TwoOutputs(pullback.autograd.Function):
    """2 x and 3 x, with a backward that makes something of nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        if a is None and b is None:
            return pullback.ones(2, dtype=pullback.float64)
        return (0 if a is None else a * 2) + (0 if b is None else b * 3)


@both_modes
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_forward_mode_is_checked(dtype, fast):
    """T-119"""
    options = {"check_forward_ad": True, "fast_mode": fast}
    assert gradcheck(lambda x, y: (x * y, x + y), (leaf(2, dtype=dtype), leaf(2)), **options)
    assert gradcheck(Doubled.apply, leaf(2), **options)
    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(WrongForward.apply, leaf(2), **options)


def test_forward_mode_can_be_checked_alone():
    """T-119"""
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(WrongBackward.apply, leaf(2), **options)
    with pytest.raises(GradcheckError, match="backward"):
        gradcheck(WrongBackward.apply, leaf(2))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_batches_are_checked(dtype):
    """T-119"""
    inputs = (leaf(2, 3, dtype=dtype), leaf(3, dtype=dtype))
    options = {"check_batched_grad": True, "check_forward_ad": True}
    assert gradcheck(lambda x, y: (x * y, x), inputs, check_batched_forward_grad=True, **options)
    assert gradgradcheck(lambda x, y: x * y, inputs, check_batched_grad=True)


def test_what_cannot_be_batched_is_found():
    """T-119"""
    with pytest.raises(GradcheckError, match="batch"):
        gradcheck(LooksAtValues.apply, leaf(2), check_batched_grad=True)


class DrawsInDerivatives(pullback.autograd.Function):
    """Right in value, with random numbers on the way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g + 0 * pullback.randn_like(g)

    @staticmethod
    def jvp(ctx, dx):
        return dx + 0 * pullback.randn_like(dx)


@pytest.mark.parametrize(
    "options",
    [
        {"check_batched_grad": True},
        {"check_batched_forward_grad": True, "check_forward_ad": True, "check_backward_ad": False},
    ],
)
def test_derivatives_that_draw_random_numbers_have_no_batches(options):
    assert gradcheck(DrawsInDerivatives.apply, leaf(3))
    with pytest.raises(GradcheckError, match="random numbers"):
        gradcheck(DrawsInDerivatives.apply, leaf(3), **options)


def test_forward_over_reverse_is_checked():
    """T-123"""
    assert gradgradcheck(lambda x: x * x, leaf(2), check_fwd_over_rev=True)


def test_undefined_gradients_must_count_as_zero():
    """T-117"""
    with (
        pytest.warns(UserWarning, match="check_undefined_grad"),
        pytest.raises(GradcheckError, match="undefined"),
    ):
        gradcheck(TwoOutputs.apply, leaf(2))
    assert gradcheck(TwoOutputs.apply, leaf(2), check_undefined_grad=False)


def test_given_gradients_are_used():
    """T-123"""
    weights = leaf(2)
    assert gradgradcheck(lambda x: x * x, leaf(2), weights)
    assert gradgradcheck(lambda x: x * x, leaf(2), [weights.detach()])


def test_strided_gradients_can_be_asked_for():
    """T-123"""
    seen = []

    def watched(x):
        y = x * x
        y.register_hook(lambda g: seen.append(g.is_contiguous()))
        return y

    assert gradgradcheck(watched, leaf(2, 3), gen_non_contig_grad_outputs=True)
    assert not all(seen)


def test_old_jacobian_functions_warn_and_agree():
    """T-124"""
    x = leaf(2)
    with pytest.warns(FutureWarning):
        (numerical,) = get_numerical_jacobian(lambda inputs: inputs[0] * inputs[0], (x,), eps=1e-6)
    with pytest.warns(FutureWarning):
        (analytical,), *verdicts = get_analytical_jacobian((x,), x * x)
    numpy.testing.assert_allclose(numerical._array, analytical._array, rtol=1e-6)
    assert verdicts == [True, True, True]


def test_old_jacobian_functions_take_real_outputs_only():
    """T-124"""
    z = leaf(2, dtype="complex128")
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="real"):
        get_analytical_jacobian((z,), z * z)


def test_gradcheck_is_found_under_autograd():
    """T-124"""
    assert pullback.autograd.gradcheck is gradcheck
    assert pullback.autograd.gradgradcheck is gradgradcheck
