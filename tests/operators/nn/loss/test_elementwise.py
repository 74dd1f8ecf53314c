"""Losses: values by definition, reductions, classes that do not count, and what is refused."""

import itertools
import math

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.arrays.blocks import BLOCK

functional = torch.nn.functional
inf = math.inf


def randn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


def classes(*values):
    return torch.tensor(values, dtype=torch.int64)


def log_probabilities(x, dim=1):
    top = x.max(dim, keepdims=True)
    return x - top - numpy.log(numpy.exp(x - top).sum(dim, keepdims=True))


# Cross entropy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 100])
def test_cross_entropy_is_minus_the_log_probability_of_the_class(scale):
    x = randn(5, 3).detach() * scale
    target = [0, 2, 1, 1, 0]
    expected = -log_probabilities(x.numpy())[numpy.arange(5), target]
    losses = functional.cross_entropy(x, classes(*target), reduction="none")
    numpy.testing.assert_allclose(losses.numpy(), expected, rtol=1e-12, atol=1e-13)
    mean = functional.cross_entropy(x, classes(*target))
    assert mean.item() == pytest.approx(expected.mean())
    total = functional.cross_entropy(x, classes(*target), reduction="sum")
    assert total.item() == pytest.approx(expected.sum())


def test_cross_entropy_is_nll_loss_of_log_softmax_with_its_gradient():
    x, target = randn(6, 4, 5), torch.tensor(numpy.arange(30).reshape(6, 5) % 4)
    weight = randn(4, seed=1).detach().abs()
    for reduction in ("mean", "sum", "none"):
        options = {"weight": weight, "ignore_index": 2, "reduction": reduction}
        fused = functional.cross_entropy(x, target, **options)
        composed = functional.nll_loss(torch.log_softmax(x, 1), target, **options)
        numpy.testing.assert_allclose(fused.detach().numpy(), composed.detach().numpy())
        (one,) = torch.autograd.grad(fused.sum(), x)
        (other,) = torch.autograd.grad(composed.sum(), x)
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 2), (2, 3, 2, 2)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_derivatives_of_both_orders_hold(shape, reduction):
    x = randn(*shape)
    where = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = torch.tensor(numpy.arange(math.prod(where)).reshape(where) % 3)

    def loss(x):
        return functional.cross_entropy(x, target, reduction=reduction)

    assert gradcheck(loss, (x,))
    assert gradgradcheck(loss, (x,))


def test_probabilities_and_smoothing_are_derived_in_target_as_well():
    x, target = randn(4, 3), randn(4, 3, seed=1).detach().abs().requires_grad_()
    assert gradgradcheck(
        lambda *given: functional.cross_entropy(*given, label_smoothing=0.2), (x, target)
    )


def test_one_hot_probabilities_mean_their_classes():
    x, target = randn(4, 3), classes(0, 2, 1, 1)
    by_index = functional.cross_entropy(x, target)
    by_probability = functional.cross_entropy(x, functional.one_hot(target).double())
    assert by_index.item() == pytest.approx(by_probability.item())
    smooth = functional.cross_entropy(x, target, label_smoothing=0.3)
    smooth_probability = functional.cross_entropy(
        x, functional.one_hot(target).double(), label_smoothing=0.3
    )
    assert smooth.item() == pytest.approx(smooth_probability.item())


def test_ignored_classes_neither_count_nor_get_a_gradient():
    x, target = randn(3, 2), classes(0, -100, 1)
    loss = functional.cross_entropy(x, target)
    assert loss.item() == pytest.approx(
        functional.cross_entropy(x.detach()[[0, 2]], classes(0, 1)).item()
    )
    (gradient,) = torch.autograd.grad(loss, x)
    assert gradient[1].tolist() == [0, 0]
    assert functional.cross_entropy(x, classes(-100, -100, -100)).isnan()
    assert functional.cross_entropy(x, classes(-100, -100, -100), reduction="sum").item() == 0


def test_an_infinite_score_of_an_ignored_example_does_not_show():
    scores = torch.tensor([[-inf, 0.0], [1.0, 2.0]])
    losses = functional.nll_loss(scores, classes(-100, 1), reduction="none")
    assert losses.tolist() == [0, -2]


def test_single_precision_keeps_the_digits_of_a_small_loss():
    scores = torch.tensor([[30.0, 20.0]])
    expected = math.log1p(math.exp(-10))
    loss = functional.cross_entropy(scores, classes(0)).item()
    assert loss == pytest.approx(expected, abs=2e-7)


