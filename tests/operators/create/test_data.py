"""Tensors from Python data, arrays and buffers."""

import warnings
from collections import deque
from fractions import Fraction

import numpy
import pytest

import pullback as torch


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, torch.float32),
        (1, torch.int64),
        (True, torch.bool),
        (1j, torch.complex64),
        ([1, 2.5], torch.float32),
        ([True, 2], torch.int64),
        ([1.0, 1j], torch.complex64),
        ([], torch.float32),
        (numpy.float64(1), torch.float64),
        ([numpy.float64(3), 1], torch.float64),
        ([numpy.int8(3)], torch.int8),
        ([numpy.int8(3), 1], torch.int64),
        ([numpy.float16(3), 2.5], torch.float32),
        (numpy.ones(2, numpy.int16), torch.int16),
        ([torch.tensor(1.0), torch.tensor(2.0, dtype=torch.float64)], torch.float64),
        (range(3), torch.int64),
        (deque([1, 2]), torch.int64),
    ],
)
def test_the_data_tells_the_dtype(data, dtype):
    assert torch.tensor(data).dtype is dtype


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ([(1, 2), [3, 4]], [[1, 2], [3, 4]]),
        ([[], []], [[], []]),
        ([range(2), range(2)], [[0, 1], [0, 1]]),
        ([numpy.array([1, 2]), numpy.array([3, 4])], [[1, 2], [3, 4]]),
        ([[1, 2], numpy.array([3, 4])], [[1, 2], [3, 4]]),
        ([[torch.tensor(1), 2]], [[1, 2]]),
        (bytearray(b"ab"), [97, 98]),
        (memoryview(b"ab"), [97, 98]),
    ],
)
def test_nested_sequences(data, expected):
    assert torch.tensor(data).tolist() == expected


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([[1, 2], [3]], ValueError),
        ([[1], []], ValueError),
        ([1, [2]], TypeError),
        ([[2], 1], TypeError),
        ("abc", TypeError),
        (["a"], ValueError),
        ([1, "a"], TypeError),
        (b"abc", TypeError),
        (None, RuntimeError),
        ([None], RuntimeError),
        ({1, 2}, RuntimeError),
        ({1: 2}, RuntimeError),
        (object(), RuntimeError),
        (2**63, ValueError),
        ([torch.ones(2)], ValueError),
        (numpy.array(["a"]), TypeError),
        (numpy.ones(2, ">f4"), ValueError),
        (numpy.ones(4)[::-1], ValueError),
        ([numpy.ones(2), numpy.ones(3)], ValueError),
    ],
)
def test_what_is_no_tensor(data, error):
    with pytest.raises(error):
        torch.tensor(data)


class Row:
    """Says that it has two elements; how many there are is another matter."""

    def __init__(self, *elements):
        self.elements = elements

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.elements[index]


class Table(Row):
    def __getitem__(self, index):
        return {}[index]


@pytest.mark.parametrize("data", [Row(), Row(1.0), Row(1.0, 2.0, 3.0), Table()])
def test_what_has_other_elements_than_it_says_is_no_tensor(data):
    for wrong in (data, [data, data], (Row(1.0, 2.0), data), [Row(1.0), Row(1.0, 2.0, 3.0)]):
        with pytest.raises(ValueError, match="elements"):
            torch.tensor(wrong)
    assert torch.tensor([Row(1.0, 2.0)]).tolist() == [[1.0, 2.0]]


def test_other_numbers_need_a_dtype():
    assert torch.tensor([Fraction(1, 2)], dtype=torch.float32).tolist() == [0.5]
    with pytest.raises(TypeError):
        torch.tensor([1, None], dtype=torch.float32)
    with pytest.raises(TypeError):
        torch.tensor([1, "2"], dtype=torch.float32)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (2.7, torch.int32, 2),
        (-2.7, torch.int32, -2),
        (-1, torch.uint8, 255),
        (5, torch.bool, True),
        (1e40, torch.float32, float("inf")),
        (2**64 - 1, torch.uint64, 2**64 - 1),
        (2**70, torch.float64, 2.0**70),
    ],
)
def test_numbers_in_a_given_dtype(number, dtype, expected):
    assert torch.tensor(number, dtype=dtype).item() == expected


