"""Counting operations: formulas, modules, tables."""

import pytest

import pullback as torch
import pullback.nn.modules.module as modules
from pullback.nn import functional
from pullback.utils import flop_counter
from pullback.utils.flop_counter import FlopCounterMode, register_flop_formula
from pullback.utils.module_tracker import ModuleTracker

by_module = pytest.mark.skipif(
    not hasattr(modules, "register_module_forward_hook"), reason="modules have no global hooks"
)


def counted(program, *shapes):
    """Operations of a program and its backward pass, by the operator's name."""
    inputs = [torch.ones(shape, requires_grad=True) for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        program(*inputs).sum().backward()
    return {str(op): flops for op, flops in counter.get_flop_counts()["Global"].items()}


def test_products_of_matrices():
    assert counted(torch.mm, (2, 3), (3, 4)) == {"aten.mm": 3 * 48}
    assert counted(lambda x, w, b: functional.linear(x, w, b), (2, 3), (4, 3), (4,)) == {
        "aten.addmm": 48,
        "aten.mm": 96,
    }
    assert counted(torch.matmul, (2, 3, 4), (2, 4, 5)) == {"aten.bmm": 3 * 240}
    assert counted(torch.matmul, (2, 1, 3, 4), (5, 4, 2)) == {"aten.bmm": 3 * 480}
    assert counted(lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)) == {
        "aten.bmm": 3 * 240
    }
    baddbmm = counted(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5))
    assert baddbmm == {"aten.baddbmm": 240, "aten.bmm": 480}


def test_convolutions():
    strided = counted(
        lambda x, w: functional.conv2d(x, w, stride=2, padding=1), (2, 3, 6, 6), (4, 3, 3, 3)
    )
    assert strided == {
        "aten.convolution": 3888,
        "aten.convolution_backward": 7776,
    }
    assert counted(functional.conv_transpose1d, (1, 2, 5), (2, 3, 3)) == {
        "aten.convolution": 180,
        "aten.convolution_backward": 360,
    }


def test_attention_is_its_products():
    counts = counted(
        functional.scaled_dot_product_attention, (1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 3)
    )
    forward = flop_counter.sdpa_flop_count((1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 3))
    assert counts == {"aten.bmm": 3 * forward}


def test_formulas_of_users():
    @register_flop_formula(torch.ops.aten.relu)
    def relu_flop(shape, *args, out_shape=None, **kwargs):
        assert out_shape == shape
        return 7

    try:
        with FlopCounterMode(display=False) as counter:
            torch.ones(3).relu()
        assert counter.get_total_flops() == 7
    finally:
        del flop_counter.flop_registry[torch.ops.aten.relu]
    with FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.sin: lambda *a, **k: 9}
    ) as counter:
        torch.ones(3).sin()
    assert counter.get_flop_counts()["Global"] == {torch.ops.aten.sin: 9}


def test_a_counter_starts_anew_each_time():
    counter = FlopCounterMode(display=False)
    assert counter.get_total_flops() == 0
    for _ in range(2):
        with counter:
            torch.ones(2, 3) @ torch.ones(3, 4)
        assert counter.get_total_flops() == 48


def test_the_table_is_printed_at_the_end(capsys):
    with FlopCounterMode():
        torch.ones(20, 30) @ torch.ones(30, 40)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"]
    assert lines[2].split() == ["Global", "48.000K", "100.00%"]
    assert lines[3].split() == ["-", "aten.mm", "48.000K", "100.00%"]


@by_module
def test_modules_have_their_own_counts_forward_and_backward():
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 4))
    )
    with FlopCounterMode(display=False) as counter:
        net(torch.ones(2, 2)).sum().backward()
    counts = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    assert counts == {
        "Global": 192,
        "Sequential": 192,
        "Sequential.0": 48,
        "Sequential.1": 144,
        "Sequential.1.1": 144,
    }
    assert "Sequential.1.1" not in counter.get_table(depth=2)
    assert "Sequential.1.1" in counter.get_table(depth=3)


@by_module
def test_the_tracker_knows_who_runs():
    seen = []

    class Look(torch.nn.Module):
        def forward(self, x):
            seen.append(sorted(tracker.parents))
            return x * 2

    net = torch.nn.Sequential(Look())
    with ModuleTracker() as tracker:
        net(torch.ones(1))
        assert tracker.parents == {"Global"}
        assert not tracker.is_bw
    assert seen == [["Global", "Sequential", "Sequential.0"]]


def test_a_second_formula_and_one_for_an_overload_are_refused():
    from pullback.utils.flop_counter import register_flop_formula

    with pytest.raises(RuntimeError, match="already"):
        register_flop_formula(torch.ops.aten.mm)(lambda *args, **kwargs: 1)
    for target in (torch.ops.aten.relu.default, 3):
        with pytest.raises(ValueError, match="mylib"):
            register_flop_formula(target)(lambda *args, **kwargs: 1)
