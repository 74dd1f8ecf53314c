"""Triangles of small and large matrices, `where` with numbers, rows that are selected."""

import numpy as np
import pytest

import pullback as torch

SMALL = [(3, 4), (4, 3), (1, 1), (0, 3), (3, 0), (2, 5, 7)]
LARGE = [(70, 130), (130, 70), (2, 200, 65), (65, 64)]


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize(
    ("shape", "diagonals"),
    [*((s, range(-6, 7)) for s in SMALL), *((s, range(-210, 211, 7)) for s in LARGE)],
)
def test_a_triangle_is_numpys_whatever_its_diagonal(name, shape, diagonals):
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    for diagonal in diagonals:
        made = getattr(torch, name)(torch.tensor(x), diagonal).numpy()
        np.testing.assert_array_equal(made, getattr(np, name)(x, diagonal))


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_what_a_triangle_leaves_out_is_zero_even_for_infinities(name):
    x = torch.full((3, 3), float("inf"))
    assert getattr(x, name)().isfinite().sum() == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", [0, -0.0, 2, 2.5, float("-inf")])
def test_where_takes_a_number_on_either_side_in_the_tensors_dtype(dtype, number):
    x = torch.tensor([1.0, -1.0], dtype=dtype, requires_grad=True)
    mask = torch.tensor([True, False])
    kept, other = torch.where(mask, x, number), torch.where(mask, number, x)
    assert kept.dtype is other.dtype is dtype
    assert kept.tolist() == [1.0, number]
    assert other.tolist() == [number, -1.0]
    (g,) = torch.autograd.grad(kept.sum(), x)
    assert g.tolist() == [1.0, 0.0]


def test_masked_fill_refuses_a_number_that_the_dtype_cannot_hold():
    x, mask = torch.zeros(2, dtype=torch.int32), torch.tensor([True, False])
    with pytest.raises(RuntimeError, match="overflow"):
        x.masked_fill(mask, float("inf"))
    with pytest.raises(RuntimeError, match="cannot be converted"):
        x.masked_fill(mask, 1j)


def test_take_along_dim_without_a_dim_refuses_places_beyond_the_end():
    x = torch.tensor([7.0, 8.0])
    for beyond in (2, -1):
        with pytest.raises(RuntimeError, match="out of bounds"):
            torch.take_along_dim(x, torch.tensor([beyond]))
    assert torch.take_along_dim(x, torch.tensor([3]), 0).tolist() == [8]  # starts again, as torch's
    with pytest.raises(IndexError, match="take_along_dim: dim 0 does not exist"):
        torch.take_along_dim(torch.tensor(1.0), torch.tensor(0), 0)


def test_rows_are_not_written_over_what_they_are_selected_from():
    x, index = torch.arange(4.0), torch.tensor([3, 2, 1, 0])
    with pytest.raises(RuntimeError, match="share one memory location"):
        torch.index_select(x, 0, index, out=x)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["tril", "triu", "tril_", "triu_"])
def test_triangles_of_examples_are_not_that_of_their_batch(name):
    """Rows in vmap were taken for one matrix."""
    part = torch.vmap(lambda x: getattr(x.clone(), name)())
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        part(torch.ones(3, 4))
    x = torch.arange(12.0).reshape(2, 3, 2)
    assert torch.equal(part(x), getattr(x.clone(), name)())
    assert torch.equal(
        torch.vmap(lambda x: getattr(x.clone(), name)(), 2)(x)[1], part(x[..., 1][None])[0]
    )
