"""Control flow as functions: results, gradients, and under compile."""

import importlib

import numpy as np
import pytest
from pullback._higher_order_ops import associative_scan, cond, map, scan, while_loop

import pullback as torch


def rnn(w, xs):
    def step(h, x):
        h = (h * w + x).tanh()
        return h, h * 2

    return scan(step, torch.zeros(3), xs)


def test_scan_carries_and_stacks_with_gradients():
    xs = torch.arange(12.0).reshape(4, 3) / 10
    w = torch.full((3,), 0.5, requires_grad=True)
    last, ys = rnn(w, xs)
    h, made = torch.zeros(3), []
    for x in xs:
        h = (h * w + x).tanh()
        made.append(h * 2)
    assert torch.equal(ys, torch.stack(made))
    assert torch.equal(last, h)
    (g,) = torch.autograd.grad(ys.sum(), w)
    (wanted,) = torch.autograd.grad(torch.stack(made).sum(), w)
    assert torch.equal(g, wanted)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_goes_either_way(reverse):
    made = scan(lambda c, x: (c + x, c * x), torch.tensor(0.0), torch.arange(4.0), reverse=reverse)
    assert float(made[0]) == 6
    assert made[1].tolist() == ([0, 5, 6, 0] if reverse else [0, 0, 2, 9])


def test_compiled_scan_agrees_with_eager():
    xs, w = torch.arange(60.0).reshape(20, 3) / 50, torch.full((3,), 0.5, requires_grad=True)
    compiled = torch.compile(lambda w, xs: rnn(w, xs)[1].sum(), fullgraph=True)
    for _ in range(2):
        (g,) = torch.autograd.grad(compiled(w, xs), w)
        (wanted,) = torch.autograd.grad(rnn(w, xs)[1].sum(), w)
        np.testing.assert_allclose(g._array, wanted._array, rtol=1e-5)


def test_cond_and_while_loop_decide_by_value():
    x = torch.tensor(2.0, requires_grad=True)
    y = cond(x > 1, lambda x: x * x, lambda x: x, (x,))
    assert float(torch.autograd.grad(y, x)[0]) == 4
    f = torch.compile(lambda x: cond(x.sum() > 1, torch.sin, torch.cos, (x,)))
    for value in (0.5, 3.0, 0.1):
        given = torch.tensor([value])
        assert torch.equal(f(given), torch.sin(given) if value > 1 else torch.cos(given))
    assert while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2),
                      (torch.tensor(0), torch.tensor(1.0))) == (3, 8)  # fmt: skip


def test_map_and_associative_scan():
    made = map(lambda x, y: {"sum": x + y, "both": (x * 2, y)}, torch.arange(3.0), torch.ones(2))
    assert made["sum"].shape == (3, 2)
    assert made["both"][0].tolist() == [0, 2, 4]
    x = torch.arange(1.0, 5)
    assert associative_scan(torch.mul, x, 0, combine_mode="generic").tolist() == [1, 2, 6, 24]
    assert associative_scan(torch.add, x, 0, reverse=True).tolist() == [10, 9, 7, 4]


def test_mistakes_are_named():
    with pytest.raises(RuntimeError, match="functions"):
        torch.cond(torch.tensor(True), 3, torch.sin, ())
    with pytest.raises(RuntimeError, match="one number"):
        torch.cond(torch.ones(2), torch.sin, torch.cos, (torch.ones(1),))
    with pytest.raises(RuntimeError, match="same size"):
        scan(lambda c, x: (c, c), torch.zeros(1), (torch.ones(2), torch.ones(3)))
    with pytest.raises(RuntimeError, match="body returned 2"):
        while_loop(lambda n: n < 2, lambda n: (n + 1, n), (torch.tensor(0),))


