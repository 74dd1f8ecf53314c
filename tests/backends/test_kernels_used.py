"""`backends.kernels_used` says which kernel ran for each call of an operator."""

from __future__ import annotations

import threading

import pullback as torch
from pullback.operators.arrays import native
from pullback.operators.dispatch.observers import observers


def ran(used):
    return [(one.operator, one.kernel) for one in used]


def test_each_call_is_noted_with_the_kernel_that_its_size_and_dtype_chose():
    few, many, whole = torch.ones(10), torch.ones(40_000), torch.ones(10, dtype=torch.int64)
    with torch.backends.kernels_used() as used:
        few.sum()
        few.reshape(2, 5).sum()
        many.sum()
        whole.sum()
        (few > 0).sum()
    assert [kernel for operator, kernel in ran(used) if operator == "sum.full"] == [
        *("short_by_dot", "few_by_dot", "meaning", "meaning", "truths_counted")
    ]
    assert "input_size <= 64" in next(str(one) for one in used if one.kernel == "short_by_dot")


def test_the_forms_of_a_formula_are_told_apart():
    gelu, sizes = torch.nn.functional.gelu, (3, 1000, 5000, 200_000)
    before = gelu(torch.ones(3))
    with torch.backends.kernels_used() as used:
        for size in sizes:
            gelu(torch.ones(size))
        gelu(torch.tensor(1.0))
        torch.tanh(torch.ones(3))
    many = ["machine_code"] * 2 if native.is_wanted() else ["lines_at_once", "lines_in_blocks"]
    wanted = ["few_lines", "lines_at_once", *many, "lines_that_broadcast"]
    assert ran(used) == [*(("gelu", one) for one in wanted), ("tanh", "meaning")]
    assert used[0].when == "input_size < 500 and input_ndim"
    assert torch.equal(gelu(torch.ones(3)), before)
    x = torch.ones(3, requires_grad=True)
    y = gelu(x).sum()
    with torch.backends.kernels_used() as used:
        y.backward()
    assert ("_gelu_backward", "few_lines") in ran(used)


def test_operators_without_kernels_and_those_in_backward_passes_are_noted():
    x = torch.ones(3, 4, requires_grad=True)
    with torch.backends.kernels_used() as used:
        y = (x * x).mean()
    assert ran(used) == [("mul", "meaning"), ("mean.full", "few_means")]
    bias = torch.ones(4, requires_grad=True)
    z = (bias + torch.ones(3, 4)).prod(1).sum()
    with torch.backends.kernels_used() as used:
        z.backward()
    y.backward()
    assert {operator for operator, _ in ran(used)} <= {*("sum", "sum.full", "prod")}


def test_nothing_is_noted_afterwards_nor_left_behind():
    torch.ones(3).sum()
    forward = torch.operators.declare.OPERATORS["sum.full"].forward
    before = forward.__code__.co_code
    with torch.backends.kernels_used() as used, torch.backends.kernels_used() as inner:
        torch.ones(3).sum()
    torch.ones(3).sum()
    assert ran(used) == ran(inner) == [("sum.full", "short_by_dot")]
    assert forward.__code__.co_code == before
    torch.sigmoid(torch.ones(3))
    with torch.backends.kernels_used() as used:
        torch.sigmoid(torch.ones(3))
    torch.sigmoid(torch.ones(3))
    (kernel,) = torch.sigmoid.op.formula.table.values()
    assert ran(used) == [("sigmoid", "few_lines")]
    assert "ran" not in kernel.__code__.co_names
    assert observers.active is None


def test_calls_of_other_threads_are_noted_too():
    x = torch.ones(5)
    with torch.backends.kernels_used() as used:
        thread = threading.Thread(target=x.sum)
        thread.start()
        thread.join()
    assert ran(used) == [("sum.full", "short_by_dot")]
