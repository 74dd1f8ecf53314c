"""Fake tensors: shapes without data that stay on their device."""

import pytest
from pullback._subclasses import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

import pullback as torch


@pytest.fixture
def mode():
    return FakeTensorMode()


@pytest.fixture
def x(mode):
    return mode.from_tensor(torch.ones(2, 3, requires_grad=True))


def test_tensors_made_in_the_mode_are_fake(mode):
    with mode:
        for made in (torch.empty(2), torch.rand(2), torch.tensor([1.0, 2.0]), torch.arange(2)):
            assert type(made) is FakeTensor
            assert made.fake_mode is mode
            assert made.device == torch.device("cpu")
            assert not made.is_meta
        assert type(torch.empty(2, device="meta")) is torch.Tensor
    assert type(torch.empty(2)) is torch.Tensor


def test_fake_copy_has_the_metadata_of_the_real_one(x):
    assert (x.shape, x.dtype, x.stride()) == ((2, 3), torch.float32, (3, 1))
    assert x.requires_grad
    assert x.is_leaf
    assert repr(x) == "FakeTensor(..., size=(2, 3), requires_grad=True)"


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x @ x.t(),
        lambda x: x * 2 + 1,
        lambda x: x.view(-1)[1:],
        lambda x: torch.cat([x, x]),
        lambda x: x.to(torch.float64),
        lambda x: x.max(1).indices,
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        lambda x: x.detach(),
        lambda x: x.clone().add_(1),
    ],
)
def test_results_are_fake_with_the_metadata_of_real_ones(x, compute):
    made, real = compute(x), compute(torch.ones(2, 3))
    assert type(made) is FakeTensor
    assert (made.shape, made.dtype, made.stride(), made.device) == (
        real.shape,
        real.dtype,
        real.stride(),
        real.device,
    )


def test_gradients_are_fake(x):
    (x @ x.t()).exp().sum().backward()
    assert type(x.grad) is FakeTensor
    assert x.grad.shape == (2, 3)


@pytest.mark.parametrize(
    "read", [lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: x.numpy(), lambda x: bool(x)]
)
def test_values_are_refused(x, read):
    with pytest.raises(DataDependentOutputException, match="no data"):
        read(x)


def test_shapes_that_depend_on_values_are_refused(x):
    with pytest.raises(DynamicOutputShapeException, match="nonzero"):
        x.nonzero()


def test_real_tensors_do_not_mix_unless_allowed(mode, x):
    real = torch.ones(2, 3)
    with pytest.raises(AssertionError, match="from_tensor"):
        x + real
    with mode, pytest.raises(AssertionError, match="from_tensor"):
        real + 1
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(real + 1) is FakeTensor


def test_custom_operator_runs_its_fake(x):
    """C-48."""

    @torch.library.custom_op("fake_tests::first", mutates_args=())
    def first(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("the kernel must not see fake tensors")

    with pytest.raises(RuntimeError, match="register_fake"):
        first(x.detach())
    first.register_fake(lambda x: x.new_empty(x.shape[:1]))
    made = first(x.detach())
    assert (type(made), made.shape, made.device.type) == (FakeTensor, (2,), "cpu")
