"""Layers and custom functions on nested tensors do to each component what they do to it alone."""

import pytest

import pullback as torch
from pullback import nn

LAYERS = {
    "attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda layer, x: layer(x, x, x, need_weights=False)[0],
    ),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        lambda layer, x: layer(x),
    ),
}


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("name", LAYERS)
def test_attention_takes_sequences_of_different_lengths(name, layout):
    make, run = LAYERS[name]
    torch.manual_seed(0)
    layer = make().double()
    sequences = [torch.randn(n, 4, dtype=torch.float64) for n in (3, 1, 2)]
    made = run(layer, torch.nested.as_nested_tensor(sequences, layout=layout))
    assert made.layout is layout
    sum((one**2).sum() for one in made.unbind()).backward()
    gradients = [one.grad.clone() for one in layer.parameters()]
    layer.zero_grad()
    alone = [run(layer, one[None])[0] for one in sequences]
    sum((one**2).sum() for one in alone).backward()
    for ours, wanted in zip(made.unbind(), alone, strict=True):
        assert torch.allclose(ours, wanted)
    for ours, parameter in zip(gradients, layer.parameters(), strict=True):
        assert torch.allclose(ours, parameter.grad)


def test_attention_of_nested_tensors_gives_no_weights():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    with pytest.raises(RuntimeError, match="need_weights=False"):
        layer(x, x, x)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 1, a * 2

    @staticmethod
    def backward(ctx, g, h):
        return g + h * 2


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_an_unused_nested_result_of_a_function_gets_zeros(layout):
    parts = [torch.ones(2), torch.ones(3)]
    x = torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)
    first, _ = Twice.apply(x)
    (first * 3).sum().backward()
    assert [one.tolist() for one in x.grad.unbind()] == [[3, 3], [3, 3, 3]]


def test_memory_of_nested_tensors_can_be_shared():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).share_memory_()
    assert x.values().is_shared()
    assert [one.tolist() for one in x.unbind()] == [[1, 1], [1, 1, 1]]
