"""Activations: slopes at their corners, ends that do not overflow, in-place forms, noise."""

import math

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.arrays import scipy_special
from pullback.operators.arrays.blocks import BLOCK

functional = torch.nn.functional
inf, nan = math.inf, math.nan

SMOOTH = {
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "mish": functional.mish,
    "softplus": lambda x: functional.softplus(x, 2.0),
    "logsigmoid": functional.logsigmoid,
    "elu": lambda x: functional.elu(x, 0.7),
    "celu": lambda x: functional.celu(x, 0.7),
    "selu": functional.selu,
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "hardswish": functional.hardswish,
    "leaky_relu": functional.leaky_relu,
    "glu": functional.glu,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_both_orders_hold(name):
    values = numpy.random.default_rng(0).standard_normal((3, 4)) * 2
    x = torch.tensor(values, requires_grad=True)
    assert gradcheck(SMOOTH[name], (x,))
    assert gradgradcheck(SMOOTH[name], (x,))


# Function, points, slopes there.
CORNERS = [
    (functional.relu, [0.0, -1.0, 1.0], [0, 0, 1]),
    (functional.relu6, [0.0, 6.0, 3.0, nan], [0, 0, 1, 1]),
    (functional.hardtanh, [-1.0, 1.0, 0.0, nan], [0, 0, 1, 1]),
    (functional.hardsigmoid, [-3.0, 3.0, 4.0], [0, 0, 0]),
    (functional.hardswish, [-3.0, 3.0, 0.0, inf, nan], [0, 1, 0.5, 1, 1]),
    (functional.hardshrink, [0.5, -0.5, 0.6, nan], [0, 0, 1, 1]),
    (functional.softshrink, [0.5, -0.5, 0.6], [0, 0, 1]),
    (functional.leaky_relu, [0.0, -1.0, 1.0], [0.01, 0.01, 1]),
    (lambda x: functional.leaky_relu(x, 2.0), [0.0, -1.0, 1.0], [2, 2, 1]),
    (lambda x: functional.threshold(x, 1.0, 7.0), [1.0, 1.5, 0.0], [0, 1, 0]),
    (functional.elu, [0.0, -inf, inf], [1, 0, 1]),
    (functional.softplus, [100.0, -100.0, 0.0], [1, 0, 0.5]),
]


@pytest.mark.parametrize(("function", "points", "slopes"), CORNERS)
def test_slopes_at_corners_and_ends(function, points, slopes):
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    numpy.testing.assert_allclose(gradient.numpy(), slopes, atol=1e-40)


ENDS = [
    (functional.gelu, [inf, 1e30]),
    (functional.silu, [inf, 1e30]),
    (functional.mish, [inf, 1e30]),
    (functional.elu, [inf, 1e30, -1, -1]),
    (functional.softplus, [inf, 1e30, 0, 0]),
    (functional.logsigmoid, [0, 0, -inf, -1e30]),
]


@pytest.mark.parametrize(("function", "expected"), ENDS)
def test_ends_do_not_overflow(function, expected):
    x = torch.tensor([inf, 1e30, -inf, -1e30], dtype=torch.float64)
    numpy.testing.assert_array_equal(function(x).numpy()[: len(expected)], expected)


def test_gelu_is_the_normal_distribution_times_x():
    x = torch.tensor([-2.0, -0.5, 0.0, 1.5], dtype=torch.float64)
    expected = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    numpy.testing.assert_allclose(functional.gelu(x).numpy(), expected, rtol=1e-14)


def test_gelu_of_single_precision_has_its_digits_wherever_it_is_asked():
    x = numpy.append(numpy.linspace(-9, 9, 20_001), [-1e30, -300, 300, 1e30]).astype(numpy.float32)
    given = torch.tensor(x, requires_grad=True)
    result = functional.gelu(given)
    (slope,) = torch.autograd.grad(result.sum(), given)
    below = numpy.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])
    numpy.testing.assert_allclose(result.detach().numpy(), x * below, rtol=5e-7, atol=3e-7)
    with numpy.errstate(over="ignore"):
        density = numpy.exp(-0.5 * x.astype(float) ** 2) / math.sqrt(2 * math.pi)
    numpy.testing.assert_allclose(slope.numpy(), below + x * density, atol=3e-7)


def test_elu_keeps_the_digits_of_small_numbers():
    x = torch.tensor([-1e-6], dtype=torch.float64)
    assert functional.elu(x).item() == pytest.approx(math.expm1(-1e-6), rel=1e-14)


