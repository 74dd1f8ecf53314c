"""Weight and bias of a layer are found as its attributes are, however they are kept."""

import pullback as torch
from pullback.nn.base.weights import weight_and_bias
from pullback.nn.utils import parametrize


def test_parameters_are_found():
    layer = torch.nn.Linear(2, 3)
    weight, bias = weight_and_bias(layer)
    assert weight is layer.weight
    assert bias is layer.bias
    assert weight_and_bias(torch.nn.Linear(2, 3, bias=False))[1] is None


def test_a_computed_weight_is_asked_for_as_an_attribute():
    class Doubled(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    layer = torch.nn.Linear(2, 3)
    plain = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    weight, bias = weight_and_bias(layer)
    assert torch.equal(weight, 2 * plain)
    assert bias is layer.bias
    x = torch.ones(1, 2)
    assert torch.allclose(layer(x), x @ (2 * plain).T + bias)


def test_a_weight_that_became_a_plain_attribute_is_used():
    layer = torch.nn.LayerNorm(2)
    del layer.weight
    layer.weight = torch.tensor([3.0, 4.0])
    assert weight_and_bias(layer)[0] is layer.weight
    assert torch.allclose(
        layer(torch.tensor([[1.0, -1.0]])), torch.tensor([[3.0, -4.0]]), atol=1e-4
    )


def test_a_replaced_parameter_is_used():
    layer = torch.nn.Conv1d(1, 1, 1)
    swapped = {"weight": torch.full((1, 1, 1), 5.0), "bias": torch.zeros(1)}
    made = torch.func.functional_call(layer, swapped, (torch.ones(1, 1, 2),))
    assert made.flatten().tolist() == [5.0, 5.0]
