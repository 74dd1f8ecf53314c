"""Tensors taken apart and joined: dtypes, histories, and sequences in the fast path."""

import numpy
import pytest

import pullback as torch
from pullback.operators.declare import OPERATORS
from pullback.operators.running import interpret


def test_cat_of_mixed_dtypes_gives_each_its_own_gradient():
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    y = torch.ones(1, dtype=torch.float64, requires_grad=True)
    joined = torch.cat([x, y, torch.tensor([3])])
    assert joined.dtype is torch.float64
    joined.sum().backward()
    assert x.grad.dtype is torch.float32
    assert y.grad.dtype is torch.float64


def test_integers_do_not_widen_what_they_join():
    assert torch.cat([torch.ones(1), torch.tensor([2])]).dtype is torch.float32
    assert torch.stack([torch.ones(()), torch.tensor(2)]).dtype is torch.float32


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_the_empty_vector_joins_anything(dim):
    x = torch.ones(2, 3, requires_grad=True)
    joined = torch.cat([torch.zeros(0), x, x], dim)
    assert joined.shape == torch.cat([x, x], dim).shape
    joined.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_what_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match="except in dimension 0"):
        torch.cat([torch.ones(2, 3), torch.ones(2, 2)])
    with pytest.raises(RuntimeError, match="use stack"):
        torch.cat([torch.ones(()), torch.ones(())])
    with pytest.raises(RuntimeError, match="equal shapes"):
        torch.stack([torch.ones(2), torch.ones(3)])
    with pytest.raises(IndexError):
        torch.cat([torch.ones(2)], 1)


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_built_and_interpreted_record_the_same(name):
    tensors = (torch.ones(2, requires_grad=True), torch.ones(2))
    built = getattr(torch, name)(tensors, 0)
    slow = interpret.call(OPERATORS[name], (tensors, 0), {})
    assert type(built.grad_fn) is type(slow.grad_fn)
    assert len(built.grad_fn.next_functions) == 2
    assert built.grad_fn.next_functions[1][0] is None


def test_nothing_is_recorded_without_grad_mode():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not torch.cat([x, x]).requires_grad
        parts = x.split(1)
    assert all(part.grad_fn is None for part in parts)
    assert all(part._is_view() for part in parts)


def test_parts_are_views_that_know_their_number():
    x = torch.arange(6.0).requires_grad_()
    parts = (x * 1).split(2)
    assert [part.output_nr for part in parts] == [0, 1, 2]
    (parts[0].sum() * 2 + parts[2].sum()).backward()
    assert x.grad.tolist() == [2, 2, 0, 0, 1, 1]


def test_unsafe_parts_may_be_written_to():
    x = torch.arange(4.0).requires_grad_()
    first, second = torch.unsafe_split(x * 1, 2)
    assert not first._is_view()
    first.mul_(3)
    (first.sum() + second.sum()).backward()
    assert x.grad.tolist() == [3, 3, 1, 1]
    assert [part.shape[0] for part in torch.ones(5).unsafe_chunk(2)] == [3, 2]


def test_parts_of_arrays_of_many_dimensions():
    x = torch.tensor(numpy.arange(24.0).reshape(2, 3, 4))
    assert [tuple(part.shape) for part in x.tensor_split(3, 2)] == [(2, 3, 2), (2, 3, 1), (2, 3, 1)]


def test_places_in_a_tensor_are_whole_numbers_in_a_row():
    x = torch.arange(6)
    parts = torch.tensor_split(x, torch.tensor([1, 3]))
    assert [part.tolist() for part in parts] == [[0], [1, 2], [3, 4, 5]]
    for places in (torch.tensor(1.0), torch.tensor([1], dtype=torch.int32), torch.tensor([[1]])):
        with pytest.raises(RuntimeError, match="a tensor of places must be int64"):
            torch.tensor_split(x, places)


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
def test_joins_take_dims_from_the_end_in_every_mode(dim):
    x = torch.arange(12.0, dtype=torch.float64).reshape(2, 2, 3).requires_grad_()

    def join(a):
        stacked = torch.stack([a, 2 * a], dim)
        return torch.cat([stacked, stacked * a.sum()], dim)

    whole = join(x[0])
    assert torch.autograd.gradcheck(lambda a: join(a[0]), x)
    mapped = torch.func.vmap(join)(x)
    assert mapped.tolist() == torch.stack([whole, join(x[1])]).tolist()
    _, tangent = torch.func.jvp(join, (x[0],), (torch.ones_like(x[0]),))
    assert tangent.shape == whole.shape


def test_cat_of_one_dtype_that_others_fit_into_keeps_it():
    wide, narrow = torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float16)
    assert torch.cat([wide, narrow]).dtype is torch.float64
    assert torch.cat([narrow, wide]).dtype is torch.float64
    assert torch.cat([torch.ones(1), torch.ones(1, dtype=torch.int64)]).dtype is torch.float32
    assert torch.stack([torch.ones(1, dtype=torch.int64), torch.ones(1)]).dtype is torch.float32


def test_half_precisions_that_numpy_does_not_mix_are_joined_in_single():
    halves = torch.ones(1, dtype=torch.float16), torch.ones(1, dtype=torch.bfloat16)
    assert torch.cat(halves).dtype is torch.float32
    assert torch.stack(halves).dtype is torch.float32


def test_chunks_of_nothing_are_as_many_as_were_asked_for():
    x = torch.zeros(0, 2)
    assert len(torch.chunk(x, 3)) == len(torch.unsafe_chunk(x, 3)) == 3
