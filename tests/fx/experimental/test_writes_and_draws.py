"""`make_fx`: writes, aliases, constants and random numbers are those of the function, each time."""

import pytest

import pullback as torch
from pullback import nn
from pullback.fx.experimental.proxy_tensor import make_fx

# Writes that functionalize hides -----------------------------------------------------------------


def whole(x):
    return x.sin().add_(1)


def through_a_view(x):
    y = x.clone()
    y.view(-1).mul_(2)
    return y


def into_a_constant(x):
    y = torch.zeros(2, 3)
    y[0] = x[0]
    y[1, 1:].add_(x[1, :2])
    turned = y.t()
    y.mul_(2)
    return turned + 1, y


def to_the_argument(x):
    x.add_(1)
    return x * 2


def views_before_and_after(x):
    y = x * 1
    part = y[0]
    y.mul_(3)
    part.add_(5)
    return y, part


def views_that_overlap(x):
    y = x.clone()
    row, run = y[1], y.reshape(-1)[1:5]
    run.zero_()
    row.add_(4.0)
    return y.sum(), run, row


def masks_and_columns(x):
    y = x.clone()
    y.t().relu_()
    y.masked_fill_(y > 1, 7.0)
    y[:, 0] = 3.0
    return y


def an_alias(x):
    y = x.clone()
    y.detach().add_(1)
    return y * x


def parts_in_turn(x):
    y = x.clone()
    for row in y.unbind(0):
        row.mul_(2)
    for part in y.chunk(3, 1):
        part.add_(1)
    return y.index_add_(0, torch.tensor([0]), x[:1])


WRITERS = [
    whole, through_a_view, into_a_constant, to_the_argument, views_before_and_after,
    views_that_overlap, masks_and_columns, an_alias, parts_in_turn,
]  # fmt: skip


def leaves(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_functionalized_writes_are_in_the_graph(writer, remove):
    made = make_fx(torch.func.functionalize(writer, remove=remove))(torch.randn(2, 3))
    for _ in range(2):
        x = torch.randn(2, 3)
        ours, theirs = x.clone(), x.clone()
        for one, other in zip(leaves(made(ours)), leaves(writer(theirs)), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(ours, theirs)
    names = [n.target._opname for n in made.graph.nodes if hasattr(n.target, "_opname")]
    written = [name for name in names if name.endswith("_")]
    assert written == (["copy_"] if writer is to_the_argument else [])


@pytest.mark.parametrize("writer", WRITERS)
def test_writes_are_in_the_graph(writer):
    made = make_fx(writer)(torch.randn(2, 3))
    for _ in range(2):
        x = torch.randn(2, 3)
        ours, theirs = x.clone(), x.clone()
        for one, other in zip(leaves(made(ours)), leaves(writer(theirs)), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(ours, theirs)


# Constants ---------------------------------------------------------------------------------------


def test_a_constant_that_is_written_to_is_new_in_each_call():
    def f(x):
        v = torch.tensor([2.0])
        v.add_(1)
        v.mul_(x)
        return v * torch.ones(2)

    made = make_fx(f)(torch.ones(1))
    for _ in range(3):
        assert made(torch.tensor([2.0])).tolist() == [6, 6]


def test_an_alias_is_told_from_its_origin():
    made = make_fx(lambda x: x * x.detach())(torch.ones(2))
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    made(x).sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_a_decomposition_that_declines_leaves_the_operator():
    table = {torch.ops.aten.sin.default: lambda *args, **kwargs: NotImplemented}
    made = make_fx(lambda x: x.sin() + 1, decomposition_table=table)(torch.ones(2))
    assert [str(n.target) for n in made.graph.nodes][1:3] == ["aten.sin.default", "aten.add.Tensor"]


# Random numbers ----------------------------------------------------------------------------------

DRAWS = {
    "dropout": lambda x: nn.functional.dropout(x, 0.5),
    "dropout in place": lambda x: nn.functional.dropout(x.clone(), 0.5, inplace=True),
    "dropout1d": lambda x: nn.functional.dropout1d(x[0], 0.5),
    "dropout2d": lambda x: nn.functional.dropout2d(x, 0.5),
    "dropout3d": lambda x: nn.functional.dropout3d(x[..., None, None], 0.5),
    "alpha_dropout": lambda x: nn.functional.alpha_dropout(x, 0.5, True),
    "feature_alpha_dropout": lambda x: nn.functional.feature_alpha_dropout(x, 0.5, True),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, True),
    "native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "rrelu": lambda x: nn.functional.rrelu(-x, training=True),
    "gumbel_softmax": lambda x: nn.functional.gumbel_softmax(x),
    "gumbel_softmax, hard": lambda x: nn.functional.gumbel_softmax(x, hard=True),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "rand_like": lambda x: torch.rand_like(x),
    "randn": lambda x: x + torch.randn(8, 8),
    "normal": lambda x: torch.normal(x, 1.0),
    "normal_": lambda x: x.clone().normal_(),
    "uniform_": lambda x: x.clone().uniform_(),
    "exponential_": lambda x: x.clone().exponential_(),
    "multinomial": lambda x: torch.multinomial(x[0, 0], 3),
    "poisson": lambda x: torch.poisson(x * 20),
    "randperm": lambda x: torch.randperm(50),
    "layer": lambda x: nn.Dropout(0.5)(x),
    "LSTM": lambda x: nn.LSTM(8, 8, num_layers=2, dropout=0.5)(x[0])[0],
}  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_graph_draws_anew_in_each_call(draw):
    x = torch.ones(4, 8, 8, 8) if draw is DRAWS["dropout2d"] else torch.ones(4, 8, 8)
    made = make_fx(draw)(x)
    assert not torch.equal(made(x), made(x))
    torch.manual_seed(3)
    first = made(x)
    torch.manual_seed(3)
    assert torch.equal(made(x), first)


@pytest.mark.parametrize("name", [name for name in DRAWS if "dropout" in name])
def test_masks_under_a_mode_are_those_without(name):
    x = torch.ones(4, 8, 8, 8) if name == "dropout2d" else torch.ones(4, 8, 8)
    made = make_fx(DRAWS[name])(x)
    torch.manual_seed(5)
    wanted = DRAWS[name](x)
    torch.manual_seed(5)
    torch.testing.assert_close(made(x), wanted)
