"""Layers made of their annotations."""

import pytest

import pullback as torch
from pullback import nn
from pullback.nn.base.fields import Layer


def _layers():
    return [
        kind
        for kind in (getattr(nn, name) for name in nn.__all__)
        if isinstance(kind, type) and issubclass(kind, Layer)
    ]


@pytest.mark.parametrize("kind", _layers(), ids=lambda kind: kind.__name__)
def test_no_argument_of_a_layer_is_an_attribute_of_its_class(kind):
    hidden = [name for name in kind.__signature__.parameters if hasattr(kind, name)]
    assert hidden == []


def test_defaults_are_in_the_signature_and_on_the_instance():
    layer = nn.LeakyReLU()
    assert layer.negative_slope == 0.01
    assert nn.LeakyReLU.__signature__.parameters["negative_slope"].default == 0.01


def test_a_subclass_of_a_user_keeps_the_arguments():
    class Mine(nn.LeakyReLU):
        pass

    assert Mine(0.5).negative_slope == 0.5
    assert torch.equal(Mine(0.5)(torch.tensor([-2.0])), torch.tensor([-1.0]))
