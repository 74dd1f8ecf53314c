"""The functional forms of optimizers, made from a rule and names."""

from __future__ import annotations

import inspect

import pytest

import pullback as torch
from pullback.optim import _functional


@pytest.mark.parametrize("name", _functional.__all__)
def test_a_functional_form_is_found_under_its_own_module_and_name(name):
    function = getattr(_functional, name)
    assert (function.__module__, function.__name__) == (f"{torch.__name__}.optim.{name}", name)
    assert next(iter(inspect.signature(function).parameters)) == "params"


def test_parts_of_an_option_are_joined_and_manners_have_no_effect():
    def one(**manner):
        p = torch.tensor([1.0, -2.0])
        steps = [torch.zeros(())]
        means, squares = [torch.zeros(2)], [torch.zeros(2)]
        options = {"lr": 0.1, "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False}
        options |= {"beta1": 0.9, "beta2": 0.999, "maximize": False}
        grads = [torch.tensor([0.5, 0.5])]
        _functional.adam([p], grads, means, squares, [], steps, **manner, **options)
        return p.tolist(), steps[0].item()

    assert one() == one(foreach=True, has_complex=True)
    assert one()[0] == pytest.approx([0.9, -2.1])
    assert one()[1] == 1


def test_a_missing_option_is_a_type_error():
    with pytest.raises(TypeError, match="lr"):
        _functional.sgd([], [], [], weight_decay=0, momentum=0)
