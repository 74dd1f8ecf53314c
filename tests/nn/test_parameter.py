"""Parameter: a leaf on the memory it was given; what is computed from it is a plain tensor."""

import copy
import pickle

import pytest

import pullback as torch
from pullback import nn
from pullback.nn import Parameter


def test_a_parameter_is_a_leaf_that_shares_memory_and_counter_with_its_data():
    data = torch.zeros(2)
    parameter = Parameter(data)
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert isinstance(parameter, torch.Tensor)
    data.add_(1)
    assert parameter.tolist() == [1, 1]
    assert parameter._version == data._version == 1
    assert not data.requires_grad


def test_data_with_history_is_detached():
    x = torch.ones(2, requires_grad=True)
    parameter = Parameter(x * 2)
    assert parameter.grad_fn is None
    assert parameter.is_leaf


@pytest.mark.parametrize(
    "compute",
    [
        lambda p: p * 1,
        lambda p: p.clone(),
        lambda p: p.detach(),
        lambda p: p.data,
        lambda p: p[0],
        lambda p: p.view(2, 1),
        lambda p: torch.zeros_like(p),
        lambda p: p.to(torch.float64),
    ],
)
def test_what_is_computed_from_a_parameter_is_a_plain_tensor(compute):
    assert type(compute(Parameter(torch.ones(2)))) is torch.Tensor


def test_in_place_operators_and_grad_return_what_they_should():
    parameter = Parameter(torch.ones(2))
    assert parameter.requires_grad_(False) is parameter
    parameter.requires_grad_()
    (parameter * parameter).sum().backward()
    assert type(parameter.grad) is torch.Tensor
    assert parameter.grad.tolist() == [2, 2]
    with torch.no_grad():
        assert parameter.sub_(parameter.grad) is parameter
    assert parameter.tolist() == [-1, -1]


def test_integers_need_requires_grad_false():
    with pytest.raises(RuntimeError, match="floating point"):
        Parameter(torch.tensor([1]))
    assert not Parameter(torch.tensor([1]), requires_grad=False).requires_grad


def test_without_data_it_is_empty_and_other_things_are_refused():
    assert Parameter().shape == (0,)
    with pytest.raises(TypeError, match="Tensor"):
        Parameter([1.0])


def test_repr_says_what_it_is():
    assert repr(Parameter(torch.ones(2))) == (
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    )
    assert f"{Parameter(torch.tensor(1.5))}".startswith("Parameter containing:")


def test_copies_are_parameters_without_gradient():
    parameter = Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second
    assert type(first) is Parameter
    assert first.grad is None
    assert first.requires_grad
    with torch.no_grad():
        first.zero_()
    assert parameter.tolist() == [1, 1]
    assert type(copy.copy(parameter)) is Parameter


def test_pickle_gives_a_parameter_again():
    parameter = Parameter(torch.ones(2), requires_grad=False)
    restored = pickle.loads(pickle.dumps(parameter))
    assert type(restored) is Parameter
    assert restored.tolist() == [1, 1]
    assert not restored.requires_grad


def test_data_of_ones_own_class_keeps_it_and_is_a_parameter():
    class Mine(torch.Tensor):
        pass

    data = torch.ones(2)
    data.__class__ = Mine
    parameter = nn.Parameter(data)
    assert type(parameter) is Mine
    assert isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    assert not isinstance(data, nn.Parameter)
    module = nn.Module()
    module.own = parameter
    assert dict(module.named_parameters())["own"] is parameter

    class Further(nn.Parameter):
        pass

    assert type(Further(torch.ones(1))) is Further
    assert not isinstance(parameter, Further)
    assert isinstance(nn.Parameter(torch.nn.Buffer(torch.ones(1))), nn.Parameter)
