"""Row-major copies: the same elements in the usual order, wherever they were."""

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import row_major as module
from pullback.operators.arrays.row_major import row_major


def numbers(*shape, dtype="f"):
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


ARRAYS = {
    "transposed": lambda: numbers(200, 150).T,
    "wide": lambda: numbers(3, 20_000).T,
    "part of a matrix": lambda: numbers(300, 200)[5:205, 3:180].T,
    "rows apart": lambda: numbers(400, 200)[::2].T,
    "columns apart": lambda: numbers(200, 400)[:, ::2].T,
    "backwards": lambda: numbers(200, 150)[::-1].T,
    "several": lambda: numbers(3, 130, 140).swapaxes(1, 2),
    "several, apart and backwards": lambda: numbers(6, 130, 140)[::-2].swapaxes(1, 2),
    "channels last": lambda: numbers(2, 64, 20, 30).transpose(0, 2, 3, 1),
    "channels first": lambda: numbers(2, 20, 30, 64).transpose(0, 3, 1, 2),
    "all turned": lambda: numbers(40, 30, 20).T,
    "with dimensions of one": lambda: numbers(200, 1, 150, 1).T,
    "repeated": lambda: numpy.broadcast_to(numbers(200, 1), (200, 150)).T,
    "repeated rows": lambda: numpy.broadcast_to(numbers(150), (200, 150)).T,
    "few": lambda: numbers(4, 5).T,
    "in order": lambda: numbers(200, 150),
    "none": lambda: numbers(0, 150).T,
    "double": lambda: numbers(200, 150, dtype="d").T,
    "integers": lambda: numpy.arange(30_000).reshape(200, 150).T,
    "read-only": lambda: numpy.frombuffer(numbers(200, 150).tobytes(), "f").reshape(200, 150).T,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_copies_have_the_same_elements_in_order_and_memory_of_their_own(name):
    array = ARRAYS[name]()
    made = row_major(array)
    numpy.testing.assert_array_equal(made, array)
    assert made.dtype == array.dtype
    assert made.flags.c_contiguous
    assert made.flags.writeable
    assert made.base is None
    assert not numpy.shares_memory(made, array)


def test_what_is_not_a_number_stays_what_it_is():
    array = numbers(200, 150)
    array[0, :4] = numpy.nan, numpy.inf, -numpy.inf, -0.0
    made = row_major(array.T)
    numpy.testing.assert_array_equal(made.view("i"), numpy.ascontiguousarray(array.T).view("i"))


def test_copies_are_the_same_without_blas(monkeypatch):
    monkeypatch.setattr(module, "_omatcopy", lambda: None)
    array = numbers(200, 150).T
    numpy.testing.assert_array_equal(row_major(array), array)


def test_contiguous_tensors_and_gradients_are_such_copies():
    x = torch.tensor(numbers(150, 200), requires_grad=True)
    y = x.t().contiguous()
    assert y.is_contiguous()
    assert torch.equal(y, x.t())
    y.backward(torch.tensor(numbers(200, 150)))
    assert x.grad.is_contiguous()
    numpy.testing.assert_array_equal(x.grad.numpy(), numbers(200, 150).T)
