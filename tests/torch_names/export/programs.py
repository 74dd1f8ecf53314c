"""Modules that are exported in tests."""

import pullback as torch
from pullback import nn

F = nn.functional


class Written(nn.Module):
    """A function of the module and the input, with a few tensors to compute with."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        self.weight = nn.Parameter(torch.randn(4))
        self.matrix = nn.Parameter(torch.randn(6, 4))
        self.kernel = nn.Parameter(torch.randn(2, 4, 3, 3))
        self.attention = nn.MultiheadAttention(4, 2)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8)
        self.lstm = nn.LSTM(4, 3)

    def forward(self, x):
        return self.function(self, x)


def _assigns(x):
    y = x.clone()
    y[0] = 3.0
    y.view(-1)[2:5].mul_(2)
    return y


def _without_recording(x):
    with torch.no_grad():
        y = x * 2
    return y * x


def matrix():
    return torch.randn(3, 4)


def stack():
    return torch.randn(2, 3, 4)


def images():
    return torch.randn(2, 4, 6, 6)


def _normed(m, x):
    return F.batch_norm(x, m.mean, m.var, m.weight, m.weight, True, 0.2)


CASES = {
    "linear": (lambda m, x: F.linear(x, m.matrix[:4], m.weight), matrix),
    "matmul": (lambda m, x: x.mT @ x, stack),
    "convolution": (lambda m, x: F.conv2d(x, m.kernel, padding="same"), images),
    "batch norm": (_normed, images),
    "batch norm of a layer": (lambda m, x: F.batch_norm(x, m.mean, m.var), matrix),
    "layer norm": (lambda m, x: F.layer_norm(x, (4,), m.weight, m.weight), matrix),
    "group norm": (lambda m, x: F.group_norm(x, 2, m.weight), images),
    "dropout": (lambda m, x: F.dropout(x * m.weight), matrix),
    "softmax": (lambda m, x: F.softmax(x * m.weight, 0, dtype=torch.float64), matrix),
    "loss": (lambda m, x: F.cross_entropy(x * m.weight, torch.tensor([0, 1, 3])), matrix),
    "pool": (lambda m, x: F.max_pool2d(x, (3, 2), 1, 1), images),
    "uneven pool": (lambda m, x: F.adaptive_avg_pool2d(x, 4), images),
    "pool of rows": (lambda m, x: F.max_pool1d(x[0], 2), images),
    "flatten": (lambda m, x: x.flatten(1) * 2, images),
    "padding": (lambda m, x: F.pad(x, (1, 2)), images),
    "einsum": (lambda m, x: torch.einsum("ij,kj->ik", x, m.matrix), matrix),
    "attention": (lambda m, x: m.attention(x, x, x)[0], stack),
    "own attention": (lambda m, x: F.scaled_dot_product_attention(x, x, x), images),
    "encoder": (lambda m, x: m.encoder(x), stack),
    "lstm": (lambda m, x: m.lstm(x)[0], stack),
    "prelu": (lambda m, x: F.prelu(x, m.weight[:1]), matrix),
    "indices": (lambda m, x: x[torch.tensor([0, 2])] * m.weight, matrix),
    "choice": (lambda m, x: torch.where(x > 0, x * m.weight, -x), matrix),
    "sort": (lambda m, x: (x * m.weight).sort(1).values, matrix),
    "fourier": (lambda m, x: torch.fft.fft(x * m.weight).abs(), matrix),
    "singular values": (lambda m, x: torch.linalg.svdvals(x * m.weight), matrix),
    "in place": (lambda m, x: (x * m.weight).add_(1).relu_(), matrix),
    "assignment": (lambda m, x: _assigns(x), matrix),
    "no recording": (lambda m, x: _without_recording(x), matrix),
}
