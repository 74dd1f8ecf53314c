"""Who changes whether a tensor from outside requires grad does it between two programs."""

import pytest

import pullback as torch
from pullback.compiled.counting import counters

pytestmark = pytest.mark.filterwarnings("ignore")


def slope(wrap, asked):
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    @wrap
    def function(x):
        asked(x)
        y = (x * w).sin().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return grad.pow(2).sum()

    for x in (torch.arange(3.0), torch.arange(3.0) + 1, torch.arange(3.0).requires_grad_()):
        for _ in range(2):
            w.grad = None
            out = function(x)
            out.backward()
            yield out.item(), w.grad.tolist(), x.requires_grad
    try:
        yield function(w * 2).item()
    except RuntimeError:
        yield -1.0  # refused


def by_method(wrap):
    return slope(wrap, lambda x: x.requires_grad_())


def by_attribute(wrap):
    return slope(wrap, lambda x: setattr(x, "requires_grad", True))


def frozen_for_a_while(wrap):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))

    @wrap
    def function(x):
        for parameter in net[0].parameters():
            parameter.requires_grad_(False)
        out = net(x).sum()
        for parameter in net[0].parameters():
            parameter.requires_grad_(True)
        return out, (net(x) ** 2).sum()

    for _ in range(3):
        net.zero_grad()
        one, other = function(torch.ones(2, 3))
        one.backward()
        yield net[0].weight.grad is None
        other.backward()
        yield [parameter.grad.tolist() for parameter in net.parameters()]


@pytest.mark.parametrize("program", [by_method, by_attribute, frozen_for_a_while])
def test_a_flag_is_set_as_in_eager_mode(program):
    expected = list(program(lambda function: function))
    before = counters["fallbacks"].copy()
    found = list(program(lambda one: torch.compile(one, options={"never_slower": False})))
    for one, other in zip(found, expected, strict=True):
        assert torch.utils._pytree.tree_leaves(one) == pytest.approx(
            torch.utils._pytree.tree_leaves(other), rel=1e-4
        )
    if program is not by_attribute:
        assert counters["fallbacks"] == before
