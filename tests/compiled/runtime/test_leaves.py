"""Results that require a gradient because the function said so, whatever the mode of the call."""

import pytest
from pullback._functorch.aot_autograd import aot_function

import pullback as torch

FUNCTIONS = {
    "a copy": lambda x: x.detach().clone().requires_grad_(),
    "a product": lambda x: (x * 2).detach().requires_grad_(),
    "an alias": lambda x: x.detach().requires_grad_(),
    "a part": lambda x: x.detach()[1:].requires_grad_(),
    "new": lambda x: torch.zeros(3).add_(x.detach()).requires_grad_(),
    "beside another": lambda x: (x * 3, (x * 2).detach().requires_grad_()),
    "switched on": lambda x: _recorded(x),
    "switched on and off": lambda x: (_recorded(x), _unrecorded(x)),
}


def _recorded(x):
    with torch.enable_grad():
        return x.cos()


def _unrecorded(x):
    with torch.no_grad():
        return x.sin()


def leaves(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("recording", [True, False], ids=["recording", "no_grad"])
def test_results_require_gradients_as_in_eager(compiled, name, needs_grad, recording):
    f = FUNCTIONS[name]
    g = compiled(f, fullgraph=True)
    for _ in range(4):
        x, y = (torch.tensor([0.5, 1.0, 2.0], requires_grad=needs_grad) for _ in range(2))
        with torch.set_grad_enabled(recording):
            ours, wanted = leaves(g(x)), leaves(f(y))
        for one, other in zip(ours, wanted, strict=True):
            assert (one.requires_grad, one.is_leaf) == (other.requires_grad, other.is_leaf)
            torch.testing.assert_close(one, other)
            if one.requires_grad:
                one.sum().backward()
                other.sum().backward()
                torch.testing.assert_close(one.grad if one.is_leaf else None,
                                           other.grad if other.is_leaf else None)  # fmt: skip
        torch.testing.assert_close(x.grad, y.grad)


def test_one_program_for_several_sizes_keeps_it(compiled):
    g = compiled(lambda x: (x * 2).detach().requires_grad_(), fullgraph=True)
    for size in (3, 5, 7, 9):
        assert g(torch.ones(size)).requires_grad


def test_graphs_of_aot_are_recorded_where_the_function_switches_it_on():
    x = torch.tensor([0.5], requires_grad=True)
    with torch.no_grad():
        made = aot_function(_recorded, lambda graph, args: graph)(x)
    assert made.requires_grad
    made.backward()
    assert x.grad.item() == pytest.approx(-0.479426, abs=1e-5)
