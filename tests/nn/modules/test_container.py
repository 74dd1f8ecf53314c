"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import pullback as torch
from pullback import nn


def test_sequential_is_a_list_of_modules():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(net) == 3
    assert net[-1] is net[2]
    assert isinstance(net[:2], nn.Sequential)
    assert [type(m).__name__ for m in net[::2]] == ["Linear", "Linear"]
    net.append(nn.Tanh()).insert(1, nn.Sigmoid())
    assert [name for name, _ in net.named_children()] == list("01234")
    assert isinstance(net[1], nn.Sigmoid)
    del net[1]
    assert isinstance(net.pop(-1), nn.Tanh)
    net[1] = nn.GELU()
    assert net(torch.zeros(1, 2)).shape == (1, 1)
    assert len(net + nn.Sequential(nn.ReLU())) == 4
    net += nn.Sequential(nn.ReLU())
    assert len(net) == 4
    assert len(net * 2) == len(2 * net) == 8
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert named.b is named[1]
    assert list(named[1:].state_dict()) == []
    with pytest.raises(IndexError):
        named[2]


def test_module_list_and_dict():
    layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    layers += [nn.ReLU()]
    assert len(layers) == 4
    assert len(layers[1:3]) == 2
    assert isinstance(layers.__add__([nn.ReLU()]), nn.ModuleList)
    assert nn.Linear(1, 1) not in list(layers)
    parts = nn.ModuleDict([("a", nn.ReLU()), ("b", nn.Linear(1, 1))])
    parts.update({"c": nn.Tanh()})
    assert list(parts) == list(parts.keys()) == ["a", "b", "c"]
    assert isinstance(parts.pop("a"), nn.ReLU)
    assert "a" not in parts
    assert len(list(parts.parameters())) == 2
    assert [name for name, _ in parts.items()] == ["b", "c"]
    del parts["b"]
    parts.clear()
    assert len(parts) == 0
    with pytest.raises(ValueError, match="2 are needed"):
        nn.ModuleDict([("a", nn.ReLU(), 3)])


def test_parameter_list_and_dict():
    values = nn.ParameterList([torch.zeros(1), nn.Parameter(torch.ones(2))])
    values.append(torch.zeros(3))
    values += [torch.zeros(4)]
    assert len(values) == len(list(values.parameters())) == 4
    assert all(isinstance(value, nn.Parameter) for value in values)
    assert len(values[1:]) == 3
    values[0] = torch.ones(5)
    assert values[-4].shape == (5,)
    assert list(values.state_dict()) == ["0", "1", "2", "3"]
    named = nn.ParameterDict({"a": torch.zeros(1)})
    named["b"] = nn.Parameter(torch.ones(1))
    assert sorted(dict(named.named_parameters())) == ["a", "b"]
    assert list(reversed(named)) == ["b", "a"]
    assert named.get("c") is None
    assert (named | nn.ParameterDict({"c": torch.zeros(1)})).keys() == {
        "a": 1,
        "b": 1,
        "c": 1,
    }.keys()
    assert named.setdefault("d", torch.zeros(1)).requires_grad
    assert named.popitem()[0] == "d"
    assert named.pop("a").shape == (1,)
    named.clear()
    assert len(named) == 0


def test_equal_neighbours_of_a_list_are_shown_once():
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    )


@pytest.mark.parametrize("index", [-5, -3, 3, 5])
def test_a_sequence_inserts_between_its_ends(index):
    layers = nn.Sequential(nn.ReLU(), nn.Tanh())
    with pytest.raises(IndexError, match="out of range"):
        layers.insert(index, nn.Sigmoid())
    assert len(layers) == 2


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "given",
    [
        torch.ones(2),
        torch.ones(2).as_subclass(Own),
        nn.Buffer(torch.ones(2)),
        nn.Parameter(torch.ones(2)),
    ],
    ids=["tensor", "subclass", "buffer", "parameter"],
)
def test_containers_of_parameters_train_and_save_every_kind_of_tensor(given):
    for made in (nn.ParameterList([given]), nn.ParameterDict({"0": given})):
        (parameter,) = made.parameters()
        assert parameter.requires_grad
        assert list(made.state_dict()) == ["0"]
        assert isinstance(parameter, Own) is isinstance(given, Own)


def test_a_dict_of_modules_takes_no_other_module():
    with pytest.raises(TypeError, match="mapping or pairs"):
        nn.ModuleDict().update(nn.Linear(1, 1))
