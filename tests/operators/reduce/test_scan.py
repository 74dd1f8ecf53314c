"""Running sums, products and extremes: accuracy, zeros, the recurrence in both its forms."""

import cmath
import math

import numpy
import pytest

import pullback as torch
from pullback.operators.reduce import scan
from pullback.operators.reduce.scan import recurrence, shifted

inf, nan = math.inf, math.nan


@pytest.mark.parametrize("size", [scan._MANY, scan._MANY + 1, scan._MANY + 39])
@pytest.mark.parametrize("place", [0, 5, -41, -9, -2, -1])
@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_what_is_not_finite_spoils_no_sums_before_it(size, place, value):
    """It did at the end of long rows, which are added up by products."""
    x = torch.ones(size, requires_grad=True)
    spoilt = torch.ones(size)
    spoilt[place] = value
    place %= size
    sums = torch.cumsum(spoilt, 0)
    assert torch.equal(sums[:place], torch.arange(1.0, place + 1))
    assert not sums[place:].isfinite().any()
    torch.cumsum(x, 0).backward(spoilt)
    assert torch.equal(x.grad[place + 1 :], torch.arange(size - place - 1.0, 0, -1))
    assert not x.grad[: place + 1].isfinite().any()


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def looped(a, b):
    """The recurrence as one would write it."""
    s, before = numpy.zeros_like(b), 0
    for i in range(len(b)):
        before = s[i] = b[i] + a[i] * before
    return s


@pytest.mark.parametrize(
    "a",
    [
        numpy.linspace(-2, 2, 37),  # a zero in the middle
        numpy.full(37, 0.5),
        numpy.full(37, 1e-30),  # products leave the range
        numpy.full(37, 1e8),
        numpy.where(numpy.arange(37) % 5, 1.5, 0.0),
    ],
    ids=["zero", "decay", "tiny", "huge", "zeros"],
)
def test_recurrence_equals_the_loop(a):
    b = numpy.random.default_rng(0).standard_normal(37)
    got = recurrence(torch.from_numpy(a), torch.from_numpy(b), 0).numpy()
    numpy.testing.assert_allclose(got, looped(a, b), rtol=1e-9)


def test_both_ways_through_the_recurrence_agree_along_any_dim():
    rng = numpy.random.default_rng(0)
    a, b = rng.uniform(0.5, 1.5, (4, 9, 3)), rng.standard_normal((4, 9, 3))
    quick = recurrence(torch.from_numpy(a), torch.from_numpy(b), 1).numpy()
    numpy.testing.assert_allclose(quick, scan._by_doubling(a.copy(), b.copy(), 1), rtol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_many_lines_at_once_give_what_each_gives_alone(dim):
    rng = numpy.random.default_rng(0)
    a, b = (torch.from_numpy(rng.standard_normal((24, 25, 26))) for _ in range(2))
    whole = recurrence(a, b, dim).movedim(dim, 0).numpy()
    flat_a, flat_b = (x.movedim(dim, 0).reshape(x.shape[dim], -1).numpy() for x in (a, b))
    expected = numpy.stack([looped(flat_a[:, i], flat_b[:, i]) for i in range(flat_a.shape[1])], 1)
    numpy.testing.assert_allclose(whole.reshape(expected.shape), expected, rtol=1e-9)
    for op, reference in (("cumsum", numpy.cumsum), ("cumprod", numpy.cumprod)):
        got = getattr(torch, op)(b, dim).numpy()
        numpy.testing.assert_allclose(got, reference(b.numpy(), dim), rtol=1e-9)


def test_recurrence_passes_gradcheck_twice():
    a, b = leaf([0.5, 0.0, -1.5, 2.0]), leaf([1.0, 2.0, 3.0, 4.0])
    assert torch.autograd.gradcheck(lambda a, b: recurrence(a, b, 0), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: recurrence(a, b, 0), (a, b))


def test_shifted_moves_by_a_place_and_fills():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert shifted(x, 0, 1, 9).tolist() == [9, 1, 2]
    assert shifted(x, 0, -1).tolist() == [2, 3, 0]


def test_cumprod_with_zeros_has_derivatives_of_every_order():
    x = leaf([1.0, 0.0, 3.0, 0.0, 2.0])
    (first,) = torch.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)
    assert first.tolist() == [1, 4, 0, 0, 0]
    (second,) = torch.autograd.grad(first[1], x, create_graph=True)
    assert second.tolist() == [4, 0, 1, 9, 0]
    assert torch.autograd.grad(second[3], x)[0].tolist() == [9, 0, 3, 0, 3]


def test_cumprod_gradient_survives_products_that_underflow():
    x = leaf([1e-200, 1e-200, 1e200])
    (g,) = torch.autograd.grad(x.cumprod(0)[2], x)
    numpy.testing.assert_allclose(g.tolist(), [1, 1, 0], rtol=1e-9)


def test_cumprod_gradient_is_the_same_with_and_without_division():
    data = numpy.random.default_rng(0).uniform(0.5, 2, (4, 6))
    x = leaf(data.tolist())
    (quick,) = torch.autograd.grad(x.cumprod(1).square().sum(), x)
    (exact,) = torch.autograd.grad(x.cumprod(1).square().sum(), x, create_graph=True)
    numpy.testing.assert_allclose(quick, exact.detach(), rtol=1e-12)


def test_running_sums_of_many_singles_do_not_drift():
    data = numpy.random.default_rng(0).random(200_000, dtype=numpy.float32)
    got = torch.from_numpy(data).cumsum(0).numpy()
    assert got.dtype == numpy.float32
    numpy.testing.assert_allclose(got[-1], data.sum(dtype=numpy.float64), rtol=1e-7)


