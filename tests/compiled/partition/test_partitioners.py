"""Partitioners: what is kept between forward and backward, and what is computed again."""

import itertools
import math

import numpy as np
import pytest
from pullback._functorch.aot_autograd import aot_export_joint_simple, aot_function, nop
from pullback._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)

import pullback as torch
from pullback.compiled.partition import config
from pullback.compiled.partition.network import Network
from pullback.utils.checkpoint import CheckpointPolicy


def joint_of(f, *args):
    return aot_export_joint_simple(f, args, trace_joint=True)


def chain(x):
    return (x.sin().exp().tanh().sigmoid(),)


def leaf(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, requires_grad=True)


def about(f, *args, partition=min_cut_rematerialization_partition, outputs=1):
    forward, _ = partition(joint_of(f, *args), num_fwd_outputs=outputs)
    return forward.meta["partition"]


def test_by_default_all_that_backward_reads_is_kept():
    """K-54: eager keeps the operands and results that its formulas name."""
    kept = about(chain, leaf(8), partition=default_partition)
    assert sorted(kept.saved) == ["exp", "sigmoid", "tanh"]
    assert kept.inputs == ["primals_1"]
    assert not kept.recomputed


def test_equal_operators_are_merged_and_unread_ones_dropped():
    """K-54"""
    x = leaf(8)

    def f(x):
        x.tan()  # which nobody reads
        return x.sin() * x.sin(), x.cos() * 0 + x

    forward, _ = default_partition(joint_of(f, x), num_fwd_outputs=2)
    names = [node.name for node in forward.graph.nodes if node.op == "call_function"]
    assert names.count("sin") == 1
    assert "sin_1" not in names
    assert "cos" in names
    assert "tan" not in names


def test_cheap_chains_are_computed_again_from_inputs():
    """K-55: inputs are free to keep."""
    found = about(chain, leaf(8))
    assert found.bytes == 0
    assert found.inputs == ["primals_1"]
    assert found.recomputed == ["sin", "exp", "tanh", "sigmoid"]


def test_products_and_reductions_never_run_twice():
    """K-55"""
    w = leaf(8, 4)

    def f(x, w):
        h = x @ w
        return ((h - h.logsumexp(-1, keepdim=True)).exp().sin(),)

    found = about(f, leaf(6, 8), w)
    assert found.bytes == 6 * 4 * 4  # one of the two values that the product's shape has
    assert not any("mm" in name or "logsumexp" in name for name in found.recomputed)
    assert "exp" in found.recomputed


def test_random_numbers_are_drawn_once():
    """K-52, K-55"""
    x = leaf(64)

    def f(x):
        return torch.nn.functional.dropout(x.exp(), 0.5).sin()

    g = aot_function(f, nop, partition_fn=min_cut_rematerialization_partition)
    results = []
    for one in (f, g):
        torch.manual_seed(3)
        made = one(x)
        results.append((made, *torch.autograd.grad(made.sum(), x), torch.rand(2)))
    for ours, eager in zip(*results, strict=True):
        assert torch.equal(ours, eager)


def test_views_and_casts_are_computed_again():
    """K-55"""

    def f(x, w):
        return ((x @ w).t().to(torch.float64).sin(),)

    found = about(f, leaf(3, 4), leaf(4, 5))
    assert list(found.saved) == ["mm"]
    assert len(found.recomputed) >= 2


STEPS = [
    lambda a, b, w: a.sin(),
    lambda a, b, w: a * b,
    lambda a, b, w: a.tanh() + b,
    lambda a, b, w: (a @ w) * 0.1,
    lambda a, b, w: a.softmax(-1),
    lambda a, b, w: a.t().exp().clamp(max=3).t(),
    lambda a, b, w: a - a.mean(0),
]


