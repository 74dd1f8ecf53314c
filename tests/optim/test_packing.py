"""Stepping many parameters at once is invisible: versions, state, memory, odd parameters."""

import gc
import tracemalloc

import numpy
import pytest

import pullback as torch
from pullback.optim import packing
from pullback.optim.elementwise import ElementwiseOptimizer

NAMES = [
    name
    for name in torch.optim.__all__
    if isinstance(one := getattr(torch.optim, name), type) and issubclass(one, ElementwiseOptimizer)
]


def leaves(*shapes, dtype=torch.float64, seed=0):
    random = numpy.random.default_rng(seed)
    return [
        torch.tensor(random.standard_normal(shape), dtype=dtype, requires_grad=True)
        for shape in shapes
    ]


def give(params, seed):
    random = numpy.random.default_rng(seed)
    for p in params:
        p.grad = torch.tensor(random.standard_normal(tuple(p.shape)), dtype=p.dtype)


def made(name, params, **options):
    if name == "SGD":
        options.setdefault("momentum", 0.9)
    return getattr(torch.optim, name)(params, lr=0.1, **options)


def run(name, params, steps=4):
    optimizer = made(name, params)
    for seed in range(steps):
        give(params, seed)
        optimizer.step()
    return optimizer


def packs(optimizer):
    return [len(pack.params) for plan in optimizer._plans.values() for pack, _ in plan.packs]


@pytest.mark.parametrize("name", NAMES)
def test_together_and_one_by_one_end_at_the_same_place(name, monkeypatch):
    shapes = [(3, 4), (5,), (), (2, 0), (4, 4)]
    together = leaves(*shapes)
    optimizer = run(name, together)
    assert packs(optimizer) == [5]
    apart = leaves(*shapes)
    monkeypatch.setattr("pullback.optim.elementwise.can_pack", lambda: False)
    other = run(name, apart)
    for p, q in zip(together, apart, strict=True):
        assert torch.equal(p, q)
        for key, value in optimizer.state[p].items():
            assert torch.allclose(value, other.state[q][key], rtol=1e-12)


def test_blocks_of_a_large_parameter_end_where_the_whole_does(monkeypatch):
    whole, parts = leaves((50_000,)), leaves((50_000,))
    run("Adam", whole)
    monkeypatch.setattr(packing, "BLOCK", 4096)
    optimizer = run("Adam", parts)
    assert torch.equal(whole[0], parts[0])
    assert optimizer.state[parts[0]]["step"].item() == 4


def test_large_parameters_are_not_copied_together_with_small_ones():
    params = leaves((20_000,), (3,), (4,), (17_000,))
    assert sorted(packs(run("Adam", params))) == [1, 1, 2]


def test_many_small_parameters_fill_several_packs(monkeypatch):
    monkeypatch.setattr(packing, "BLOCK", 100)
    params = leaves(*[(30,)] * 10)
    assert packs(run("SGD", params)) == [3, 3, 3, 1]


@pytest.mark.parametrize("name", NAMES)
def test_each_step_counts_as_one_write_and_stale_graphs_say_so(name):
    params = leaves((3,), (2, 2))
    optimizer = run(name, params, 2)
    give(params, 5)
    before = [p._version for p in params]
    x, y = params
    loss = (x * x).sum() + (y * y).sum()
    optimizer.step()
    assert all(p._version > v for p, v in zip(params, before, strict=True))
    with pytest.raises(RuntimeError, match=f"inplace operation since by {name} at test_packing"):
        loss.backward()


def test_views_and_arrays_on_a_parameter_see_the_step():
    (p,) = leaves((2, 3))
    (q,) = leaves((4,))
    view, array = p.detach()[0], p.detach().numpy()
    run("Adam", [p, q])
    assert torch.equal(view, p.detach()[0])
    assert numpy.array_equal(array, p.detach().numpy())


def test_state_tensors_stay_the_same_objects_and_are_live():
    params = leaves((3,), (2, 2))
    optimizer = run("Adam", params, 1)
    held = optimizer.state[params[0]]["exp_avg"]
    step = optimizer.state[params[1]]["step"]
    old = held.clone()
    give(params, 7)
    optimizer.step()
    assert optimizer.state[params[0]]["exp_avg"] is held
    assert not torch.equal(held, old)
    assert step.item() == 2
    assert step.shape == ()
    assert held.shape == (3,)


@pytest.mark.parametrize("way", ["written", "replaced", "cleared", "new data", "step set back"])
def test_what_the_user_does_to_the_state_counts(way, monkeypatch):
    def program():
        params = leaves((3,), (2, 2))
        optimizer = run("Adam", params, 3)
        state = optimizer.state[params[0]]
        if way == "written":
            state["exp_avg"].fill_(0.5)
        elif way == "replaced":
            state["exp_avg_sq"] = torch.ones(3, dtype=torch.float64)
        elif way == "cleared":
            optimizer.state[params[0]] = {}
        elif way == "new data":
            params[0].data = torch.zeros(3, dtype=torch.float64)
        else:
            state["step"].fill_(0)
        for seed in range(3, 6):
            give(params, seed)
            optimizer.step()
        counts = [optimizer.state[p]["step"].item() for p in params]
        return params, counts

    together, counts = program()
    monkeypatch.setattr("pullback.optim.elementwise.can_pack", lambda: False)
    apart, expected = program()
    assert counts == expected
    for p, q in zip(together, apart, strict=True):
        assert torch.equal(p, q)


