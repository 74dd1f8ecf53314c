"""Tensors that get another size: what they keep, what is new, and whose memory may not move."""

import numpy
import pytest

import pullback as torch


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64])
def test_new_elements_are_nan_where_algorithms_are_deterministic(deterministic, dtype):
    for grow in (lambda x: x.resize_(4), lambda x: x.resize_as_(torch.zeros(4))):
        x = grow(torch.zeros(2, dtype=dtype))
        assert x.isnan().tolist() == [False, False, True, True]
    assert torch.zeros(4)[1:].resize_(5).isnan().tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
def test_new_integers_are_the_largest_there(deterministic, dtype):
    largest = torch.iinfo(dtype).max
    assert torch.zeros(1, dtype=dtype).resize_(3).tolist() == [0, largest, largest]
    assert torch.LongTensor(2).tolist() == [torch.iinfo(torch.int64).max] * 2


@pytest.mark.parametrize(
    "lend",
    [
        torch.from_numpy,
        torch.as_tensor,
        torch.asarray,
        lambda a: torch.frombuffer(a, dtype=torch.float64),
        torch.from_dlpack,
    ],
)
def test_memory_of_an_array_is_not_resized(lend):
    """A larger copy would no longer be seen by the array."""
    array = numpy.zeros(4)
    x = lend(array)
    x.add_(1)  # a write does not make it ours
    for resize in (
        lambda: x.resize_(5, 5),
        lambda: x[1:].resize_(9),
        lambda: x.detach().resize_(9),
        lambda: x.resize_as_(torch.zeros(9)),
        lambda: x.untyped_storage().resize_(400),
        lambda: torch.add(torch.zeros(9, dtype=torch.float64), 1, out=x[:0]),
    ):
        with pytest.raises(RuntimeError, match="belongs to the array"):
            resize()
    assert not x.untyped_storage().resizable()
    assert x.resize_(2, 2).shape == (2, 2)
    x.mul_(3)
    assert array.tolist() == [3, 3, 3, 3]


def test_memory_of_a_copy_is_resized():
    array = numpy.zeros(4)
    for copied in (torch.tensor(array), torch.from_numpy(array).clone(), torch.as_tensor([1.0])):
        assert copied[:].resize_(9).shape == (9,)
        assert copied.resize_(9).shape == (9,)


def test_out_of_another_shape_is_written_in_the_memory_that_it_has():
    """As resize_ does: whoever looks at that memory sees the result."""
    x = torch.zeros(5)
    torch.add(torch.ones(3), 1, out=x[:0])
    assert x.tolist() == [2, 2, 2, 0, 0]
    with pytest.warns(UserWarning, match="resized"):
        torch.add(torch.ones(3), 2, out=x[1:2])
    assert x.tolist() == [2, 3, 3, 3, 0]
    x = torch.zeros(5)
    part = x[:0]
    torch.cat([torch.ones(6)], out=part)  # there is not enough
    assert (x.tolist(), part.tolist()) == ([0] * 5, [1] * 6)