@pytest.mark.parametrize("seed", range(12))
def test_the_cut_is_the_least_and_results_are_the_same(seed):
    """K-56: random programs; never more memory than by default, the same bits."""
    w = leaf(6, 6)

    def f(x):
        rng = np.random.default_rng(seed)
        pool = [x]
        for _ in range(8):
            a, b = pool[int(rng.integers(len(pool)))], pool[int(rng.integers(len(pool)))]
            made = STEPS[int(rng.integers(len(STEPS)))](a, b, w)
            pool.append(made)
        return pool[-1], pool[-2]

    x = leaf(6, 6)
    usual = about(f, x, partition=default_partition, outputs=2)
    least = about(f, x, outputs=2)
    assert least.bytes <= usual.bytes
    results = []
    for partition in (default_partition, min_cut_rematerialization_partition):
        made = aot_function(f, nop, partition_fn=partition)(x)
        roots = [one for one in made if one.requires_grad]
        seeds = [torch.full_like(one, 0.5) for one in roots]
        results.append([*made, *torch.autograd.grad(roots, [x], seeds)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def deep(x, w):
    for _ in range(6):
        x = (x @ w).tanh()
    return (x,)


def test_a_budget_trades_memory_for_work():
    """K-57"""
    args = leaf(16, 16), leaf(16, 16)
    found = {}
    for budget in (1.0, 0.5, 0.0):
        with config.patch(activation_memory_budget=budget):
            found[budget] = about(deep, *args)
    assert found[1.0].bytes > found[0.5].bytes > found[0.0].bytes == 0
    assert found[0.5].bytes <= found[1.0].bytes / 2
    assert len(found[0.0].recomputed) > len(found[0.5].recomputed) > len(found[1.0].recomputed)
    wanted = torch.autograd.grad(deep(*args)[0].sum(), args)
    with config.patch(activation_memory_budget=0.0):
        g = aot_function(deep, nop, partition_fn=min_cut_rematerialization_partition)
        for a, b in zip(torch.autograd.grad(g(*args)[0].sum(), args), wanted, strict=True):
            assert torch.equal(a, b)
    with (
        config.patch(activation_memory_budget=2.0),
        pytest.raises(RuntimeError, match="between 0 and 1"),
    ):
        about(deep, *args)


def test_settings_change_what_may_run_twice():
    """K-57"""

    def f(x):
        return ((x * 2).sum(-1, keepdim=True).exp().sin() * x,)

    x = leaf(8, 8)
    assert about(f, x).saved
    with config.patch(ban_recompute_reductions=False, aggressive_recomputation=True):
        assert not about(f, x).saved


def test_policies_are_obeyed():
    """K-58"""
    x = leaf(8)
    joint = joint_of(chain, x)
    for node in joint.graph.nodes:
        if node.name == "tanh":
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    forward, _ = min_cut_rematerialization_partition(joint, num_fwd_outputs=1)
    assert list(forward.meta["partition"].saved) == ["tanh"]

    def f(x, w):
        return ((x @ w).tanh(),)

    joint = joint_of(f, leaf(4, 4), leaf(4, 4))
    for node in joint.graph.nodes:
        if node.op == "call_function":
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    forward, _ = min_cut_rematerialization_partition(joint, num_fwd_outputs=1)
    assert not forward.meta["partition"].saved


def test_a_partition_can_be_looked_at():
    """K-59"""
    text = str(about(deep, leaf(16, 16), leaf(16, 16)))
    assert "mm: 1024 bytes" in text
    assert "computed again: tanh" in text
    assert about(deep, leaf(16, 16), leaf(16, 16)).peak > 0


def test_a_minimum_cut_is_one():
    """Against all cuts of small networks."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        count = int(rng.integers(3, 7))
        edges = [
            (int(a), int(b), float(rng.integers(1, 9)))
            for a, b in rng.integers(0, count, (12, 2)) if a != b
        ]  # fmt: skip
        network = Network()
        for _ in range(count):
            network.node()
        for edge in edges:
            network.edge(*edge)
        near = network.near(0, count - 1)
        price = sum(c for a, b, c in edges if a in near and b not in near)
        least = math.inf
        for some in itertools.product([True, False], repeat=count - 2):
            inside = {0, *(n + 1 for n, chosen in enumerate(some) if chosen)}
            least = min(least, sum(c for a, b, c in edges if a in inside and b not in inside))
        assert price == least


def test_settings_and_names_are_found_where_torch_has_them():
    """K-37, K-57"""
    from pullback._functorch import config as under_torchs_name
    from pullback.functorch import compile as gathered

    assert under_torchs_name is config
    assert gathered.config is config
    assert gathered.aot_function is aot_function