def test_blocks_do_not_show_in_cross_entropy():
    x = randn(70, BLOCK // 60)
    target = torch.tensor(numpy.arange(70))
    losses = functional.cross_entropy(x, target, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    part = x.detach()[40:43].requires_grad_()
    alone = functional.cross_entropy(part, target[40:43], reduction="none")
    (of_part,) = torch.autograd.grad(alone.sum(), part)
    numpy.testing.assert_allclose(losses[40:43].tolist(), alone.tolist(), rtol=1e-12)
    numpy.testing.assert_allclose(gradient[40:43].numpy(), of_part.numpy(), rtol=1e-12)


# Pairs --------------------------------------------------------------------------------------------


def test_mse_loss_is_the_mean_of_squares_with_gradients_for_both():
    x, y = randn(3, 4), randn(3, 4, seed=1)
    difference = (x - y).detach().numpy()
    assert functional.mse_loss(x, y).item() == pytest.approx((difference**2).mean())
    for reduction in ("mean", "sum", "none"):
        assert gradgradcheck(
            lambda *given, r=reduction: functional.mse_loss(*given, reduction=r), (x, y)
        )


def test_huber_loss_bends_where_the_difference_is_delta():
    x = torch.tensor([0.5, 1.0, 3.0, -3.0], requires_grad=True)
    losses = functional.huber_loss(x, torch.zeros(4), reduction="none", delta=1.0)
    assert losses.tolist() == [0.125, 0.5, 2.5, 2.5]
    assert torch.autograd.grad(losses.sum(), x)[0].tolist() == [0.5, 1, 1, -1]
    smooth = functional.smooth_l1_loss(x, torch.zeros(4), reduction="none", beta=2.0)
    assert smooth.tolist() == [0.0625, 0.25, 2.0, 2.0]


def test_binary_cross_entropy_with_logits_is_that_of_the_sigmoid():
    x, t = randn(5), randn(5, seed=1).sigmoid().detach()
    direct = functional.binary_cross_entropy_with_logits(x, t)
    by_sigmoid = functional.binary_cross_entropy(x.sigmoid(), t)
    assert direct.item() == pytest.approx(by_sigmoid.item())
    (one,) = torch.autograd.grad(direct, x)
    (other,) = torch.autograd.grad(by_sigmoid, x)
    numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10)


def test_logits_far_from_zero_do_not_overflow():
    x = torch.tensor([1000.0, -1000.0])
    losses = functional.binary_cross_entropy_with_logits(x, torch.zeros(2), reduction="none")
    assert losses.tolist() == [1000, 0]


def test_weights_of_mse_loss_divide_its_mean():
    x, y, w = torch.tensor([1.0, 3.0]), torch.zeros(2), torch.tensor([3.0, 1.0])
    assert functional.mse_loss(x, y, weight=w).item() == 3.0


def test_old_arguments_name_the_reduction_and_warn():
    x = torch.tensor([1.0, 3.0])
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert functional.mse_loss(x, torch.zeros(2), size_average=False).item() == 10
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert functional.mse_loss(x, torch.zeros(2), reduce=False).tolist() == [1, 9]


def test_shapes_that_broadcast_warn():
    with pytest.warns(UserWarning, match="same size"):
        functional.mse_loss(torch.ones(2, 3), torch.ones(3))


def test_a_batch_mean_divides_by_the_batch():
    x, t = torch.zeros(4, 2), torch.full((4, 2), 0.5)
    total = functional.kl_div(x, t, reduction="sum")
    assert functional.kl_div(x, t, reduction="batchmean").item() == total.item() / 4
    with pytest.warns(UserWarning, match="batchmean"):
        functional.kl_div(x, t)


def test_ctc_loss_adds_up_all_paths_that_spell_the_target():
    frames = randn(3, 3).detach()
    probabilities = torch.softmax(frames, -1).numpy()
    total = 0.0
    for path in itertools.product(range(3), repeat=3):
        spelt = [label for label, _ in itertools.groupby(path) if label]
        if spelt == [1, 2]:
            total += math.prod(probabilities[t, label] for t, label in enumerate(path))
    scores = torch.log_softmax(frames, -1)
    loss = functional.ctc_loss(scores, classes(1, 2), (3,), (2,), reduction="sum")
    assert loss.item() == pytest.approx(-math.log(total))


def test_ctc_gradient_reaches_the_scores_and_ends_there():
    x = randn(4, 2, 3)

    def loss(x):
        scores = torch.log_softmax(x, -1)
        return functional.ctc_loss(scores, torch.tensor([[1, 2], [2, 2]]), (4, 4), (2, 2))

    assert gradcheck(loss, (x,))
    (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no derivative"):
        torch.autograd.grad(gradient.sum(), x)


def test_impossible_targets_cost_infinity_or_nothing():
    scores = torch.log_softmax(randn(2, 1, 3), -1)
    arguments = (scores, torch.tensor([[1, 1]]), (2,), (2,))
    assert functional.ctc_loss(*arguments, reduction="sum").item() == inf
    spared = functional.ctc_loss(*arguments, reduction="sum", zero_infinity=True)
    assert spared.item() == 0


scores = torch.ones(3, 4)
REFUSED = [
    (ValueError, "target must have", lambda: functional.cross_entropy(scores, classes(0, 1))),
    (IndexError, "Target 5", lambda: functional.cross_entropy(scores, classes(0, 1, 5))),
    (IndexError, "Target -1", lambda: functional.nll_loss(scores, classes(0, 1, -1))),
    (RuntimeError, "int64", lambda: functional.cross_entropy(scores, torch.ones(3))),
    (RuntimeError, "probabilities", lambda: functional.cross_entropy(scores, scores.long())),
    (RuntimeError, "0 or 1 dimensions", lambda: functional.cross_entropy(scores, torch.ones(3, 5))),
    (
        RuntimeError,
        "one element for each",
        lambda: functional.cross_entropy(scores, classes(0, 1, 2), torch.ones(3)),
    ),
    (
        RuntimeError,
        "label_smoothing",
        lambda: functional.cross_entropy(scores, classes(0, 1, 2), label_smoothing=2.0),
    ),
    (ValueError, "reduction", lambda: functional.mse_loss(scores, scores, reduction="all")),
    (NotImplementedError, "int64", lambda: functional.mse_loss(scores.long(), scores.long())),
    (RuntimeError, "between 0 and 1", lambda: functional.binary_cross_entropy(scores * 2, scores)),
    (ValueError, "shape of input", lambda: functional.binary_cross_entropy(scores, scores[0])),
    (RuntimeError, "delta", lambda: functional.huber_loss(scores, scores, delta=0.0)),
    (RuntimeError, "beta", lambda: functional.smooth_l1_loss(scores, scores, beta=-1.0)),
    (ValueError, "negative", lambda: functional.gaussian_nll_loss(scores, scores, -scores)),
    (ValueError, "p must be", lambda: functional.multi_margin_loss(scores, classes(0, 1, 2), p=3)),
    (
        ValueError,
        "margin",
        lambda: functional.triplet_margin_loss(scores, scores, scores, margin=-1),
    ),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


# Few and many -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"]
)
@pytest.mark.parametrize("shape", [(), (3,), (BLOCK + 5,)])
def test_few_and_many_elements_give_the_same_losses(name, shape):
    x, t = randn(*shape).detach() * 3, randn(*shape, seed=1).detach()
    function = getattr(functional, name)
    losses = function(x, t, reduction="none")
    one_by_one = [function(a, b) for a, b in zip(x.reshape(-1)[:3], t.reshape(-1)[:3], strict=True)]
    found = losses.reshape(-1)[:3].tolist()
    assert found == pytest.approx([one.item() for one in one_by_one], rel=1e-12)


def test_the_slope_of_huber_loss_is_bent_at_the_limit_and_so_constant_beyond():
    x = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0], requires_grad=True)
    losses = functional.huber_loss(x, torch.zeros(7), reduction="sum")
    (slope,) = torch.autograd.grad(losses, x, create_graph=True)
    assert slope.tolist() == [-1, -1, -0.5, 0, 0.5, 1, 1]
    assert torch.autograd.grad(slope.sum(), x)[0].tolist() == [0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(4, 3), (40, 3), (4, 50)])
