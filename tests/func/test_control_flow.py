"""Control flow as functions: results, gradients, and under compile."""

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
