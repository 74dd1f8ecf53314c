"""Fake tensors: shapes without data that stay on their device."""

import gc

import pytest
from pullback._subclasses import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
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
        assert type(torch.empty(2, device="meta")) is FakeTensor
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


def test_numbers_that_a_program_writes_down_can_be_asked_for():
    """Until somebody writes to them, or could."""
    with FakeTensorMode():
        four = torch.tensor(4.0)
        assert (four.item(), float(four), int(four), bool(four)) == (4.0, 4.0, 4, True)
        assert type(four + 1) is FakeTensor
        assert four.item() == 4.0
        with pytest.raises(DataDependentOutputException):
            (four + 1).item()
        four.add_(1)
        with pytest.raises(DataDependentOutputException):
            four.item()
        viewed = torch.tensor([4.0])
        viewed.view(1).fill_(7)
        with pytest.raises(DataDependentOutputException):
            viewed.item()
        with pytest.raises(DataDependentOutputException):
            torch.tensor([1.0, 2.0]).sum().item()


def test_a_tensor_has_one_fake_of_a_mode_and_a_parameter_stays_one():
    mode = FakeTensorMode()
    x = torch.ones(2)
    fake = mode.from_tensor(x)
    assert mode.from_tensor(x) is fake
    assert FakeTensorMode().from_tensor(x) is not fake
    assert mode.from_tensor(fake) is fake
    assert not isinstance(fake, torch.nn.Parameter)
    assert isinstance(mode.from_tensor(torch.nn.Parameter(x)), torch.nn.Parameter)
    x.requires_grad_()
    assert mode.from_tensor(x).requires_grad
    del x, fake
    gc.collect()
    assert not mode._known


def test_fakes_of_two_modes_do_not_meet():
    one, other = (FakeTensorMode().from_tensor(torch.ones(2)) for _ in range(2))
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        one + other


def test_the_mode_takes_torchs_options():
    mode = FakeTensorMode(allow_fallback_kernels=False, shape_env=object(), export=True)
    assert not mode.static_shapes
    assert FakeTensorMode().static_shapes
    assert FakeTensorMode(shape_env=object(), static_shapes=True).static_shapes


def test_tensors_made_the_old_way_are_fake_too():
    with FakeTensorMode() as mode:
        data, size, typed = torch.Tensor([1, 2]), torch.Tensor(2, 3), torch.DoubleTensor([1])
    for made, shape in ((data, (2,)), (size, (2, 3)), (typed, (1,))):
        assert isinstance(made, FakeTensor)
        assert made.fake_mode is mode
        assert tuple(made.shape) == shape
    assert typed.dtype is torch.float64


def test_numbers_alone_are_computed_with_inside_a_mode():
    with FakeTensorMode():
        half = torch.div(1, 2)
        assert torch.empty(3).mul(half).shape == (3,)
    assert half.item() == 0.5


def test_the_converter_makes_the_modes_tensors(mode, x):
    converter = mode.fake_tensor_converter
    assert isinstance(converter, FakeTensorConverter)
    fake = converter.from_real_tensor(mode, x)
    assert fake is mode.from_tensor(x) is FakeTensor.from_tensor(x, mode)
    with pytest.raises(DataDependentOutputException):
        fake.sum().item()
    assert converter.from_real_tensor(mode, torch.tensor(4.0), make_constant=True).item() == 4
    there = converter.from_meta_and_device(mode, torch.empty(2, device="meta"), "cuda")
    assert (there.device.type, there.fake_mode) == ("cuda", mode)
    with pytest.raises(AssertionError, match="meta"):
        converter.from_meta_and_device(mode, x, "cpu")
