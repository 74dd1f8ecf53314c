"""Distances between all pairs of rows: by products of matrices as by differences."""

import numpy as np
import pytest

import pullback as torch

DIRECTLY = "donot_use_mm_for_euclid_dist"
BY_PRODUCTS = "use_mm_for_euclid_dist"


def rows(*shape, seed=0, far=0.0):
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, dtype=torch.float64, generator=source) + far
    return drawn.requires_grad_()


def assert_close(one, other, **limits):
    np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), **limits)


def gradients(x, y, mode):
    out = torch.cdist(x, y, compute_mode=mode)
    return out, *torch.autograd.grad(out.cos().sum(), (x, y))


@pytest.mark.parametrize(
    "shapes", [((30, 4), (28, 4)), ((2, 1, 5, 3), (6, 7, 3)), ((3, 0), (4, 0))]
)
def test_products_and_differences_agree(shapes):
    x, y = (rows(*shape, seed=i) for i, shape in enumerate(shapes))
    for one, other in zip(gradients(x, y, BY_PRODUCTS), gradients(x, y, DIRECTLY), strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_rows_far_from_the_origin_lose_nothing():
    x = rows(40, 3, far=1e6)
    for one, other in zip(gradients(x, x, BY_PRODUCTS), gradients(x, x, DIRECTLY), strict=True):
        assert_close(one, other, rtol=1e-7, atol=1e-7)
    assert torch.cdist(x, x).diagonal().abs().max() == 0


def test_close_rows_are_as_exact_as_distant_ones():
    x = rows(30, 3)
    near = (x + 1e-9).detach()
    assert_close(torch.cdist(x, near).diagonal(), (x - near).norm(dim=-1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("mode", [DIRECTLY, BY_PRODUCTS])
def test_derivatives_of_every_mode(mode):
    x, y = rows(4, 2), rows(3, 2, seed=1)

    def distances(a, b):
        return torch.cdist(a, b, compute_mode=mode)

    assert torch.autograd.gradcheck(
        distances, (x, y), check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(distances, (x, y))


def test_equal_rows_have_no_gradient():
    x = rows(3, 2)
    out, first, second = gradients(x, x.detach().clone().requires_grad_(), DIRECTLY)
    assert torch.isfinite(first).all()
    assert torch.isfinite(second).all()
    assert out.diagonal().abs().max() == 0


@pytest.mark.parametrize("rows_of_each", [(0, 4), (4, 0)])
def test_no_rows_have_no_distances(rows_of_each):
    x, y = (rows(n, 3) for n in rows_of_each)
    out, first, second = gradients(x, y, BY_PRODUCTS)
    assert tuple(out.shape) == rows_of_each
    assert first.abs().sum() == second.abs().sum() == 0


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.ones(3, 2), torch.ones(3, 3), "equal length"),
        (torch.ones(3, 2), torch.ones(3, 2, dtype=torch.float64), "one dtype"),
        (torch.ones(2, 3, 2), torch.ones(3, 3, 2), "do not broadcast"),
    ],
)
def test_what_cannot_be_compared_is_refused(x, y, message):
    with pytest.raises(RuntimeError, match=message):
        torch.cdist(x, y)