@pytest.mark.parametrize("scale", [1, 100])
def test_few_and_many_scores_give_the_same_cross_entropy_and_gradient(shape, scale, reduction):
    x = (randn(*shape).detach() * scale).requires_grad_()
    target = torch.tensor(numpy.random.default_rng(1).integers(0, shape[1], shape[0]))
    loss = functional.cross_entropy(x, target, reduction=reduction)
    composed = functional.nll_loss(torch.log_softmax(x, 1), target, reduction=reduction)
    seed = randn(*loss.shape, seed=2).detach()
    for a, b in (
        (loss, composed),
        (torch.autograd.grad(loss, x, seed)[0], torch.autograd.grad(composed, x, seed)[0]),
    ):
        numpy.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12 * scale
        )


@pytest.mark.parametrize("function", [functional.cross_entropy, functional.nll_loss])
def test_a_target_that_is_no_tensor_is_refused(function):
    with pytest.raises(TypeError, match="tensors"):
        function(randn(2, 3), [0, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "nll_loss", "cross_entropy"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_long_sums_of_half_precision_are_made_in_single(dtype, name, reduction):
    rows = 3000  # ones would be summed to 2,048 in float16, and to 256 in bfloat16
    x = torch.full((rows, 2), -0.75, dtype=torch.float64)
    target = torch.zeros(rows, dtype=torch.int64) if name[0] in "nc" else x + 1
    function = getattr(functional, name)
    expected = function(x, target, reduction=reduction).item()
    kind = getattr(torch, dtype)
    given = target.to(kind) if target.is_floating_point() else target
    assert function(x.to(kind), given, reduction=reduction).item() == pytest.approx(
        expected, rel=0.01
    )


def test_the_class_to_ignore_may_be_a_tensor_of_one_integer():
    """It was compared as it stood, and failed inside; what is no integer is told."""
    scores, target = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]), torch.tensor([0, 2])
    for loss in (torch.nn.functional.cross_entropy, torch.nn.functional.nll_loss):
        expected = loss(scores, target, ignore_index=2)
        assert torch.equal(loss(scores, target, ignore_index=torch.tensor(2)), expected)
        with pytest.raises(TypeError, match="ignore_index"):
            loss(scores, target, ignore_index=1.5)
