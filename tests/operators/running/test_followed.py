"""Gradients of pools, convolutions and the like have a history by the input, as torch's have."""

from __future__ import annotations

import pytest

import pullback as torch

F = torch.nn.functional

WORKS = {
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 3),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 2),
    "conv1d": lambda x: F.conv1d(x, torch.ones(1, 1, 2)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x, torch.ones(1, 1, 2)),
    "reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "grid_sample": lambda x: F.grid_sample(x[None], torch.zeros(1, 2, 2, 2), align_corners=False),
    "nll_loss": lambda x: F.nll_loss(x[0], torch.tensor([2])),
}


@pytest.mark.parametrize("name", WORKS)
def test_a_recorded_gradient_can_be_differentiated_again_and_gives_zeros(name):
    x = torch.rand(1, 1, 8, requires_grad=True)
    (g,) = torch.autograd.grad(WORKS[name](x).sum(), x, create_graph=True)
    assert g.requires_grad
    g.sum().backward()
    assert not x.grad.any()
    assert x.grad.shape == x.shape
    (plain,) = torch.autograd.grad(WORKS[name](x).sum(), x)
    assert not plain.requires_grad
    assert plain.tolist() == g.tolist()


def test_zeros_go_on_to_where_the_input_came_from():
    x = torch.rand(1, 1, 8, requires_grad=True)
    inside = x.exp()
    (g,) = torch.autograd.grad(F.max_pool1d(inside, 2).sum(), inside, create_graph=True)
    (again,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    assert not again.any()
    other, one = torch.autograd.grad((g * x).sum(), [inside, x])
    assert not other.any()
    assert one.tolist() == g.tolist()


def test_under_no_grad_and_inside_transforms_nothing_is_added():
    x = torch.rand(1, 1, 8, requires_grad=True)
    node = F.max_pool1d(x, 2).grad_fn
    with torch.no_grad():
        assert not node(torch.ones(1, 1, 4)).requires_grad
    pooled = lambda x: F.max_pool1d(x, 2).sum()  # noqa: E731 (a function of a line)
    inner = torch.func.grad(pooled)
    assert not torch.func.grad(lambda x: inner(x).sum())(x.detach()).any()


@pytest.mark.parametrize("of", ["input", "weight", "bias"])
def test_gradients_of_a_convolution_lead_to_all_that_torchs_rule_takes(of):
    x, w, b = (torch.rand(shape, requires_grad=True) for shape in ((1, 2, 8), (3, 2, 3), (3,)))
    given = {"input": x, "weight": w, "bias": b}
    (g,) = torch.autograd.grad(F.conv1d(x, w, b).sum(), given[of], create_graph=True)
    assert g.requires_grad
    for one in torch.autograd.grad(g.sum(), [x, w], allow_unused=True):
        assert one is None or one.isfinite().all()
    only = torch.rand(3, requires_grad=True)
    made = F.conv1d(x.detach(), w.detach(), only).sum()
    assert not torch.autograd.grad(made, only, create_graph=True)[0].requires_grad


def test_the_gradient_of_a_norms_bias_leads_to_its_input():
    x, w, b = (torch.rand(shape, requires_grad=True) for shape in ((2, 4), (4,), (4,)))
    (g,) = torch.autograd.grad(F.layer_norm(x, (4,), w, b).sum(), b, create_graph=True)
    zeros = torch.autograd.grad(g.sum(), [x, w, b])
    assert [tuple(one.shape) for one in zeros] == [(2, 4), (4,), (4,)]
    assert not any(one.any() for one in zeros)
