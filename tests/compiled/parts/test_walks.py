"""A walk over a dictionary goes on behind a graph break where it stopped."""

import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters

pytestmark = pytest.mark.filterwarnings("ignore")


def _layers():
    torch.manual_seed(0)
    return nn.ModuleList(nn.Linear(2, 2) for _ in range(3))


def modules(wrap):
    layers = _layers()

    @wrap
    def function(x):
        for number, layer in enumerate(layers):
            x = layer(x) * x.sum().item() + number
        for name, layer in layers.named_children():
            x = layer(x) + float(x.sum()) * len(name)
        for parameter in layers.parameters():
            x = x + float(parameter.sum())
        return x

    x = torch.ones(2)
    yield function(x)
    layers.append(nn.Linear(2, 2))
    yield function(x)
    layers[1] = nn.Tanh()
    yield function(x)
    del layers[0]
    yield function(x)


def views(wrap):
    table = {"a": 1.0, "b": 2.0, "c": 3.0}

    @wrap
    def function(x):
        for value in table.values():
            x = x + value * x.sum().item()
        for key, value in table.items():
            x = x + value * x.mean().item() * ord(key)
        for key in table:
            x = x / x.abs().max().item() + table[key]
        return x

    x = torch.ones(2)
    yield function(x)
    table["b"] = 7.0
    yield function(x)
    table["a"] = table.pop("a")  # the order is another
    yield function(x)
    table["d"] = 5.0
    yield function(x)


def written_while_walked(wrap):
    table = {"a": 1.0, "b": 2.0, "c": 3.0}

    @wrap
    def function(x):
        own = {"x": 1.0, "y": 2.0}
        for key, value in table.items():
            x = x + value * x.sum().item()
            if key == "a":
                table["c"] = table["c"] + 1.0
        for key, value in own.items():
            x = x * value + x.mean().item()
            if key == "x":
                own["y"] = 10.0
        return x

    for _ in range(4):
        yield function(torch.ones(2))
    yield torch.tensor(list(table.values()))


def grown_while_walked(wrap):
    @wrap
    def function(x):
        own = {"x": 1.0}
        try:
            for value in own.values():
                x = x * value + x.sum().item()
                own["y"] = 2.0
        except RuntimeError:
            x = x - 100.0
        return x

    for _ in range(3):
        yield function(torch.ones(2))


def left_early(wrap):
    table = {"a": 1.0, "b": 2.0, "c": 3.0}

    @wrap
    def function(x, most):
        walk = iter(table.items())
        for _, value in walk:
            x = x + value * x.sum().item()
            if x.sum().item() > most:
                break
        return x, torch.tensor([value for _, value in walk])

    for most in (1.0, 20.0, 1000.0, 1.0):
        yield from function(torch.ones(2), most)


@pytest.mark.parametrize("program", [modules, views, written_while_walked, grown_while_walked,
                                     left_early])  # fmt: skip
def test_a_walk_goes_on_where_it_stopped(program):
    expected = list(program(lambda function: function))
    found = list(program(lambda one: torch.compile(one, options={"never_slower": False})))
    torch.testing.assert_close(found, expected)


def test_walks_over_layers_and_tables_are_captured():
    before = counters["fallbacks"].copy()
    for program in (modules, views):
        list(program(lambda one: torch.compile(one, options={"never_slower": False})))
    assert counters["fallbacks"] == before
