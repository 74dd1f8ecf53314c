"""Tensors of fractions, decimals, long floats, intervals, formulas and a class of the user's."""

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.autograd import gradcheck, gradgradcheck
from pullback.autograd.gradcheck import GradcheckError
from pullback.autograd.numbers import functions_of, register_numbers

F = Fraction
fractions = st.fractions(min_value=-20, max_value=20, max_denominator=50)


def matrix():
    return torch.tensor([[F(1), F(2)], [F(3), F(5)]], requires_grad=True)


# Creation and dtype -------------------------------------------------------------------------------


def test_the_type_of_the_elements_is_the_dtype():
    x = torch.tensor([F(1, 3), 2])
    assert x.dtype is torch.zeros(1, dtype=F).dtype
    assert repr(x.dtype) == "torch.numbers[Fraction]"
    assert x.dtype.is_floating_point
    assert not x.dtype.is_complex
    assert repr(x) == "tensor([1/3,   2], dtype=Fraction)"
    assert x.dtype is not torch.tensor([Decimal(1)]).dtype


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda: torch.zeros(2, dtype=F), [0, 0]),
        (lambda: torch.ones(2, dtype=F), [1, 1]),
        (lambda: torch.full((2,), F(1, 3)), [F(1, 3)] * 2),
        (lambda: torch.eye(2, dtype=F)[0], [1, 0]),
        (lambda: torch.arange(F(1, 2), 2, F(1, 2)), [F(1, 2), 1, F(3, 2)]),
        (lambda: torch.tensor(["1/3", "0.1"], dtype=F), [F(1, 3), F(1, 10)]),
        (lambda: torch.tensor([0.1, 1 / 3], dtype=F), [F(1, 10), F(1, 3)]),
        (lambda: torch.tensor([0.1], dtype=torch.float64).to(F), [F(0.1)]),
        (lambda: torch.tensor(numpy.array([F(1, 2)], object)), [F(1, 2)]),
        (lambda: torch.as_tensor([F(1, 2)]), [F(1, 2)]),
        (lambda: torch.empty(1, dtype=F), [0]),
    ],
)
def test_all_ways_to_make_a_tensor(made, wanted):
    assert made().tolist() == wanted
    assert all(type(one) is F for one in made().tolist())


def test_ints_and_fractions_mix_and_floats_do_not():
    x = torch.tensor([F(1, 3)])
    assert (x + torch.tensor([1])).tolist() == [F(4, 3)]
    assert (torch.tensor([2]) * F(1, 3)).tolist() == [F(2, 3)]
    assert (F(1, 2) / x).tolist() == [F(3, 2)]
    with pytest.raises(TypeError, match=r"Fraction do not mix with torch\.float32"):
        x + torch.ones(1)
    with pytest.raises(TypeError, match="beside numbers of type Fraction"):
        torch.tensor([[F(1)]]) @ torch.ones(1, 1)
    with pytest.raises(TypeError, match="do not mix"):
        torch.tensor([Decimal(1)]) + torch.tensor([_clock(1)])


# What a float means -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "meant"),
    [(0.1, F(1, 10)), (1e-5, F(1, 100000)), (0.25, F(1, 4)), (1 / 3, F(1, 3)), (-2 / 7, F(-2, 7))],
)
def test_a_float_means_what_was_written(value, meant):
    assert (torch.tensor([F(1)]) * value).tolist() == [meant]


@given(st.floats(min_value=1e-3, max_value=1e3))
def test_a_float_is_the_number_that_is_meant_or_is_refused(value):
    try:
        (made,) = (torch.tensor([F(1)]) * value).tolist()
    except (TypeError, NotImplementedError):
        return
    assert math.isclose(float(made), value, rel_tol=4e-16)  # constants may be off by a bit or two


def test_a_float_that_was_rounded_is_refused():
    for value in (math.exp(1.5), 0.1 + 0.2, math.sin(1)):
        with pytest.raises(TypeError, match="was rounded to 53 bits"):
            torch.tensor([F(1)]) * value
    with pytest.raises(NotImplementedError, match="square root of 2 is irrational"):
        torch.tensor([F(1)]) * math.sqrt(2)


def test_constants_have_all_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        (made,) = (torch.tensor([mpmath.mpf(1)]) * math.pi).tolist()
        assert made == mpmath.pi
        (made,) = (torch.tensor([mpmath.mpf(1)]) * (1 / math.sqrt(7))).tolist()
        assert abs(made - 1 / mpmath.sqrt(7)) < mpmath.mpf(10) ** -48


# Derivatives --------------------------------------------------------------------------------------


