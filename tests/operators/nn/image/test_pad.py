"""Padding: each mode against NumPy's, negative padding, tangents, errors."""

import numpy
import pytest

import pullback as torch
from pullback.autograd import forward_ad
from pullback.operators.nn.image.pad import constant_pad_nd, pad

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", MODES)
def test_modes_are_numpys(mode):
    x = numpy.arange(24.0).reshape(2, 3, 4)
    expected = numpy.pad(x, ((0, 0), (2, 1), (1, 3)), MODES[mode])
    assert pad(torch.from_numpy(x), (1, 3, 2, 1), mode).tolist() == expected.tolist()


@pytest.mark.parametrize("mode", MODES)
def test_gradient_counts_how_often_an_element_was_used(mode):
    x = torch.arange(4.0).reshape(1, 4).requires_grad_()
    out = pad(x, (2, 3), mode)
    out.sum().backward()
    counts = numpy.bincount(out.detach().numpy().astype(int).ravel(), minlength=4)
    assert x.grad.tolist() == [counts.tolist()]


def test_negative_padding_cuts_off():
    x = torch.arange(4.0).reshape(1, 4)
    assert pad(x, (-1, 1), value=9).tolist() == [[1, 2, 3, 9]]
    assert pad(x, (-1, -1), "reflect").tolist() == [[1, 2]]
    assert pad(x, (-1, 1), "replicate").tolist() == [[1, 2, 3, 3]]
    assert pad(x, (-1, 2), "circular").tolist() == [[1, 2, 3, 1, 2]]


def test_value_does_not_come_into_tangents():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.zeros(2), torch.ones(2))
        tangent = forward_ad.unpack_dual(pad(dual, (1, 1), value=7.0)).tangent
    assert tangent.tolist() == [0, 1, 1, 0]


def test_no_padding_is_a_copy():
    x = torch.zeros(1, 2)
    for mode in ("constant", *MODES):
        pad(x, (0, 0), mode).add_(1)
    assert x.tolist() == [[0, 0]]


def test_some_dimensions_may_come_to_nothing():
    x = torch.ones(1, 1, 2, 2)
    for mode in ("reflect", "replicate"):
        assert pad(x, (-1, -1, 0, 0), mode).shape == (1, 1, 2, 0)
        with pytest.raises(RuntimeError, match="leaves size"):
            pad(x, (-1, -1, -1, -1), mode)
    with pytest.raises(RuntimeError, match="nothing to repeat"):
        pad(x[0], (-2, 1), "circular")


def test_value_takes_the_tensors_dtype():
    assert pad(torch.tensor([1]), (0, 1), value=2.7).tolist() == [1, 2]
    assert pad(torch.tensor([True]), (0, 1)).tolist() == [True, False]


X = torch.ones(2, 3, 5, 6)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: pad(X, (1, 1, 1)), RuntimeError, "two numbers"),
        (lambda: pad(X, (1,) * 10), RuntimeError, "5 dimensions"),
        (lambda: pad(X, (-4, -4)), RuntimeError, "cuts off"),
        (lambda: pad(X, 1), TypeError, "sequence of ints"),
        (lambda: pad(X, (1.5, 1)), TypeError, "sequence of ints"),
        (lambda: pad(X, (1, 1), "mirror"), NotImplementedError, "'mirror'"),
        (lambda: pad(X, (1, 1), "reflect"), NotImplementedError, "pads the last"),
        (lambda: pad(X, (1, 1, 1, 1), "reflect", 1.0), RuntimeError, "value"),
        (lambda: pad(X, (6, 1, 1, 1), "reflect"), RuntimeError, "at most 5"),
        (lambda: pad(X, (7, 1, 1, 1), "circular"), RuntimeError, "at most 6"),
        (lambda: pad(X, (-3, -9, 1, 1), "replicate"), RuntimeError, "leaves size"),
        (lambda: pad(X[:, :0], (1, 1, 1, 1), "reflect"), RuntimeError, "empty"),
        (lambda: constant_pad_nd([1], (1, 1)), TypeError, "constant_pad_nd"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()