@pytest.mark.parametrize("backend", ["python", None])
def test_a_captured_cond_decides_when_the_program_runs(backend):
    w = torch.tensor([0.5, 2.0], requires_grad=True)

    def f(x):
        y = x * 2
        small = cond(y.sum() > 1, lambda y, k: y.sin() * w * k, lambda y, k: y - w, (y, 3.0))
        return (small * small).sum()

    g = torch.compile(f, backend=backend, fullgraph=True)
    for values in ([1.0, 2.0], [-1.0, -2.0], [0.1, 0.2], [3.0, 4.0]):
        x = torch.tensor(values, requires_grad=True)
        wanted = torch.autograd.grad(f(x), [x, w])
        made = g(x)
        assert torch.allclose(made, f(x))
        for a, b in zip(torch.autograd.grad(made, [x, w]), wanted, strict=True):
            assert torch.allclose(a, b)
    assert len(g.entries) == 1


def test_a_captured_cond_gives_several_results():
    def f(x, flag):
        a, b = cond(flag, lambda x: (x * 2, x.sum()), lambda x: (x + 1, x.prod()), (x,))
        return a * b

    g = torch.compile(f, fullgraph=True)
    for flag in (True, False, True):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        pred = torch.tensor(flag)
        wanted = torch.autograd.grad(f(x, pred).sum(), x)
        assert torch.allclose(torch.autograd.grad(g(x, pred).sum(), x)[0], wanted[0])


def test_an_untaken_branch_leaves_no_trace():
    """Where both were computed, the gradient of log at 0 would be NaN."""
    g = torch.compile(lambda x: cond(x > 0, torch.log, lambda x: x * 3, (x,)), fullgraph=True)
    for value, slope in ((0.0, 3.0), (2.0, 0.5)):
        x = torch.tensor(value, requires_grad=True)
        g(x).backward()
        assert x.grad.item() == slope


def test_a_captured_while_loop_runs_as_long_as_it_should():
    def f(x, limit):
        n, y = while_loop(
            lambda n, y: y.sum() < limit, lambda n, y: (n + 1, y * 2), (torch.tensor(0), x)
        )
        return n, y + 1

    h = torch.compile(lambda x: f(x, x.sum() * 4), fullgraph=True)  # closes over what it computes
    for start in (1.0, 3.0):
        x = torch.full((2,), start)
        assert torch.equal(h(x)[1], f(x, x.sum() * 4)[1])
    limits = torch.tensor(20.0)
    g = torch.compile(lambda x: f(x, limits), fullgraph=True)
    for start in (1.0, 3.0, 30.0):
        x = torch.full((2,), start)
        made, wanted = g(x), f(x, limits)
        assert int(made[0]) == int(wanted[0])
        assert torch.equal(made[1], wanted[1])


def test_what_a_captured_branch_may_not_do_runs_eagerly():
    x = torch.ones(2)
    cases = [
        lambda x: cond(x.sum() > 0, lambda x: x[:1], lambda x: x, (x,)),
        lambda x: cond(x.sum() > 0, lambda x: x + torch.rand(2) * 0, lambda x: x, (x,)),
        lambda x: cond(x.sum() > 0, lambda x: 3, lambda x: x, (x,)),
    ]

    for f in cases:
        wanted, made = f(x), torch.compile(f)(x)
        assert made == wanted if isinstance(wanted, int) else torch.equal(made, wanted)
        with pytest.raises(RuntimeError):
            torch.compile(f, fullgraph=True)(x)


def test_a_branch_closes_over_what_was_computed_before_it():
    def f(x, w):
        y = x * w
        return cond(y.sum() > 0, lambda: y + w, lambda: (y - 1) * w, ())

    g = torch.compile(f, fullgraph=True)
    for start, scale in ((1.0, 2.0), (-1.0, 2.0), (1.0, 3.0), (-1.0, 3.0)):
        x = torch.full((2,), start, requires_grad=True)
        w = torch.full((2,), scale, requires_grad=True)
        made, wanted = g(x, w), f(x, w)
        assert torch.equal(made, wanted)
        slopes = torch.autograd.grad(made.sum(), (x, w))
        for ours, eager in zip(slopes, torch.autograd.grad(wanted.sum(), (x, w)), strict=True):
            assert torch.equal(ours, eager)


def test_each_function_is_found_in_a_module_of_its_name():
    for name in ("associative_scan", "cond", "map", "scan", "while_loop"):
        module = importlib.import_module(f"pullback._higher_order_ops.{name}")
        own = importlib.import_module("pullback._higher_order_ops")
        assert getattr(module, name) is getattr(own, name)
