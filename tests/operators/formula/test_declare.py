"""Formulas are traced on stand-ins, and derivatives follow from what they say."""

from __future__ import annotations

import math

import numpy
import pytest

import pullback as torch
from pullback.core.arrays import Array, Namespace
from pullback.operators.declare import OPERATORS
from pullback.operators.formula import derive
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import Formula, slope, variant
from pullback.operators.formula.language import const, make, symbol
from pullback.operators.formula.tracing import CannotTrace, words

x, y = symbol("x"), symbol("y")


@pytest.fixture
def declared():
    """Declares operators for one test."""
    before = set(OPERATORS)
    yield pointwise
    for name in set(OPERATORS) - before:
        del OPERATORS[name]


def test_equal_expressions_are_one_object():
    assert make("add", x, y) is make("add", y, x)
    assert make("sub", x, y) is not make("sub", y, x)
    assert const(0.0) is not const(-0.0)


def test_values_keep_their_bits_as_written():
    near = make("sub", make("add", const(1.0), x), const(1.0))
    assert near.word == "sub"  # not x
    assert make("add", x, const(0.0)).word == "add"  # -0.0 + 0.0 is 0.0
    assert make("mul", x, const(0.0)).word == "mul"  # infinity times 0 is NaN


def test_a_formula_cannot_ask_for_a_value():
    def asks(xp, x):
        return x if x > 0 else -x

    with pytest.raises(CannotTrace, match="use where"):
        Formula(asks, ("x",), "_asks").body({})


def test_a_word_that_no_back_end_has_is_refused():
    with pytest.raises(CannotTrace, match="no word for cumsum"):
        words.cumsum(1.0)


def test_the_slope_of_a_square_of_a_difference_does_not_overflow():
    apart = make("sub", x, y)
    made = derive.slope(make("mul", apart, apart), "x")
    assert made is make("mul", const(2.0), apart)


def test_what_was_not_chosen_cannot_spoil_what_was():
    root = make("where", make("le", x, const(0.0)), const(0.0), make("log", x))
    made = derive.times(symbol("g"), derive.slope(root, "x"))
    assert made.word == "where"
    assert repr(made.args[1]) == "0.0"


def test_a_condition_at_single_points_without_a_slope_by_hand_is_refused(declared):
    @declared(name="_sinc_law")
    def sinc(xp: Namespace, input: Array) -> Array:
        return xp.where(input == 0, 1.0, xp.sin(input) / input)

    t = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="give the slope by hand"):
        sinc(t).sum().backward()


def test_a_slope_by_hand_is_used_and_saves_what_it_asks_for(declared):
    @declared(name="_doubled_law", input=slope(lambda out: out * 3))
    def doubled(xp: Namespace, input: Array) -> Array:
        return input * 2

    t = torch.tensor([1.0, 2.0], requires_grad=True)
    out = doubled(t)
    t.data.zero_()  # it is the result that is saved
    (grad,) = torch.autograd.grad(out.sum(), t)
    assert grad.tolist() == [6.0, 12.0]


def test_derivatives_of_all_orders_follow(declared):
    @declared(name="_cubic_law")
    def cubic(xp: Namespace, input: Array, scale: float) -> Array:
        return input * input * input * scale

    t = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(cubic(t, 0.5).sum(), t, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), t, create_graph=True)[0]
    third = torch.autograd.grad(second.sum(), t)[0]
    assert first.tolist() == [6.0, 1.5]
    assert second.tolist() == [6.0, -3.0]
    assert third.tolist() == [3.0, 3.0]


def test_options_of_both_zeros_have_kernels_of_their_own(declared):
    @declared(name="_signed_law")
    def signed(xp: Namespace, input: Array, value: float) -> Array:
        return xp.where(input > 0, input, value)

    for size in (3, 3000):
        t = torch.full((size,), -1.0)
        assert math.copysign(1, signed(t, 0.0)[0].item()) == 1
        assert math.copysign(1, signed(t, -0.0)[0].item()) == -1


def test_options_that_always_vary_are_computed_all_the_same(declared):
    @declared(name="_varied_law")
    def varied(xp: Namespace, input: Array, scale: float) -> Array:
        return input * scale

    t = torch.ones(2)
    made = [varied(t, float(scale))[1].item() for scale in range(300)]
    assert made == [float(scale) for scale in range(300)]
    assert len(OPERATORS["_varied_law"].formula.table) <= 128


def test_a_variant_serves_its_back_end_and_dtype_alone(declared):
    @declared(name="_varying_law")
    def varying(xp: Namespace, input: Array) -> Array:
        return xp.exp(input)

    @variant(varying, "few", "f4")
    def _(xp, input):
        return input * 0 + 7

    assert varying(torch.zeros(3)).tolist() == [7.0] * 3
    assert varying(torch.zeros(3, dtype=torch.float64)).tolist() == [1.0] * 3
    assert varying(torch.zeros(600)).tolist() == [1.0] * 600


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh])
def test_complex_adjoints_are_the_conjugate_of_the_slope(function):
    z = torch.tensor([0.3 - 0.2j, -1.0 + 0.5j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(function, z)
    assert torch.autograd.gradgradcheck(function, z)


@pytest.mark.parametrize("size", [400, 600, 140_000])
def test_results_lie_in_memory_as_their_input_does(size):
    images = torch.arange(size, dtype=torch.float64).reshape(2, 4, 5, -1)
    last = images.to(memory_format=torch.channels_last)
    made = torch.nn.functional.mish(last)
    assert made.is_contiguous(memory_format=torch.channels_last)
    wanted = torch.nn.functional.mish(images)
    numpy.testing.assert_allclose(made.numpy(), wanted.numpy(), rtol=1e-14)
