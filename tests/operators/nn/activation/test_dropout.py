"""Dropout: what is kept, what it becomes, and that seeds decide."""

import numpy
import pytest

import pullback as torch

functional = torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_elements_vanish_with_probability_p_and_the_rest_is_scaled():
    y = functional.dropout(torch.ones(100, 100), 0.25)
    assert numpy.unique(y.numpy()).tolist() == pytest.approx([0, 4 / 3])
    assert (y == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)


def test_the_gradient_passes_where_the_value_does():
    x = torch.ones(50, requires_grad=True)
    y = functional.dropout(x, 0.5)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y)


def test_the_same_seed_drops_the_same_elements():
    x = torch.ones(50)
    torch.manual_seed(3)
    first = functional.dropout(x)
    assert not torch.equal(functional.dropout(x), first)
    torch.manual_seed(3)
    assert torch.equal(functional.dropout(x), first)


@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True)])
def test_nothing_to_drop_gives_the_tensor_itself(p, training):
    x = torch.ones(3, requires_grad=True)
    assert functional.dropout(x, p, training) is x
    assert functional.alpha_dropout(x, p, training) is x


def test_everything_dropped_is_zero_with_zero_gradient():
    x = torch.ones(3, requires_grad=True)
    y = functional.dropout(x, 1.0)
    assert y.tolist() == [0, 0, 0]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 0]


def test_in_place_dropout_writes_its_input():
    x = torch.ones(50, requires_grad=True)
    y = x * 1
    assert functional.dropout(y, 0.5, inplace=True) is y
    assert 0 in y
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach())


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (functional.dropout1d, (20, 10, 4)),
        (functional.dropout2d, (20, 10, 4, 3)),
        (functional.dropout3d, (20, 10, 4, 3, 2)),
        (functional.feature_alpha_dropout, (20, 10, 4, 3)),
    ],
)
def test_channels_are_kept_or_dropped_as_a_whole(function, shape):
    y = function(torch.ones(shape), 0.5, training=True).numpy().reshape(200, -1)
    assert (y == y[:, :1]).all()
    assert 50 < (y[:, 0] == y.max()).sum() < 150


def test_dropout1d_takes_one_example_without_a_batch():
    y = functional.dropout1d(torch.ones(100, 4), 0.5)
    assert y.shape == (100, 4)
    assert (y == y[:, :1]).all()


def test_alpha_dropout_keeps_mean_and_variance():
    x = torch.randn(200, 200)
    y = functional.alpha_dropout(x, 0.3, training=True)
    assert y.mean().item() == pytest.approx(0, abs=0.03)
    assert y.std().item() == pytest.approx(1, abs=0.03)


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        functional.dropout(torch.ones(1), 1.5)
    with pytest.raises(RuntimeError, match="int64"):
        functional.dropout(torch.tensor([1]))
    with pytest.raises(TypeError, match="Tensor"):
        functional.dropout(1.0)
    with pytest.raises(RuntimeError, match="2 or 3"):
        functional.dropout1d(torch.ones(2, 2, 2, 2))
    with pytest.warns(UserWarning, match="4 dimensions"):
        functional.dropout2d(torch.ones(2, 3, 4))


@pytest.mark.parametrize(
    "name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"]
)
def test_top_level_forms_must_be_told_whether_to_train_and_write_with_an_underscore(name):
    x = torch.ones(4, 5)
    assert getattr(torch, name)(x, 0.5, False) is x
    with pytest.raises(TypeError, match="train"):
        getattr(torch, name)(x, 0.5)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        getattr(torch, name)(x, 2.0, True)
    y = torch.ones(40, 5)
    assert getattr(torch, f"{name}_")(y, 0.5, True) is y
    assert not y.equal(torch.ones(40, 5))


def test_native_dropout_returns_its_mask_and_scales_by_it():
    x = torch.ones(1000, requires_grad=True)
    out, mask = torch.native_dropout(x, 0.25, None)
    assert mask.dtype is torch.bool
    assert torch.allclose(out, mask.to(torch.float32) / 0.75)
    out.sum().backward()
    assert torch.allclose(x.grad, out.detach())
    kept, everything = torch.native_dropout(x, 0.25, False)
    assert everything.all()
    assert kept.equal(x)
