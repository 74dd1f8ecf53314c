"""Tensors of modules that are computed from others."""

import copy
import gc
import weakref

import pytest

import pullback as torch
from pullback import nn
from pullback.nn.utils import parametrizations, parametrize, prune


class Squared(nn.Module):
    def forward(self, x):
        return x * x

    def right_inverse(self, y):
        return y.sqrt()


def test_what_is_trained_is_the_original():
    layer = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(4.0)
    parametrize.register_parametrization(layer, "weight", Squared())
    assert layer.weight.item() == 4.0
    assert layer.parametrizations.weight.original.item() == 2.0
    layer(torch.ones(1, 1)).backward()
    assert layer.parametrizations.weight.original.grad.item() == 4.0
    assert [name for name, _ in layer.named_parameters()] == ["parametrizations.weight.original"]


def test_buffers_can_be_parametrized():
    module = nn.Module()
    module.register_buffer("b", torch.full((1,), 9.0))
    parametrize.register_parametrization(module, "b", Squared())
    assert module.b.item() == 9.0
    parametrize.remove_parametrizations(module, "b")
    assert module._buffers["b"].item() == 9.0


def test_modules_of_one_class_have_classes_of_their_own():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(one, "weight", Squared(), unsafe=True)
    assert not parametrize.is_parametrized(other)
    assert type(other) is nn.Linear
    assert isinstance(one, nn.Linear)
    again = copy.deepcopy(one)
    parametrize.remove_parametrizations(again, "weight")
    assert parametrize.is_parametrized(one)


def test_parametrized_modules_go_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        layer = parametrizations.spectral_norm(nn.Linear(3, 3))
        mark = weakref.ref(layer)
        layer(torch.ones(1, 3)).sum().backward()
        del layer
        assert mark() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("training", [True, False])
def test_spectral_norm_bounds_the_largest_singular_value(training):
    torch.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(6, 4), n_power_iterations=20).train(training)
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, abs=1e-2)


def test_orthogonal_layers_stay_orthogonal_while_they_are_trained():
    torch.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(4, 3).double())
    for _ in range(3):
        layer(torch.randn(5, 4).double()).square().sum().backward()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.sub_(0.1 * parameter.grad)
        layer.zero_grad()
    weight = layer.weight
    assert torch.allclose(weight @ weight.mT, torch.eye(3, dtype=torch.float64))


def test_pruned_elements_stay_zero_while_the_others_are_trained():
    layer = prune.l1_unstructured(nn.Linear(4, 2), "weight", 3)
    hidden = layer.weight == 0
    layer(torch.ones(1, 4)).sum().backward()
    with torch.no_grad():
        layer.weight_orig.sub_(layer.weight_orig.grad)
    layer(torch.ones(1, 4))
    assert bool((layer.weight[hidden] == 0).all())
    assert int(hidden.sum()) == 3
    assert not layer.weight_orig.grad[hidden].any()