@given(st.lists(fractions, min_size=1, max_size=4), fractions)
def test_gradients_of_polynomials_are_exact(values, factor):
    x = torch.tensor(values, dtype=F, requires_grad=True)
    (x**3 * factor + x).sum().backward()
    assert x.grad.tolist() == [3 * one**2 * factor + 1 for one in values]


def test_all_transforms_give_exact_derivatives():
    x = torch.tensor([F(1, 3), F(1, 2)])
    assert torch.func.grad(lambda v: (v**3).sum())(x).tolist() == [F(1, 3), F(3, 4)]
    hessian = torch.func.hessian(lambda v: v.prod() ** 2)(x)
    assert hessian.tolist() == [[F(1, 2), F(2, 3)], [F(2, 3), F(2, 9)]]
    out, moved = torch.func.jvp(lambda v: 1 / v, (x,), (torch.ones(2, dtype=F),))
    assert (out.tolist(), moved.tolist()) == ([3, 2], [-9, -4])
    rows = torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(matrix().detach())
    assert rows.tolist() == [[2, 4], [6, 10]]
    assert torch.func.jacfwd(lambda v: v * v)(x).tolist() == [[F(2, 3), 0], [0, 1]]


def test_a_graph_may_begin_in_floats_or_end_in_them():
    x = torch.tensor([F(1, 3)], requires_grad=True)
    (x * 3).to(torch.float64).square().sum().backward()
    assert x.grad.tolist() == [6]
    y = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    (y.to(F) ** 2).sum().backward()
    assert y.grad.dtype is torch.float64
    assert y.grad.tolist() == [1.0]


def test_gradcheck_of_fractions_asks_for_equality():
    x = torch.tensor([F(1, 3), F(1, 2)], requires_grad=True)
    assert gradcheck(lambda a, b: ((a @ b) ** 3 / (b * b + 1)).sum(), (matrix(), x))
    assert gradgradcheck(lambda a, b: (a @ b) ** 2 / (b + 3), (matrix(), x))
    for function in (torch.linalg.det, torch.linalg.inv):
        assert gradcheck(function, matrix())
        assert gradgradcheck(function, matrix())
    assert gradcheck(torch.linalg.solve, (matrix(), x))


def test_gradcheck_of_fractions_finds_a_wrong_rule():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.tensor([F(1, 3)], requires_grad=True)
    with pytest.raises(GradcheckError, match="is 2 by backward, and 2/3 by arithmetic"):
        gradcheck(Wrong.apply, x)
    assert not gradcheck(Wrong.apply, x, raise_exception=False)


def test_writes_and_views_are_followed():
    x = torch.tensor([F(1), F(2), F(3)], requires_grad=True)
    y = x * 1
    y[1:] *= F(1, 2)
    y[0] = 7
    y.sum().backward()
    assert x.grad.tolist() == [0, F(1, 2), F(1, 2)]


# Long floats, intervals, formulas -----------------------------------------------------------------


def test_gradients_to_100_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(110):
        x = torch.tensor([mpmath.mpf(1) / 3, mpmath.mpf(2)], requires_grad=True)
        torch.tanh(x.exp()).sum().backward()
        for value, slope in zip(x.tolist(), x.grad.tolist(), strict=True):
            wanted = mpmath.diff(lambda t: mpmath.tanh(mpmath.exp(t)), value)
            assert abs(slope - wanted) < mpmath.mpf(10) ** -50
            exact = mpmath.exp(value) * mpmath.sech(mpmath.exp(value)) ** 2
            assert abs(slope - exact) < mpmath.mpf(10) ** -100


def test_gradcheck_of_long_floats_takes_small_steps():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        x = torch.tensor([mpmath.mpf(1) / 3], requires_grad=True)
        assert gradcheck(torch.erf, x, eps=1e-18, atol=1e-30, rtol=0)
        assert not gradcheck(torch.erf, x, eps=1e-18, atol=1e-45, rtol=0, raise_exception=False)


