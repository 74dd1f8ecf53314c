"""Losses under `torch.ops.aten` and `torch._C._nn`, whose reduction is a number."""

import pytest

import pullback
from pullback.library.builtin.losses import LOSSES

torch = pytest.importorskip("torch")

X = [[0.1, 0.7], [0.3, 0.2]]
Y = [[0.0, 1.0], [1.0, 0.0]]
CLASSES = ["nll_loss", "nll_loss_nd", "nll_loss2d", "cross_entropy_loss", "multi_margin_loss"]


def called(lib, name, reduction):
    x, y = lib.tensor(X), lib.tensor(Y)
    if name in CLASSES:
        y = lib.tensor([1, 0])
    elif name == "multilabel_margin_loss":
        y = lib.tensor([[1, -1], [0, 1]])
    if name == "nll_loss2d":
        x, y = x[:, :, None, None], y[:, None, None]
    raw = getattr(lib._C._nn, name)(x, y, reduction=reduction)
    assert raw.tolist() == getattr(lib.ops.aten, name).default(x, y, reduction=reduction).tolist()
    return raw


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_reductions_are_numbers(name, reduction):
    got, wanted = called(pullback, name, reduction), called(torch, name, reduction)
    assert tuple(got.shape) == tuple(wanted.shape)
    assert got.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_schemas_are_those_of_torch(name):
    ours, theirs = (getattr(lib.ops.aten, name).default._schema for lib in (pullback, torch))
    assert str(ours) == str(theirs)


def test_other_numbers_are_refused():
    with pytest.raises(ValueError, match="3 is no reduction"):
        pullback.ops.aten.mse_loss(pullback.ones(2), pullback.ones(2), 3)


def test_modes_see_the_squared_error_as_in_torch():
    def seen(lib):
        module = pytest.importorskip(f"{lib.__name__}.utils._python_dispatch")
        calls = []

        class Noting(module.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                calls.append((str(func), args[2:]))
                return func(*args, **(kwargs or {}))

        x, y = lib.ones(2), lib.zeros(2)
        with Noting():
            for reduction in ("none", "mean", "sum"):
                lib.nn.functional.mse_loss(x, y, reduction=reduction)
        return calls

    assert seen(pullback) == seen(torch)
