"""Losses of class indices: of many scores, by machine code where that is installed, as of few."""

import numpy
import pytest

import pullback as torch

F = torch.nn.functional
ROWS, CLASSES = 64, 48  # so many that machine code is asked for


def scores(scale=1.0):
    rng = numpy.random.default_rng(7)
    return torch.tensor(scale * rng.standard_normal((ROWS, CLASSES)), dtype=torch.float32)


def targets():
    return torch.tensor(numpy.random.default_rng(8).integers(0, CLASSES, ROWS))


def by_hand(x, target):
    x = x.double().numpy()
    top = x.max(1, keepdims=True)
    sums = numpy.log(numpy.exp(x - top).sum(1)) + top[:, 0]
    return sums - x[numpy.arange(len(x)), target.numpy()]


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_many_scores_have_the_losses_of_each(reduction, scale):
    x, target = scores(scale).requires_grad_(), targets()
    losses = by_hand(x.detach(), target)
    expected = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]
    found = F.cross_entropy(x, target, reduction=reduction)
    numpy.testing.assert_allclose(found.detach().numpy(), expected, rtol=2e-5, atol=1e-5)
    (slopes,) = torch.autograd.grad(found.sum(), x)
    assert torch.allclose(slopes.sum(1), torch.zeros(ROWS), atol=1e-5)


@pytest.mark.parametrize("ignored", [-100, 3, -1])
def test_ignored_targets_count_for_nothing(ignored):
    x, target = scores().requires_grad_(), targets()
    target[::5] = ignored
    found = F.cross_entropy(x, target, ignore_index=ignored)
    kept = (target != ignored).numpy()
    expected = by_hand(x.detach()[kept], target[kept]).mean()
    assert abs(found.item() - expected) < 1e-5
    (slopes,) = torch.autograd.grad(found, x)
    assert not slopes.numpy()[~kept].any()


@pytest.mark.parametrize("wrong", [CLASSES, -1])
def test_targets_that_name_no_class_are_refused(wrong):
    target = targets()
    target[5] = wrong
    with pytest.raises(IndexError, match=str(wrong)):
        F.cross_entropy(scores(), target)


def test_a_hidden_class_has_no_share():
    x, target = scores(), targets()
    target[target == 0] = 1
    x[:, 0] = -float("inf")
    x.requires_grad_()
    loss = F.cross_entropy(x, target)
    (slopes,) = torch.autograd.grad(loss, x)
    assert torch.isfinite(loss)
    assert not slopes[:, 0].any()
    assert torch.isfinite(slopes).all()


def test_second_derivatives_of_many_scores_are_those_of_the_formula():
    x, target = scores().double().requires_grad_(), targets()
    (first,) = torch.autograd.grad(F.cross_entropy(x, target), x, create_graph=True)
    v = scores(2.0).double()
    (found,) = torch.autograd.grad(first, x, v)
    shares = x.detach().softmax(1)
    expected = (shares * (v - (shares * v).sum(1, keepdim=True))) / ROWS
    assert torch.allclose(found, expected, atol=1e-12)