def network(numbers, seed=0):
    """Weights, inputs and the loss of a small network with two layers."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    net = net.double().to(numbers) if numbers is not None else net.double()
    x = torch.tensor([[1, 2], [-1, 3]]).to(next(net.parameters()).dtype)
    return net, (net(x) ** 2).mean()


def test_enclosures_contain_the_true_gradient():
    mpmath = pytest.importorskip("mpmath")
    iv = mpmath.iv
    net, loss = network(iv.mpf)
    loss.backward()
    with mpmath.workdps(60):
        other, true = network(mpmath.mpf)
        true.backward()
        for one, exact in zip(net.parameters(), other.parameters(), strict=True):
            pairs = zip(one.grad.numpy().flat, exact.grad.numpy().flat, strict=True)
            for box, value in pairs:
                low, high = (mpmath.mp.make_mpf(end) for end in box._mpi_)
                assert low <= value <= high
                assert high - low < 1e-12


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_enclosures_hold_for_intervals_of_inputs(values):
    mpmath = pytest.importorskip("mpmath")
    iv = mpmath.iv
    boxes = torch.tensor([iv.mpf([v - 0.01, v + 0.01]) for v in values], requires_grad=True)
    (torch.sigmoid(boxes) * boxes.sin()).sum().backward()
    points = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    (torch.sigmoid(points) * points.sin()).sum().backward()
    for box, value in zip(boxes.grad.tolist(), points.grad.tolist(), strict=True):
        assert box.a - 1e-14 <= value <= box.b + 1e-14


def test_what_an_interval_does_not_decide_is_an_error():
    mpmath = pytest.importorskip("mpmath")
    x = torch.tensor([mpmath.iv.mpf([-1, 2])])
    for ask in (lambda: x > 0, lambda: x == 1, lambda: torch.where(x != 0, 1, 2), x.sort):
        with pytest.raises((RuntimeError, NotImplementedError), match="decided"):
            ask()
    assert (x > -2).tolist() == [True]
    (box,) = torch.relu(x).tolist()
    assert (box.a, box.b) == (0, 2)


def test_symbolic_gradients_of_a_network_evaluate_to_those_by_backward():
    sympy = pytest.importorskip("sympy")
    names = sympy.symbols("a:9 x y")
    w, v = torch.tensor(names[:6]).reshape(3, 2), torch.tensor(names[6:9])
    w.requires_grad_()
    loss = (v * torch.tanh(w @ torch.tensor(names[9:]))).sum() ** 2
    loss.backward()
    numbers = [0.3, -0.2, 0.5, 0.1, -0.4, 0.7, 0.2, 0.6, -0.5, 1.5, -0.7]
    at = dict(zip(names, numbers, strict=True))
    known = torch.tensor(numbers, dtype=torch.float64)
    w2 = known[:6].reshape(3, 2).clone().requires_grad_()
    ((known[6:9] * torch.tanh(w2 @ known[9:])).sum() ** 2).backward()
    for formula, value in zip(w.grad.flatten().tolist(), w2.grad.flatten().tolist(), strict=True):
        assert abs(float(formula.subs(at)) - value) < 1e-12
    assert (names[0] * torch.tensor([names[1]])).tolist() == [names[0] * names[1]]


def test_conditions_on_formulas_are_refused():
    sympy = pytest.importorskip("sympy")
    x = torch.tensor([sympy.Symbol("x")])
    with pytest.raises(RuntimeError, match="not decided"):
        _ = x > 0
    with pytest.raises(NotImplementedError, match="not real"):
        torch.tensor([sympy.Integer(-1)]).sqrt()
    assert (torch.tensor([sympy.Symbol("p", positive=True)]) > 0).tolist() == [True]


def test_decimals_have_the_digits_of_their_context():
    x = torch.tensor([Decimal("0.1"), Decimal("1e-20")], requires_grad=True)
    (torch.tanh(x) + x.exp() * x.sqrt()).sum().backward()
    assert torch.tanh(x).tolist()[1] == Decimal("1E-20")
    slope = 1 - Decimal("0.09966799462495581711830508367835") ** 2
    slope += Decimal("0.1").exp() * (Decimal("0.1").sqrt() + 1 / (2 * Decimal("0.1").sqrt()))
    assert abs(x.grad.tolist()[0] - slope) < Decimal("1e-25")


def test_complex_long_floats_have_complex_gradients():
    mpmath = pytest.importorskip("mpmath")
    z = torch.tensor([mpmath.mpc(1, 2)], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.dtype.is_complex
    assert z.grad.tolist() == [mpmath.mpc(2, 4)]
    with pytest.raises(NotImplementedError, match="complex number"):
        torch.tensor([mpmath.mpf(-1)]).sqrt()
    assert (torch.tensor([mpmath.mpf(2)]) * 1j).dtype is z.dtype


def test_numbers_of_flint():
    flint = pytest.importorskip("flint")
    x = torch.tensor([flint.fmpq(1, 3)], requires_grad=True)
    (x**2 * flint.fmpq(1, 2)).sum().backward()
    assert x.grad.tolist() == [flint.fmpq(1, 3)]
    y = torch.tensor([flint.arb(2)], requires_grad=True)
    torch.exp(y).sum().backward()
    assert y.grad.tolist()[0].contains(flint.arb(2).exp())
    with pytest.raises(RuntimeError, match="decided"):
        _ = torch.tensor([flint.arb("1 +/- 2")]) > 0


# A class of the user's ----------------------------------------------------------------------------


class Clock:
    """Whole numbers modulo 7."""

    def __init__(self, n):
        self.n = n % 7

    def __add__(self, other):
        return Clock(self.n + other.n)

    def __sub__(self, other):
        return Clock(self.n - other.n)

    def __mul__(self, other):
        return Clock(self.n * other.n)

    def __truediv__(self, other):
        return Clock(self.n * pow(other.n, -1, 7))

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return self.n


def _clock(n):
    register_numbers(Clock)
    return Clock(n)


def test_a_class_with_arithmetic_is_enough():
    _clock(0)
    x = torch.tensor([3, 5], dtype=Clock, requires_grad=True)
    (x * x / torch.tensor([2, 3], dtype=Clock)).sum().backward()
    assert x.grad.tolist() == [Clock(3), Clock(10 * 5)]
    a = torch.tensor([[1, 2], [3, 4]], dtype=Clock)
    assert torch.linalg.inv(a).matmul(a).tolist() == torch.eye(2, dtype=Clock).tolist()
    assert gradcheck(torch.linalg.det, a.requires_grad_())


def test_functions_are_given_by_a_table():
    class Own(Fraction):
        pass

    register_numbers(Own, convert=Own, exp=lambda x: Own(1) + x)
    assert "tanh" in functions_of(Own)
    assert "exp" not in functions_of(Fraction)
    with pytest.raises(NotImplementedError, match=r"register_numbers\(Fraction, exp=\.\.\.\)"):
        torch.tensor([F(1)]).exp()
    with pytest.raises(TypeError, match="has no __add__"):
        register_numbers(type("Empty", (), {}))
    with pytest.raises(TypeError, match="must be a function"):
        register_numbers(Own, log=3)
    with pytest.raises(RuntimeError, match="no dtype follows from object"):
        torch.tensor([object()])


# What has no meaning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.sin(), "sin has no meaning for numbers of type Fraction"),
        (lambda x: torch.sigmoid(x), "it needs exp"),
        (lambda x: torch.special.digamma(x), "it is computed in float"),
        (lambda x: torch.fft.fft(x), "it needs fft"),
        (lambda x: torch.linalg.svd(x[None]), "LAPACK"),
        (lambda x: x.sqrt(), "irrational"),
        (lambda x: torch.rand(2, dtype=F), "not possible in"),
        (lambda x: x.view(torch.int64), "no bits to show"),
        (lambda x: x.to("meta"), "memory of the host alone"),
        (lambda x: torch.zeros(2, dtype=F, device="meta"), "memory of the host alone"),
        (lambda x: torch.finfo(x.dtype), "no fixed limits"),
        (lambda x: torch.save(x, "/dev/null"), "no place for numbers of type Fraction"),
    ],
)
def test_errors_name_the_function_and_the_type(call, words):
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match=words):
        call(torch.tensor([F(1, 3), F(2)]))


# Copies, modules, optimizers ----------------------------------------------------------------------


def test_copies_and_pickles_keep_the_numbers():
    x = torch.tensor([[F(1, 3), F(2)]], requires_grad=True)
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad
        assert made.tolist() == x.tolist()
        assert made.dtype is x.dtype
    assert pickle.loads(pickle.dumps(x.dtype)) is x.dtype
    array = x.detach().numpy()
    assert type(array) is numpy.ndarray
    assert array.dtype == object
    assert array[0, 0] == F(1, 3)
    torch.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="expected 4/3"):
        torch.testing.assert_close(x, x + 1)


def test_modules_and_steps_of_optimizers():
    net = torch.nn.Linear(2, 1)
    weights = {"weight": torch.tensor([[F(1), F(2)]]), "bias": torch.tensor([F(1, 7)])}
    x = torch.tensor([F(1, 3), F(1, 2)])
    assert torch.func.functional_call(net, weights, (x,)).tolist() == [F(31, 21)]
    net = net.to(F)
    step = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net.bias.item()
    net(x).sum().backward()
    step.step()
    assert net.bias.item() == before - F(1, 10)


def test_singular_matrices_are_refused():
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.tensor([[F(1), F(2)], [F(2), F(4)]]))
    assert torch.linalg.det(torch.tensor([[F(1), F(2)], [F(2), F(4)]])).item() == 0
