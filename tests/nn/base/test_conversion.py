"""Changing all parameters and buffers of a module."""

import pytest

import pullback as torch
from pullback import nn


def test_meta_modules_get_memory():
    with torch.device("meta"):
        layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert all(one.is_meta for one in (*layer.parameters(), *layer.buffers()))
    layer.to_empty(device="cpu")
    assert not any(one.is_meta for one in (*layer.parameters(), *layer.buffers()))
    for module in layer:
        module.reset_parameters()
    assert layer(torch.ones(4, 2)).shape == (4, 3)
    assert layer[0].weight.is_leaf
    assert layer[0].weight.requires_grad


def test_memory_format_applies_to_images_only():
    layer = nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert layer.bias.is_contiguous()


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules"):
        layer = nn.Linear(1, 1).to(torch.complex64)
    assert layer.weight.dtype == torch.complex64


def test_overwriting_makes_new_parameters():
    layer = nn.Linear(1, 1)
    before = layer.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not before
    assert before.dtype == torch.float32


def test_swap_tensors_changes_places():
    a, b = nn.Parameter(torch.zeros(1)), torch.ones(2)
    a.note = "a"
    torch.utils.swap_tensors(a, b)
    assert type(a) is torch.Tensor
    assert isinstance(b, nn.Parameter)
    assert b.note == "a"
    assert b.requires_grad


def meant(*args, **kwargs):
    return nn.Linear(2, 2).to(*args, **kwargs).weight.dtype


def test_a_module_is_converted_by_each_form_of_to():
    wide = torch.float64
    assert meant() is meant("cpu") is meant(None) is meant("cpu", None, True) is torch.float32
    assert meant(wide) is meant("cpu", wide) is meant("cpu", wide, True) is wide
    assert meant(wide, True) is meant(dtype=wide, non_blocking=True) is meant(float) is wide
    assert (
        meant(torch.ones(1, dtype=wide))
        is meant(
            tensor=torch.ones(1, dtype=wide),
        )
        is wide
    )


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"copy": True}),
        ((), {"copy": False}),
        (("cpu",), {"copy": True}),
        (("cpu", torch.float64, True, True), {}),
        ((torch.float64, True, True), {}),
        ((torch.ones(1), True, True), {}),
    ],
)
def test_a_module_is_not_copied_by_to(args, kwargs):
    with pytest.raises(RuntimeError, match="copy"):
        nn.Linear(2, 2).to(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cpu", True), {}),
        (("cpu", "float"), {}),
        ((torch.float64, "cpu"), {}),
        ((torch.ones(1), torch.float64), {}),
        (("cpu",), {"device": "cpu"}),
        ((torch.float64,), {"device": "cpu"}),
        ((), {"non_blocking": 1}),
        ((), {"other": torch.ones(1)}),
        ((), {"foo": 1}),
        ((True,), {}),
    ],
)
def test_what_to_cannot_mean_is_a_type_error(args, kwargs):
    with pytest.raises(TypeError):
        nn.Linear(2, 2).to(*args, **kwargs)
