"""Laws that hold for every optimizer: they go down, and sparse gradients touch their rows alone."""

import numpy
import pytest

import pullback as torch

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.5},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "Adadelta": {"lr": 20.0},
    "Adagrad": {"lr": 0.5},
    "RMSprop": {"lr": 0.05},
    "Rprop": {"lr": 0.1},
    "ASGD": {"lr": 0.1},
    "Adafactor": {"lr": 0.3},
    "Muon": {"lr": 0.1, "weight_decay": 0.0},
}


def distance(p, target):
    return ((p - target) ** 2).sum()


@pytest.mark.parametrize(
    ("name", "maximize"),
    [(name, m) for name in OPTIMIZERS for m in (False, True) if not (m and name == "Muon")],
)
def test_fifty_steps_get_near_the_minimum_or_the_maximum(name, maximize):
    options = {**OPTIMIZERS[name], **({"maximize": True} if maximize else {})}
    random = numpy.random.default_rng(0)
    target = torch.tensor(random.standard_normal((3, 3)))
    p = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], **options)
    start = distance(p, target).item()
    for _ in range(50):
        optimizer.zero_grad()
        loss = distance(p, target)
        (-loss if maximize else loss).backward()
        optimizer.step()
    assert distance(p, target).item() < 0.3 * start


def sparse(dense, rows):
    """A sparse gradient of some rows of a dense one, each given in two halves."""
    values = dense[rows] / 2
    return torch.sparse_coo_tensor([[*rows, *rows]], torch.cat([values, values]), dense.shape)


@pytest.mark.parametrize(("kind", "dense_kind"), [("SparseAdam", "Adam"), ("Adagrad", "Adagrad")])
@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_gradients_step_their_rows_as_dense_ones_would(kind, dense_kind, maximize):
    """B-64: rows without a gradient stay, with their averages; others go as in the dense form."""
    p = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)
    q = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([p], lr=0.1, maximize=maximize)
    dense = getattr(torch.optim, dense_kind)([q], lr=0.1, maximize=maximize, eps=1e-8)
    if kind == "Adagrad":
        optimizer.param_groups[0]["eps"] = 1e-8
    for step in range(3):
        g = torch.zeros(4, 3, dtype=torch.float64)
        g[1], g[3] = step + 1.0, -1.0
        p.grad = sparse(g, [1, 3])
        q.grad = g[[1, 3]].clone()
        optimizer.step()
        dense.step()
    assert torch.equal(p.detach()[[0, 2]], torch.ones(2, 3, dtype=torch.float64))
    assert torch.allclose(p.detach()[[1, 3]], q.detach())
    assert float(optimizer.state[p]["step"]) == 3


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adamax", "Rprop", "Adafactor"])
def test_sparse_gradients_are_refused_by_the_others(name):
    """B-64: by name, with those that take them"""
    p = torch.ones(4, 3, requires_grad=True)
    p.grad = sparse(torch.ones(4, 3), [1])
    with pytest.raises(RuntimeError, match="sparse"):
        getattr(torch.optim, name)([p]).step()


@pytest.mark.parametrize(("name", "option"), [("SGD", "weight_decay"), ("Adagrad", "weight_decay")])
def test_options_that_touch_all_rows_refuse_sparse_gradients(name, option):
    p = torch.ones(4, 3, requires_grad=True)
    p.grad = sparse(torch.ones(4, 3), [1])
    with pytest.raises(RuntimeError, match="sparse"):
        getattr(torch.optim, name)([p], **{option: 0.5}).step()


def test_sparse_adam_refuses_dense_gradients():
    p = torch.ones(2, requires_grad=True)
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="use Adam"):
        torch.optim.SparseAdam([p]).step()


def test_lbfgs_finds_the_minimum_of_rosenbrocks_valley():
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=100)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(24.2)
    assert x.tolist() == pytest.approx([1.0, 1.0], abs=1e-4)


def test_lbfgs_refuses_groups_and_unknown_searches():
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match="one group"):
        torch.optim.LBFGS([{"params": a}, {"params": b}])
    optimizer = torch.optim.LBFGS([a], line_search_fn="golden")

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="golden"):
        optimizer.step(closure)


def test_newton_and_schulz_bring_singular_values_near_one():
    from pullback.optim._muon import _zeropower_via_newtonschulz

    for shape in ((4, 6), (6, 4), (5, 5)):
        matrix = torch.tensor(numpy.random.default_rng(0).standard_normal(shape))
        made = _zeropower_via_newtonschulz(matrix, (3.4445, -4.775, 2.0315), 5, 1e-7)
        values = numpy.linalg.svd(made.numpy(), compute_uv=False)
        assert made.shape == shape
        assert (abs(values - 1) < 0.5).all()
