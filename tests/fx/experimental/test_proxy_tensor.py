"""`make_fx`: operators below autograd as a graph that computes the same for other values."""

import pytest

import pullback as torch
from pullback.fx.experimental.proxy_tensor import make_fx

PROGRAMS = [
    lambda x: (x.sin() * 2).sum(),
    lambda x: torch.nn.functional.linear(x, x * 2, x[0]),
    lambda x: torch.func.grad(lambda t: (t**3).sum())(x),
    lambda x: x.clone().add_(1).t().reshape(-1)[1:],
    lambda x: torch.softmax(x @ x, 0).max(1).values,
    lambda x: torch.autograd.grad((y := x.detach().requires_grad_()).exp().sum(), y)[0] + x,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_graph_computes_the_same_for_other_values(program):
    made = make_fx(program)(torch.rand(3, 3))
    x = torch.rand(3, 3) + 1
    assert torch.allclose(made(x), program(x))


def test_containers_keep_their_nesting():
    made = make_fx(lambda d: {"out": d["a"] + d["b"][0]})(
        {"a": torch.ones(2), "b": [torch.ones(2)]}
    )
    result = made({"a": torch.zeros(2), "b": [torch.full((2,), 3.0)]})
    assert result["out"].tolist() == [3, 3]


def test_decomposition_replaces_an_operator():
    table = {torch.ops.aten.sin.default: lambda x: torch.cos(x) * 2}
    made = make_fx(lambda x: x.sin(), decomposition_table=table)(torch.ones(2))
    assert [str(n.target) for n in made.graph.nodes][1:3] == ["aten.cos.default", "aten.mul.Tensor"]


def test_symbolic_sizes_are_refused():
    with pytest.raises(NotImplementedError, match="symbolic"):
        make_fx(lambda x: x, tracing_mode="symbolic")