def test_running_maximum_names_the_last_of_equal_elements_and_keeps_nan():
    result = torch.tensor([1.0, 3.0, 3.0, 2.0, nan, 5.0]).cummax(0)
    assert result.indices.tolist() == [0, 1, 2, 2, 4, 4]
    assert numpy.isnan(result.values.numpy()[4:]).all()


def test_running_maximum_adds_up_the_gradients_of_repeated_places():
    x = leaf([1.0, 3.0, 2.0, 0.0])
    (g,) = torch.autograd.grad(x.cummax(0).values.sum(), x)
    assert g.tolist() == [1, 3, 0, 0]


def test_logcumsumexp_neither_overflows_nor_mixes_far_elements():
    x = leaf([-1000.0, 0.0, 1000.0, 1000.0])
    y = x.logcumsumexp(0)
    numpy.testing.assert_allclose(y.tolist(), [-1000, 0, 1000, 1000 + math.log(2)])
    (g,) = torch.autograd.grad(y.sum(), x)
    numpy.testing.assert_allclose(g.tolist(), [1, 1, 1.5, 0.5])


def test_infinity_in_logcumsumexp_spares_the_gradients_before_it():
    x = leaf([1.0, 2.0, math.inf, 3.0])
    (g,) = torch.autograd.grad(x.logcumsumexp(0), x, torch.ones(4, dtype=torch.float64))
    first = math.exp(1 - math.log(math.exp(1) + math.exp(2)))
    numpy.testing.assert_allclose(g[:2].tolist(), [1 + first, 1 - first], rtol=1e-12)
    assert g[3].item() == 0


def test_logcumsumexp_of_complex_elements_is_the_logarithm_of_the_sums():
    x = torch.tensor([1 + 2j, -3 + 1j, 0.5 - 1j, -inf + 0j], dtype=torch.complex128)
    expected = numpy.exp(x.numpy()).cumsum()
    numpy.testing.assert_allclose(numpy.exp(x.logcumsumexp(0).numpy()), expected)


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_in_place_scans_keep_the_dtype(op):
    x = torch.tensor([1, 2, 3], dtype=torch.int8)
    assert getattr(x, f"{op}_")(0) is x
    assert x.dtype is torch.int8


def test_scans_refuse_what_they_do_not_know():
    with pytest.raises(NotImplementedError, match="cummax"):
        torch.tensor([1j]).cummax(0)
    with pytest.raises(NotImplementedError, match="logcumsumexp"):
        torch.tensor([1]).logcumsumexp(0)
    with pytest.raises(IndexError, match="cumsum: dim 1"):
        torch.ones(2).cumsum(1)


@pytest.mark.parametrize("width", [80, 83, 1000])
def test_long_rows_are_summed_in_blocks(width):
    values = numpy.random.default_rng(width).standard_normal((500, width)).astype(numpy.float32)
    x = torch.tensor(values, requires_grad=True)
    sums = x.cumsum(1)
    numpy.testing.assert_allclose(sums.detach().numpy(), values.astype(float).cumsum(1), atol=1e-4)
    weights = numpy.random.default_rng(0).standard_normal(values.shape).astype(numpy.float32)
    sums.backward(torch.tensor(weights))
    expected = weights[:, ::-1].astype(float).cumsum(1)[:, ::-1]
    numpy.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-4)


def test_infinity_in_a_long_row_spares_what_is_before_it():
    x = torch.ones(400, 100)
    x[3, 60] = float("inf")
    sums = x.cumsum(1)
    assert sums[3, :60].isfinite().all()
    assert sums[3, 60:].isinf().all()


def test_complex_logcumsumexp_is_in_the_branch_of_a_running_sum():
    """Runs of places were combined, which may end a turn away."""
    x = torch.tensor([2 + 0j, 2 + 0j, 2.5 + 6.2j, -1 - 9j, 7 + 20j, 6.9 + 17j])
    expected, running = [], x[0].item()
    for value in x.tolist():
        if expected:
            larger, smaller = sorted((running, value), key=lambda one: -one.real)
            running = larger + cmath.log(1 + cmath.exp(smaller - larger))
        expected.append(running)
    for made in (torch.logcumsumexp(x, 0), torch.logcumsumexp(x[:, None].repeat(1, 2), 0)[:, 1]):
        assert torch.allclose(made, torch.tensor(expected))


def test_quadrants_remain_of_complex_infinities():
    inf = math.inf
    x = torch.tensor([1 + 1j, complex(inf, 0.78), complex(inf, 0.5), 2.0])
    made = torch.logcumsumexp(x, 0)
    assert made.real.tolist() == [1.0, inf, inf, inf]
    quarter = math.pi / 4
    assert made.imag.tolist() == pytest.approx([1.0, 0.78, quarter, quarter])
    assert torch.logaddexp(x[1], x[2]).imag.item() == pytest.approx(quarter)


def test_what_adds_nothing_to_a_sum_of_exponentials_leaves_its_tangent():
    x, direction = torch.tensor([-inf, -inf, 1.0, 2.0]), torch.tensor([9.0, 9.0, 2.0, 3.0])
    _, tangent = torch.func.jvp(lambda x: torch.logcumsumexp(x, 0), (x,), (direction,))
    share = 1 / (1 + math.e)
    assert tangent.tolist() == pytest.approx([0, 0, 2, 2 * share + 3 * (1 - share)])
