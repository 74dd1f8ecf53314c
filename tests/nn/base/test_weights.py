"""Weight and bias of a layer are found as its attributes are, however they are kept."""

import pullback as torch
from pullback.nn.base.weights import parameter_table, weight_and_bias
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


def test_what_stands_in_the_instance_comes_before_a_parameter():
    layer = torch.nn.Linear(2, 3, bias=False)
    layer(torch.ones(1, 2))
    layer.__dict__["weight"] = torch.full((3, 2), 5.0)
    assert layer(torch.ones(1, 2)).tolist() == [[10.0] * 3]
    del layer.__dict__["weight"]
    assert weight_and_bias(layer)[0] is layer._parameters["weight"]


def test_an_attribute_of_the_class_comes_before_a_parameter():
    class Fixed(torch.nn.Linear):
        pass

    layer = Fixed(2, 3, bias=False)
    Fixed.weight = property(lambda self: torch.full((3, 2), 7.0))
    assert layer(torch.ones(1, 2)).tolist() == [[14.0] * 3]


def test_what_is_noted_of_a_class_does_not_go_to_its_subclasses():
    class Asked(torch.nn.Linear):
        def __getattribute__(self, name):
            if name == "weight" and "ready" in super().__getattribute__("__dict__"):
                return torch.full((3, 2), 9.0)
            return super().__getattribute__(name)

    torch.nn.Linear(2, 3)(torch.ones(1, 2))
    layer = Asked(2, 3, bias=False)
    layer.ready = True
    assert layer(torch.ones(1, 2)).tolist() == [[18.0] * 3]


def test_the_names_of_recurrent_layers_are_looked_for_in_the_instance():
    layer = torch.nn.LSTM(2, 3)
    names = frozenset(name for name, _ in layer.named_parameters())
    assert parameter_table(layer, names) is layer._parameters
    layer.__dict__["weight_ih_l0"] = torch.ones(12, 2)
    assert parameter_table(layer, names) == {}
