"""`graph.flow`: where the gradient vanishes, explodes or dies."""

import math

import pytest

import pullback as torch
from pullback import nn
from pullback.autograd.graph import flow, name_modules


def deep(activation, scale, layers=12, width=16):
    torch.manual_seed(0)
    parts = []
    for _ in range(layers):
        linear = nn.Linear(width, width)
        nn.init.normal_(linear.weight, 0.0, scale / math.sqrt(width))
        nn.init.zeros_(linear.bias)
        parts += [linear, activation()]
    return nn.Sequential(*parts)


def test_small_weights_let_the_gradient_vanish():
    model = deep(nn.Tanh, 0.1)
    found = flow(model, model(torch.randn(8, 16)).sum())
    assert "vanishes" in found["0"].verdict
    assert found["22"].verdict == ""
    norms = [found[str(i)].norm for i in range(0, 24, 2)]
    assert norms == sorted(norms)
    assert any(text.startswith("0: Linear(16, 16): vanishes") for text in found.problems)


def test_large_weights_let_it_explode():
    model = deep(nn.Identity, 8.0)
    found = flow(model, model(torch.randn(8, 16)).sum())
    assert "explodes" in found["0"].verdict


def test_a_healthy_model_has_no_findings():
    model = deep(nn.Tanh, 1.0, layers=3)
    found = flow(model, model(torch.randn(32, 16)).pow(2).mean(), lr=0.01)
    assert found.problems == []
    ratio = found.parameters[0].ratio
    weight, gradient = found.parameters[0].weight, found.parameters[0].gradient
    assert ratio == pytest.approx(0.01 * gradient / weight)


def test_dead_units_are_counted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    with torch.no_grad():
        model[0].bias[:2] = -100.0
        model[0].bias[2:] = 100.0
    with name_modules(model):
        loss = model(torch.randn(32, 4)).sum()
    found = flow(model, loss)
    assert found["1"].operators[0].note == "2 of 6 units are dead (0 for the whole batch)"
    assert found["0"].zeros == pytest.approx(2 / 6)
    assert "1: ReLU(): 2 of 6 units are dead (0 for the whole batch)" in found.problems


def test_channels_of_images_are_units():
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 3, 3)
    with torch.no_grad():
        conv.bias.copy_(torch.tensor([-100.0, 100.0, 100.0]))
    model = nn.Sequential(conv, nn.ReLU())
    found = flow(model, model(torch.randn(2, 1, 6, 6)).sum())
    assert "1 of 3 units are dead (0 for the whole batch)" in "".join(found.problems)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Sigmoid])
def test_saturated_units_are_found(activation):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), activation())
    nn.init.constant_(model[0].bias, 50.0)
    found = flow(model, model(torch.randn(5, 4)).sum())
    assert "100% of its values are saturated" in "".join(found.problems)


def test_parameters_that_nothing_reaches_are_told():
    model = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 1)})
    found = flow(model, model["a"](torch.ones(3, 2)).sum())
    assert found.problems[-1] == "no gradient reaches b.weight, b.bias"


def test_gradients_and_graph_are_left_as_they_were():
    model = nn.Linear(3, 2)
    loss = model(torch.ones(1, 3)).exp().sum()
    found = flow(model, loss)
    assert model.weight.grad is None
    loss.backward()
    assert model.weight.grad.norm().item() == pytest.approx(found.parameters[0].gradient, rel=1e-5)


def test_what_is_not_finite_is_told():
    x = nn.Linear(1, 1)
    loss = (x(torch.zeros(1, 1)) * 0).sqrt().sum()
    found = flow(x, loss)
    assert any("not finite" in text for text in found.problems)


def test_table_and_page(tmp_path):
    model = deep(nn.Tanh, 0.1)
    found = flow(model, model(torch.randn(8, 16)).sum(), lr=0.1)
    assert "update/weight" in repr(found)
    assert "vanishes" in repr(found)
    found.save(tmp_path / "flow.html")
    text = (tmp_path / "flow.html").read_text("utf-8")
    assert "<polyline" in text
    assert "TanhBackward0" in text
