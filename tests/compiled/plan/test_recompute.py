"""A program of forward and backward keeps what a minimum cut keeps, and computes the same."""

import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.backends import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")
ROWS, WIDTH, LAYERS = 1024, 128, 4
ARRAY = ROWS * WIDTH * 4


def deep(activation, norm=False):
    torch.manual_seed(0)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), *([nn.LayerNorm(WIDTH)] if norm else []), activation()]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """Layers whose results are added to what they got."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(LAYERS)])

    def forward(self, x):
        """Apply them."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + nn.functional.gelu(layer(norm(x)))
        return x


# Arrays that eager keeps for each layer, with what a norm's is made of.
NETS = {
    "gelu": (lambda: deep(nn.GELU), 2),
    "silu": (lambda: deep(nn.SiLU), 2),
    "tanh": (lambda: deep(nn.Tanh), 1),
    "relu": (lambda: deep(nn.ReLU), 1.25),
    "softplus": (lambda: deep(nn.Softplus), 2),
    "normed": (lambda: deep(nn.SiLU, norm=True), 3),
    "residual": (Residual, 3),
}


@pytest.mark.parametrize("name", NETS)
def test_temporaries_are_what_eager_keeps(name):
    make, most = NETS[name]
    net = make()
    x = torch.randn(ROWS, WIDTH)

    def loss(x):
        return (net(x) ** 2).mean()

    compiled = torch.compile(loss)
    compiled(x).backward()
    ours = [p.grad.clone() for p in net.parameters()]
    (program,) = compiled.entries[0].programs()
    beside = 3.2  # of the layer at hand: a gradient, a product, what is made again
    assert program.arena <= (most * LAYERS + beside) * ARRAY
    net.zero_grad()
    value = loss(x)
    value.backward()
    assert torch.allclose(compiled(x), value, rtol=1e-5)
    for one, p in zip(ours, net.parameters(), strict=True):
        assert torch.allclose(one, p.grad, rtol=1e-4, atol=1e-5 * p.grad.abs().max().item())


def test_values_that_are_returned_and_read_again_are_the_same():
    w = torch.randn(600, 600, requires_grad=True)

    def function(x):
        hidden = (x @ w).exp()
        kept = hidden.sum()
        return (hidden.sin() * hidden.cos()).sum() + kept * 2

    x = torch.randn(600, 600) / 100
    compiled = torch.compile(function)
    for _ in range(2):
        gradients = []
        for one in (function, compiled):
            w.grad = None
            one(x).backward()
            gradients.append(w.grad)
        assert torch.allclose(*gradients, rtol=1e-4, atol=1e-4)


def test_views_of_the_forward_stay_what_they_are():
    w = torch.randn(512, 512, requires_grad=True)

    def function(x):
        hidden = nn.functional.gelu(x @ w)
        left, right = hidden[:, :256], hidden.t()[:256]
        return (left @ right).sum() + (hidden.reshape(256, 1024) * 0.5).tanh().sum()

    x = torch.randn(512, 512) / 30
    gradients = []
    for one in (function, torch.compile(function)):
        w.grad = None
        one(x).backward()
        gradients.append(w.grad)
    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-3)


def test_sizes_that_vary_have_the_same_gradients():
    net = deep(nn.GELU)

    def loss(x):
        return (net(x) ** 2).mean()

    compiled = torch.compile(loss, dynamic=True)
    for rows in (700, 900, 1100):
        x = torch.randn(rows, WIDTH)
        gradients = []
        for one in (loss, compiled):
            net.zero_grad()
            one(x).backward()
            gradients.append(next(net.parameters()).grad.clone())
        assert torch.allclose(*gradients, rtol=1e-4, atol=1e-6)
