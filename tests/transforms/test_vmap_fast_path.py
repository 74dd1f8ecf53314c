"""The shortest way through a vmap level: taken where it holds, and with the same results."""

import linecache

import numpy
import pytest

import pullback as torch
from pullback.operators.dispatch.observers import observe, stop
from pullback.transforms.vmap_level import VmapLevel

X = torch.tensor(numpy.random.default_rng(0).standard_normal((3, 2, 4)))


@pytest.fixture
def looked_at(monkeypatch):
    """The names of operators that a level looks at closely."""
    names = []
    own = VmapLevel.process

    def process(self, op, bound):
        names.append(op.name)
        return own(self, op, bound)

    monkeypatch.setattr(VmapLevel, "process", process)
    return names


def by_loop(function, *batches):
    return torch.stack([function(*examples) for examples in zip(*batches, strict=True)])


SHORT = {
    "numbers": lambda x: (x * 2 + 1).sin() / 3,
    "two alike": lambda x: x * x - x.exp(),
    "options": lambda x: torch.add(x, x, alpha=2),
    "sum": lambda x: x.sum(),
    "sum of a dim": lambda x: x.sum(-1, keepdim=True),
    "sum of dims": lambda x: torch.sum(x, (0, 1)),
    "other rank": lambda x: x * x[0] + x.sum(),
    "shared": lambda x: x * torch.ones(3, 1, 4, dtype=torch.float64),
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "constants": lambda x: x * (torch.ones(4, dtype=torch.float64) * 2).sum(),
    "0-d": lambda x: x[0, 0] * 2 + x[1, 1],
    "new and swapped dims": lambda x: x.unsqueeze(1).transpose(0, 2) + x.transpose(0, 1)[:, None],
    "squeeze and expand": lambda x: x[:1].expand(2, 4) * x[:1].squeeze(0),
    "joined": lambda x: torch.stack([x[0], x[1], torch.ones(4, dtype=torch.float64)], -1),
    "product": lambda x: x @ x.t() @ torch.ones(2, 3, dtype=torch.float64),
}


@pytest.mark.parametrize("name", SHORT)
def test_nobody_looks_and_the_result_is_that_of_a_loop(name, looked_at):
    function = SHORT[name]
    found = torch.vmap(function)(X)
    assert not looked_at
    numpy.testing.assert_allclose(found.numpy(), by_loop(function, X).numpy(), rtol=1e-14)


def test_nobody_looks_in_nested_maps(looked_at):
    def both(x, y):
        return (x * y + y[0] * 2).sum()

    found = torch.vmap(torch.vmap(both))(X, X.exp())
    assert not looked_at
    expected = by_loop(lambda x, y: by_loop(both, x, y), X, X.exp())
    numpy.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)


def test_a_map_that_is_outside_alone_is_seen_by_what_it_holds():
    """A mapped tensor in a map of others: it belongs to a level that is not the innermost."""
    y = torch.ones(5, 4, dtype=torch.float64)
    found = torch.vmap(lambda x: torch.vmap(lambda y: (x * 2) * y.sum() + x)(y))(X)
    expected = by_loop(lambda x: by_loop(lambda y: (x * 2) * y.sum() + x, y), X)
    numpy.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)


def test_the_adjoints_of_parts_are_not_looked_at(looked_at):
    def pick(x):
        return x[0] * x[1, 1:3].sum()

    found = torch.vmap(torch.func.jacrev(pick))(X)
    assert not {"_select_adjoint", "_slice_adjoint"} & {*looked_at}
    numpy.testing.assert_allclose(found.numpy(), by_loop(torch.func.jacrev(pick), X).numpy())


def test_nodes_made_below_a_level_know_the_line_that_made_them():
    leaf = X.clone().requires_grad_()
    nodes = []

    def keep(x):
        y = x * 3
        nodes.append(y.value.grad_fn)
        return y

    torch.vmap(keep)(leaf)
    assert nodes[0].origin.file == __file__
    assert "x * 3" in linecache.getline(__file__, nodes[0].origin.line)


def test_an_observer_sees_a_call_once():
    class Names(list):
        def enter(self, op, called):
            self.append(called)

        def leave(self, token, result, operands):
            pass

    names = Names()
    observe(names)
    try:
        torch.vmap(lambda x: x * 2)(X)
    finally:
        stop(names)
    assert names == ["mul"]


def test_gradients_of_examples_and_of_the_batch():
    def loss(x):
        return (x[0] * 3).sin().sum()

    found = torch.vmap(torch.func.grad(loss))(X)
    expected = by_loop(torch.func.grad(loss), X)
    numpy.testing.assert_allclose(found.numpy(), expected.numpy())
    leaf = X.clone().requires_grad_()
    torch.vmap(loss)(leaf).sum().backward()
    numpy.testing.assert_allclose(leaf.grad.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.ones(4, dtype=torch.float64),
        lambda x: x[0] + x,
        lambda x: x * x.float(),
        lambda x: x.t() + 1,
        lambda x: x[0, 0] * 2,
        lambda x: x.sum(0).sum(0).sum(0),
    ],
    ids=["shared operand", "other rank", "other dtype", "transposed", "0-d", "0-d sum"],
)
def test_others_give_the_same_too(function):
    found = torch.vmap(function)(X)
    expected = by_loop(function, X)
    assert found.dtype is expected.dtype
    numpy.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)


def test_examples_that_are_not_in_front_and_nested_maps():
    found = torch.vmap(lambda x: x * 2, in_dims=1, out_dims=1)(X)
    numpy.testing.assert_array_equal(found.numpy(), (X * 2).numpy())
    nested = torch.vmap(torch.vmap(lambda x: (x * 2).sum()))(X)
    numpy.testing.assert_array_equal(nested.numpy(), (X * 2).sum(2).numpy())


def test_an_out_argument_is_refused_as_ever():
    target = torch.zeros(2, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="out="):
        torch.vmap(lambda x: torch.add(x, x, out=target))(X)


def test_a_tensor_of_a_map_that_has_ended_is_refused():
    kept = []
    torch.vmap(lambda x: kept.append(x) or x)(X)
    for use in (lambda t: t * 2, lambda t: t.sum(), lambda t: torch.ones(2, 4).copy_(t)):
        with pytest.raises(RuntimeError, match="has ended"):
            use(kept[0])


def test_a_write_to_a_part_of_an_example():
    def write(x):
        y = x.clone()
        y[0] = x[1] * 2
        y[1, 2:] = 7.0
        return y

    numpy.testing.assert_array_equal(torch.vmap(write)(X).numpy(), by_loop(write, X).numpy())


def test_a_sequence_of_two_levels_is_stacked_at_its_own():
    xs, ys = torch.arange(2.0), torch.arange(3.0)
    both = torch.vmap(lambda x: torch.vmap(lambda y: torch.stack([x, y]))(ys))(xs)
    assert both.tolist() == [[[x, y] for y in range(3)] for x in range(2)]
    turned = torch.vmap(lambda x: torch.vmap(lambda y: torch.cat([y[None], x[None]]))(ys))(xs)
    assert turned.tolist() == [[[y, x] for y in range(3)] for x in range(2)]
