"""Fills with random numbers are steps of a program, with eager's numbers in eager's order."""

import pytest

import pullback as torch

FILLS = {
    "uniform": lambda x: x.uniform_(-1.0, 2.0),
    "normal": lambda x: x.normal_(1.0, 3.0),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "exponential": lambda x: x.exponential_(2.0),
    "cauchy": lambda x: x.cauchy_(1.0, 2.0),
    "geometric": lambda x: x.geometric_(0.4),
    "log normal": lambda x: x.log_normal_(0.0, 0.5),
    "random": lambda x: x.random_(10),
    "initialised": torch.nn.init.xavier_normal_,
    "gumbel": lambda x: torch.nn.functional.gumbel_softmax(x, hard=True),
    "two": lambda x: x.normal_() + torch.rand(3, 4) * torch.empty(3, 4).uniform_(),
}
LAYOUTS = {
    "rows": lambda x: x * 1,
    "columns": lambda x: x.t().contiguous().t(),
    "part": lambda x: x.repeat(2, 2)[1:4, ::2],
}


def drawn(function, x, count=3):
    torch.manual_seed(4)
    return [function(x) for _ in range(count)] + [torch.rand(2)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_a_fill_draws_the_same_numbers(name, layout, backend):
    fill, lay = FILLS[name], LAYOUTS[layout]

    def function(x):
        return fill(lay(x)) + x

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    x = torch.arange(12.0).view(3, 4)
    for one, other in zip(drawn(compiled, x), drawn(function, x), strict=True):
        torch.testing.assert_close(one, other)


def test_fills_at_other_sizes_and_with_other_numbers():
    settings = {"p": 0.5}

    def function(x):
        return torch.empty_like(x).bernoulli_(settings["p"]) * x

    compiled = torch.compile(function, fullgraph=True)
    for rows in (3, 5, 6, 7, 3):
        for settings["p"] in (0.5, 0.1, 0.5):
            x = torch.ones(rows, 4)
            for one, other in zip(drawn(compiled, x), drawn(function, x), strict=True):
                torch.testing.assert_close(one, other)


def test_a_fill_cuts_the_history():
    w = torch.ones(3, requires_grad=True)

    def function():
        y = (w * 2).clone()
        y.normal_()
        return (y * w).sum()

    for one in (function, torch.compile(function, fullgraph=True)):
        torch.manual_seed(1)
        w.grad = None
        one().backward()
        torch.manual_seed(1)
        torch.testing.assert_close(w.grad, torch.empty(3).normal_())