@pytest.mark.parametrize(
    ("number", "dtype", "error"),
    [
        (300, torch.uint8, RuntimeError),
        (300.5, torch.uint8, RuntimeError),
        (float("inf"), torch.int32, RuntimeError),
        (float("nan"), torch.int64, RuntimeError),
        (1j, torch.float32, TypeError),
        (1j, torch.int64, TypeError),
    ],
)
def test_numbers_that_do_not_fit_are_refused(number, dtype, error):
    with pytest.raises(error):
        torch.tensor([number], dtype=dtype)


def test_tensor_copies():
    array = numpy.zeros(2)
    x = torch.tensor(array)
    array[0] = 7
    assert x.tolist() == [0, 0]


def test_tensor_of_a_tensor_warns_and_drops_history():
    x = torch.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match=r"clone\(\)\.detach\(\)"):
        y = torch.tensor(x)
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.warns(UserWarning, match=r"clone\(\)\.detach\(\)"):
        torch.ones(1).new_tensor(x)


def test_tensor_keeps_the_order_of_an_arrays_strides():
    assert torch.tensor(numpy.ones((3, 2)).T).stride() == (1, 2)
    assert torch.tensor(numpy.broadcast_to(1.0, (2, 2))).stride() == (2, 1)


def test_as_tensor_shares_what_it_can():
    x = torch.ones(2)
    assert torch.as_tensor(x) is x
    array = numpy.zeros(2)
    shared = torch.as_tensor(array)
    array[0] = 7
    assert shared.tolist() == [7, 0]
    assert torch.as_tensor(array, dtype=torch.float32).dtype is torch.float32
    leaf = torch.ones(2, requires_grad=True)
    assert torch.as_tensor(leaf, dtype=torch.float64).grad_fn.name() == "ToCopyBackward0"


def test_asarray_copies_as_told():
    array = numpy.zeros(2)
    assert torch.asarray(array, copy=False).data_ptr() == torch.asarray(array).data_ptr()
    assert torch.asarray(array, copy=True).data_ptr() != torch.asarray(array).data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        torch.asarray(array, dtype=torch.float32, copy=False)
    with pytest.raises(ValueError, match="no memory to share"):
        torch.asarray([1.0], copy=False)
    with pytest.raises(RuntimeError, match="no memory to share"):
        torch.asarray(numpy.float32(1), copy=False)
    assert torch.asarray(bytearray(b"ab"), dtype=torch.uint8).tolist() == [97, 98]


def test_asarray_of_tensors_and_requires_grad():
    leaf = torch.ones(2, requires_grad=True)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="requires_grad is not given"):
            assert torch.asarray(leaf) is leaf
    finally:
        torch.set_warn_always(False)
    assert not torch.asarray(leaf, requires_grad=False).requires_grad
    assert not torch.asarray(leaf, copy=True, requires_grad=False).requires_grad
    assert torch.asarray(leaf, requires_grad=None) is leaf
    for options in ({"copy": True}, {"dtype": torch.float64}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.asarray(leaf, **options).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0]
    computed = leaf * 2
    assert torch.asarray(computed, copy=True, requires_grad=True).grad_fn is not None
    assert torch.asarray([1.0], requires_grad=True).is_leaf


def test_frombuffer_shares_memory():
    memory = bytearray(8)
    x = torch.frombuffer(memory, dtype=torch.int32, offset=4)
    memory[4] = 1
    assert x.tolist() == [1]
    assert torch.frombuffer(memory, dtype=torch.uint8, count=3).shape == (3,)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": torch.int32, "offset": 1},
        {"dtype": torch.int32, "offset": 8},
        {"dtype": torch.int32, "offset": -1},
        {"dtype": torch.int32, "count": 3},
        {"dtype": torch.int32, "count": 0},
    ],
)
def test_frombuffer_refuses_what_lies_outside(options):
    with pytest.raises(ValueError, match="frombuffer"):
        torch.frombuffer(bytearray(8), **options)


def test_frombuffer_needs_a_buffer():
    with pytest.raises(ValueError, match="buffer protocol"):
        torch.frombuffer([1], dtype=torch.int32)
    with pytest.warns(UserWarning, match="read-only"):
        torch.frombuffer(b"abcd", dtype=torch.uint8)
