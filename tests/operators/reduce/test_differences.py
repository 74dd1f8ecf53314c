"""Finite differences, integrals and segments: exact on polynomials, and what is refused."""

import numpy
import pytest

import pullback as torch


def test_differences_and_running_integrals_undo_each_other():
    x = torch.tensor([1.0, 4.0, 9.0, 16.0])
    assert x.diff().tolist() == [3, 5, 7]
    assert x.diff(2).tolist() == [2, 2]
    assert x.diff(9).shape == (0,)
    assert x.diff(prepend=torch.tensor([0.0])).cumsum(0).tolist() == x.tolist()


def test_differences_of_bools_say_where_they_change():
    assert torch.tensor([True, False, False]).diff().tolist() == [True, False]


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_of_a_parabola_on_uneven_points_is_exact_inside(edge_order):
    at = torch.tensor([0.0, 1.0, 3.0, 3.5, 7.0], dtype=torch.float64)
    (slope,) = torch.gradient(at * at, spacing=(at,), edge_order=edge_order)
    whole = slice(None) if edge_order == 2 else slice(1, -1)
    numpy.testing.assert_allclose(slope.numpy()[whole], 2 * at.numpy()[whole])


def test_gradient_goes_along_the_named_dims_with_their_spacings():
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 6.0, 8.0]])
    across, down = torch.gradient(x, dim=(1, 0), spacing=(2.0, 0.5))
    assert across.tolist() == [[0.5, 0.75, 1.0], [1.5, 1.25, 1.0]]
    assert down.tolist() == [[4, 8, 8], [4, 8, 8]]


def test_trapezoids_take_points_or_steps():
    y = torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
    assert torch.trapezoid(y).tolist() == [4.5, 1.0]
    assert torch.trapezoid(y, dx=2).tolist() == [9.0, 2.0]
    assert torch.trapezoid(y, torch.tensor([0.0, 1.0, 3.0])).tolist() == [7.5, 1.5]
    assert torch.trapezoid(y, dim=0).tolist() == [0.5, 1.5, 2.0]
    assert torch.cumulative_trapezoid(y).tolist() == [[1.5, 4.5], [0.5, 1.0]]


def test_trapezoid_of_small_integers_does_not_overflow():
    y = torch.full((5,), 100, dtype=torch.int8)
    assert torch.trapezoid(y.to(torch.int16)).item() == 400.0


def test_integrals_pass_gradients_to_values_and_points():
    y = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    x = torch.tensor([0.0, 1.0, 3.0], requires_grad=True)
    gy, gx = torch.autograd.grad(torch.trapezoid(y, x), (y, x))
    assert gy.tolist() == [0.5, 1.5, 1.0]
    assert gx.tolist() == [-1.5, -1.5, 3.0]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("sum", [3.0, 0.0, 12.0]),
        ("mean", [1.5, numpy.nan, 4.0]),
        ("max", [2.0, -numpy.inf, 5.0]),
        ("min", [1.0, numpy.inf, 3.0]),
        ("prod", [2.0, 1.0, 60.0]),
    ],
)
def test_segments_by_length_and_by_offset_agree(reduce, expected):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    by_length = torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 0, 3]))
    by_offset = torch.segment_reduce(x, reduce, offsets=torch.tensor([0, 2, 2, 5]))
    numpy.testing.assert_array_equal(by_length, expected)
    numpy.testing.assert_array_equal(by_offset, expected)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: x.sum().diff(), RuntimeError, "diff: a 0-d tensor"),
        (lambda x: x.diff(-1), RuntimeError, "n must not be negative"),
        (lambda x: torch.gradient(x, edge_order=3), RuntimeError, "edge_order must be 1 or 2"),
        (lambda x: torch.gradient(x[:1]), RuntimeError, "needs at least 2"),
        (lambda x: torch.gradient(x, spacing=x), TypeError, "spacing must be"),
        (lambda x: torch.trapezoid(x, x, dx=1), TypeError, "not both"),
        (lambda x: torch.trapezoid(x, 2), TypeError, "`x` must be a Tensor"),
        (lambda x: torch.cumulative_trapezoid(2.0), TypeError, "`y` must be a Tensor"),
        (lambda x: torch.trapezoid(x, x[:2]), RuntimeError, "one x for each sample point"),
        (lambda x: torch.segment_reduce(x, "sum"), RuntimeError, "`lengths` or `offsets`"),
        (
            lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2])),
            RuntimeError,
            "add up to the 3 elements",
        ),
    ],
)
def test_what_has_no_difference_or_integral_is_refused_with_the_reason(call, error, said):
    with pytest.raises(error, match=said):
        call(torch.ones(3))


def test_no_differences_at_all_are_a_copy():
    x = torch.tensor([1.0, 2.0])
    y = x.diff(0)
    y[0] = 5
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("dim", [1, -2])
def test_sample_points_with_fewer_dimensions_belong_to_the_last_ones(dim):
    y = torch.arange(12.0).reshape(2, 2, 3)
    points = torch.tensor([[0.0, 1.0, 3.0], [2.0, 4.0, 5.0]])
    whole = points.expand(2, 2, 3)
    assert torch.equal(torch.trapezoid(y, points, dim=dim), torch.trapezoid(y, whole, dim=dim))
    with pytest.raises(RuntimeError, match="one x for each"):
        torch.trapezoid(y[0], whole)


def test_the_step_of_an_integral_may_be_a_tensor_of_one_number():
    y = torch.tensor([1.0, 2.0, 3.0])
    assert torch.trapezoid(y, dx=torch.tensor(1.5)) == torch.trapezoid(y, dx=1.5)
