"""Tensors that a function makes of numbers are constants of its source, as long as they stay so."""

import numpy
import pytest

import pullback as torch

FUNCTIONS = {
    "eye": lambda x: x @ torch.eye(4),
    "tensor": lambda x: x[torch.tensor([0, 2, 2, 1])],
    "places": lambda x: x.gather(1, torch.tensor([[0, 1, 1, 0]] * 4)),
    "zeros": lambda x: x + torch.zeros(4),
    "arange": lambda x: x * torch.arange(4),
    "full": lambda x: x * torch.full((4,), 2.0),
    "linspace": lambda x: x * torch.linspace(0, 1, 4),
    "triangle": lambda x: x.masked_fill(torch.ones(4, 4).tril() == 0, -1.0),
    "new_tensor": lambda x: x * x.new_tensor([1.0, 2.0, 3.0, 4.0]),
    "one_hot": lambda x: x * torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 3]), 4),
    "list": lambda x: x[[0, 2]],
    "number of NumPy's": lambda x: x * numpy.float32(2),
    "inverse": lambda x: torch.linalg.solve(x @ x.mT + torch.eye(4), x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_gradient", [False, True])
def test_makers_give_constants(name, is_gradient):
    torch.manual_seed(0)
    function = FUNCTIONS[name]
    if is_gradient:
        function = torch.func.grad(lambda x: FUNCTIONS[name](x).sum())
    x, other = torch.rand(4, 4), torch.rand(4, 4)
    made = torch.func.source(function, x)
    first, *rest = made.arguments
    given = {first: other, **{key: made.arguments[key] for key in rest}}
    assert torch.allclose(made.load(torch)(**given), function(other))


def written(x):
    made = torch.zeros(3, 4)
    for row in range(3):
        made[row] = x[row].sin()
    made.add_(1)
    return made.sum(0) * x


def written_through_views(x):
    ramp = torch.arange(16.0).reshape(4, 4)
    ramp[1:3].mul_(2)
    return (ramp @ x) * ramp.T


@pytest.mark.parametrize("function", [written, written_through_views])
def test_operators_may_write_to_what_makers_gave(function):
    x, other = torch.rand(4, 4), torch.rand(4, 4)
    made = torch.func.source(torch.func.grad(lambda x: function(x).sum()), x)
    first, *rest = made.arguments
    given = {first: other, **{key: made.arguments[key] for key in rest}}
    expected = torch.func.grad(lambda x: function(x).sum())(other)
    assert torch.allclose(made.load(torch)(**given), expected)


def by_numpy(x):
    made = torch.zeros(4, 4)
    made.numpy()[:] = x.detach().numpy() * 2
    return made * x


UNSEEN = {
    "written by NumPy": by_numpy,
    "of an array": lambda x: x * torch.tensor(x.detach().numpy() * 2),
    "in a list": lambda x: x[[*x.detach().numpy().argsort(0)[:, 0]]],
    "random": lambda x: x * torch.randn(4),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_may_come_from_the_arguments_is_refused(name):
    with pytest.raises(NotImplementedError, match="computed unseen"):
        torch.func.source(UNSEEN[name], torch.rand(4, 4))


def test_nobody_watches_afterwards():
    code = torch.eye.__code__
    torch.func.source(FUNCTIONS["eye"], torch.rand(4, 4))
    assert torch.eye.__code__ is code