def test_parameters_that_share_memory_are_stepped_one_after_another():
    base = torch.ones(4, dtype=torch.float64)
    first, second = base.detach()[:3].requires_grad_(), base.detach()[1:].requires_grad_()
    apart = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([first, second, apart], lr=1.0)
    for p in (first, second, apart):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert base.tolist() == [0.0, -1.0, -1.0, 0.0]
    assert apart.tolist() == [0.0, 0.0]
    assert packs(optimizer) == [1]


def test_expanded_parameters_are_refused_as_any_write_to_them():
    p = torch.ones(1).expand(3).requires_grad_()
    p.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="memory"):
        torch.optim.SGD([p], lr=1.0).step()


def test_dtypes_are_not_mixed_in_a_pack():
    params = [*leaves((3,), (4,)), *leaves((3,), (4,), dtype=torch.float32)]
    optimizer = run("Adam", params)
    assert packs(optimizer) == [2, 2]
    assert optimizer.state[params[2]]["exp_avg"].dtype is torch.float32


def test_gradients_are_left_as_they_are():
    params = leaves((3,), (20_000,))
    optimizer = made("Adam", params, weight_decay=0.1, maximize=True)
    give(params, 0)
    kept = [p.grad.clone() for p in params]
    for _ in range(3):
        optimizer.step()
    for p, g in zip(params, kept, strict=True):
        assert torch.equal(p.grad, g)


def test_function_modes_see_the_operators_of_a_step():
    from pullback.overrides import TorchFunctionMode

    class Counting(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    params = leaves((3,), (4,))
    optimizer = run("Adam", params, 1)
    give(params, 3)
    with Counting() as mode:
        optimizer.step()
    assert mode.calls > 10
    assert optimizer.state[params[0]]["step"].item() == 2


def test_hundreds_of_steps_leave_no_memory_behind_without_the_collector():
    params = leaves((10,), (4, 4), (3,))
    optimizer = made("SGD", params)
    give(params, 0)

    def traced_after(steps):
        for _ in range(steps):
            optimizer.step()
        return tracemalloc.get_traced_memory()[0]

    gc.disable()
    tracemalloc.start()
    try:
        before = traced_after(400)
        assert traced_after(400) - before < 5_000
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("name", NAMES)
def test_steps_and_new_plans_leave_nothing_to_collect(name):
    params = leaves((10,), (4, 4), (3,))
    optimizer = run(name, params)
    gc.collect()
    gc.disable()
    try:
        for number in range(6):
            params[number % 3].grad = None
            optimizer.step()
            give(params, number)
            optimizer.step()
        del optimizer, params
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maximize": True},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1, "maximize": True},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    ],
    ids=str,
)
def test_sgd_on_arrays_is_the_rule_to_the_last_bit(monkeypatch, options, dtype):
    """In several blocks, the last of them shorter, and with parameters side by side."""
    monkeypatch.setattr("pullback.optim.sgd.BLOCK", 32)

    def stepped():
        params = leaves((50,), (3, 4), (20_000,), dtype=dtype)
        optimizer = torch.optim.SGD(params, lr=0.01, **options)
        for step in range(4):
            give(params, step)
            optimizer.step()
        return params

    by_kernel = stepped()
    monkeypatch.setattr(torch.optim.SGD, "_kernel", None)
    for one, other in zip(by_kernel, stepped(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maximize": True, "amsgrad": True},
        {"weight_decay": 0.1, "maximize": True},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.0, 0.9)},
    ],
    ids=str,
)
def test_adam_on_arrays_is_the_rule_to_the_last_bit(monkeypatch, options, dtype):
    """In several blocks, the last of them shorter, and with parameters side by side."""
    monkeypatch.setattr("pullback.optim.adam.BLOCK", 32)

    def stepped():
        params = leaves((50,), (3, 4), (20_000,), dtype=dtype)
        optimizer = torch.optim.Adam(params, lr=0.01, **options)
        for step in range(4):
            give(params, step)
            optimizer.step()
        return [*params, *(value for held in optimizer.state.values() for value in held.values())]

    with torch.backends.native.flags(enabled=False):  # whose last digits are others
        by_kernel = stepped()
    monkeypatch.setattr(torch.optim.Adam, "_kernel", None)
    for one, other in zip(by_kernel, stepped(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {}), ("SGD", {"momentum": 0.9, "weight_decay": 0.1}), ("Adam", {"amsgrad": True})],
    ids=str,
)
def test_kernels_on_large_arrays_are_the_rule_up_to_a_rounding(monkeypatch, name, options):
    """Where BLAS takes part in both, block by block, and the last block is small."""
    algorithm = getattr(torch.optim, name)

    def stepped():
        params = leaves((packing.BLOCK + 50_000,), (packing.BLOCK + 20,))
        optimizer = algorithm(params, lr=0.01, **options)
        for step in range(3):
            give(params, step)
            optimizer.step()
        return params

    by_kernel = stepped()
    monkeypatch.setattr(algorithm, "_kernel", None)
    for one, other in zip(by_kernel, stepped(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