@pytest.mark.parametrize("name", ["relu", "elu", "selu", "celu", "leaky_relu", "silu", "mish"])
def test_in_place_forms_write_and_have_the_same_gradient(name):
    function = getattr(functional, name)
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    expected = function(x)
    target = x * 1
    result = function(target, inplace=True)
    assert result is target
    assert torch.equal(result, expected)
    (one,) = torch.autograd.grad(result.sum(), x)
    (other,) = torch.autograd.grad(expected.sum(), x)
    assert torch.equal(one, other)


def test_in_place_on_a_leaf_is_refused_and_leaves_it_as_it_was():
    x = torch.tensor([-1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        functional.relu(x, inplace=True)
    assert x.item() == -1


@pytest.mark.parametrize("function", [functional.gelu, functional.silu, functional.elu])
def test_blocks_and_order_in_memory_do_not_show(function):
    x = torch.tensor(numpy.random.default_rng(0).standard_normal((3, BLOCK)), requires_grad=True)
    whole = function(x.mT)
    (gradient,) = torch.autograd.grad(whole.sum(), x)
    row = x.detach()[1].requires_grad_()
    (of_row,) = torch.autograd.grad(function(row).sum(), row)
    assert torch.equal(whole[:, 1], function(row))
    assert torch.equal(gradient[1], of_row)


def test_prelu_has_a_weight_for_all_or_for_each_channel():
    x = torch.tensor([[-1.0, -2.0], [3.0, -4.0]], requires_grad=True)
    assert functional.prelu(x, torch.tensor([0.5])).tolist() == [[-0.5, -1], [3, -2]]
    weight = torch.tensor([0.5, 0.25], requires_grad=True)
    result = functional.prelu(x, weight)
    assert result.tolist() == [[-0.5, -0.5], [3, -1]]
    assert torch.autograd.grad(result.sum(), weight)[0].tolist() == [-1, -6]


def test_rrelu_draws_slopes_between_its_limits_in_training():
    torch.manual_seed(0)
    x = -torch.ones(1000, requires_grad=True)
    result = functional.rrelu(x, 0.1, 0.3, training=True)
    assert -0.3 <= result.min().item() < result.max().item() <= -0.1
    assert functional.rrelu(x, 0.1, 0.3)[0].item() == pytest.approx(-0.2)


def test_a_hard_gumbel_choice_is_one_hot_with_the_soft_gradient():
    torch.manual_seed(0)
    x = torch.zeros(5, 3, requires_grad=True)
    choice = functional.gumbel_softmax(x, hard=True)
    assert choice.sum(1).tolist() == pytest.approx([1] * 5)
    assert torch.autograd.grad(choice[:, 0].sum(), x)[0].abs().sum().item() > 0


REFUSED = [
    (NotImplementedError, "int64", lambda: functional.gelu(torch.tensor([1]))),
    (RuntimeError, "approximate", lambda: functional.gelu(torch.ones(1), approximate="erf")),
    (TypeError, "gelu", lambda: functional.gelu(torch.ones(1), "tanh")),
    (RuntimeError, "even", lambda: functional.glu(torch.ones(3))),
    (RuntimeError, "0-d", lambda: functional.glu(torch.tensor(1.0))),
    (ValueError, "min_val", lambda: functional.hardtanh(torch.ones(1), 1, -1)),
    (RuntimeError, "negative", lambda: functional.softshrink(torch.ones(1), -1)),
    (RuntimeError, "alpha", lambda: functional.celu(torch.ones(1), 0)),
    (RuntimeError, "channels", lambda: functional.prelu(torch.ones(2, 3), torch.ones(2))),
    (RuntimeError, "lower", lambda: functional.rrelu(torch.ones(1), 0.5, 0.1)),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


# Single precision, in each of the ways that size and SciPy choose ---------------------------------


@pytest.fixture(params=["with SciPy", "without"])
def scipy_or_not(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(scipy_special, "_imported", lambda name: None)


def normal_chance(x):
    return numpy.array([math.erfc(-value * math.sqrt(0.5)) / 2 for value in x.tolist()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("points", [101, 14_001])
def test_gelu_and_its_slope_have_their_digits(points, dtype, scipy_or_not):
    x = torch.linspace(-7, 7, points, dtype=dtype, requires_grad=True)
    exact = x.detach().numpy().astype(float)
    chance = normal_chance(exact)
    slope = chance + exact * numpy.exp(-(exact**2) / 2) / math.sqrt(2 * math.pi)
    error = 4e-7 if dtype == torch.float32 else 1e-15
    result = functional.gelu(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert (abs(result.detach().numpy() - exact * chance) <= error * abs(exact)).all()
    assert abs(gradient.numpy() - slope).max() <= error


@pytest.mark.parametrize("points", [4, 4000])
def test_gelu_is_exact_far_out(points, scipy_or_not):
    x = torch.tensor([-1e30, -20.0, 20.0, 1e30]).repeat(points // 4).requires_grad_()
    result = functional.gelu(x)
    assert torch.equal(result, torch.relu(x))
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert gradient[:4].tolist() == [0, 0, 1, 1]


def close(one, other, smallest=1e-12):
    one, other = one.detach().numpy(), other.detach().numpy()
    numpy.testing.assert_allclose(one, other, rtol=1e-6, atol=smallest)


ANY_SIZE = ["softplus", "logsigmoid", "elu", "celu", "selu", "silu", "mish"]
STRAIGHT = ["leaky_relu", "hardswish", "hardsigmoid", "hardtanh", "hardshrink", "softshrink"]


@pytest.mark.parametrize("name", [*ANY_SIZE, *STRAIGHT])
def test_small_and_large_arrays_have_the_same_values(name):
    function = getattr(functional, name)
    large = torch.linspace(-30, 30, 6001, requires_grad=True)
    small = large.detach()[::20].clone().requires_grad_()
    close(function(large)[::20], function(small))
    (of_large,) = torch.autograd.grad(function(large).sum(), large)
    (of_small,) = torch.autograd.grad(function(small).sum(), small)
    # At -1.2 two terms of 0.24 cancel, of which machine code and NumPy have other last digits.
    close(of_large[::20], of_small, 1e-7 if name == "mish" else 1e-12)


def test_softplus_is_the_number_itself_beyond_its_threshold():
    x = torch.linspace(16, 40, 5001)
    assert torch.equal(functional.softplus(x)[x > 20], x[x > 20])


@pytest.mark.parametrize("value", [0, 7.5])
def test_threshold_chooses_alike_in_large_arrays(value):
    x = torch.tensor(numpy.random.default_rng(0).standard_normal(3000), dtype=torch.float32)
    x[:3] = torch.tensor([nan, inf, -inf])
    expected = numpy.where(x.numpy() <= 0.25, numpy.float32(value), x.numpy())
    numpy.testing.assert_array_equal(functional.threshold(x, 0.25, value).numpy(), expected)


def test_prelu_does_not_promote():
    with pytest.raises(RuntimeError, match="one dtype"):
        functional.prelu(torch.ones(2), torch.tensor(0.5, dtype=torch.float64))


def test_the_gradient_of_glu_is_sigmoid_and_its_slope():
    x = torch.tensor([[1.0, -2.0, 0.5, 3.0]], dtype=torch.float64, requires_grad=True)
    value, gate = x.detach().numpy()[0, :2], x.detach().numpy()[0, 2:]
    opened = 1 / (1 + numpy.exp(-gate))
    (gradient,) = torch.autograd.grad(functional.glu(x).sum(), x)
    expected = numpy.concatenate([opened, value * opened * (1 - opened)])
    numpy.testing.assert_allclose(gradient.numpy()[0], expected, rtol=1e-14)


def test_prelu_treats_nan_as_what_is_not_positive():
    x = torch.tensor([nan, 1.0], requires_grad=True)
    weight = torch.tensor([0.25], requires_grad=True)
    of_input, of_weight = torch.autograd.grad(functional.prelu(x, weight).sum(), (x, weight))
    assert of_input.tolist() == [0.25, 1]
    assert math.isnan(of_weight.item())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_gate_of_half_precision_is_rounded_once(dtype):
    x = torch.linspace(-2, 3, 64).to(dtype)
    glu = torch.nn.functional.glu
    assert torch.equal(glu(x), glu(x.float()).to(dtype))


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_noise_of_examples_is_what_vmap_was_told(hard):
    """All shared one draw, and a hard choice was read from memory that no example has."""
    logits = torch.zeros(3, 40)

    def program(x):
        return torch.nn.functional.gumbel_softmax(x, hard=hard)

    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(program)(logits)
    made = torch.vmap(program, randomness="different")(logits)
    assert not torch.equal(made[0], made[1])
    assert torch.allclose(made.sum(-1), torch.ones(3))
    assert hard is bool((made.max(-1).values > 0.999).all())
    shared = torch.vmap(program, randomness="same")(logits)
    assert torch.equal(shared[0], shared[1])
