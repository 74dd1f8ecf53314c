"""Anomaly mode and captured backward passes: NaN is looked for at the end, and its node named."""

import math

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from pullback.compiler import compiled_autograd

BLOCKS = {
    "python": lambda: compiled_autograd(backend="python", fallback="error"),
    "llvm": lambda: compiled_autograd(backend="llvm", fallback="error"),
    "a compiler of the user's": lambda: module._enable(lambda graph: graph),
}
seen = []


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        seen.append("Twice")
        return g * 2


@pytest.fixture(params=BLOCKS)
def block(request):
    if request.param == "llvm":
        pytest.importorskip("llvmlite")
    module.reset()
    seen.clear()
    return BLOCKS[request.param]


def root_of_zero(x):
    """What has NaN in its backward at 0, in its second node from the end."""
    return (x * 1).sqrt() * 0


def captured():
    return counters["compiled_autograd"]["captures"]


def test_it_names_leaf_node_and_forward_line_and_consumes_nothing(block):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    w.grad = stored = torch.ones(2)
    with torch.autograd.set_detect_anomaly(True), block():
        y = (root_of_zero(x) * w).sum()
        for _ in range(2):
            with (
                pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward0.*sqrt\(\)"),
                pytest.raises(
                    RuntimeError, match=r"leaf of shape \(2,\).*SqrtBackward0 returned"
                ) as caught,
            ):
                y.backward()
            assert caught.type is RuntimeError
    assert captured() == 1
    assert x.grad is None
    assert w.grad is stored
    assert torch.equal(w.grad, torch.ones(2))
    y.backward()  # nothing was released
    assert x.grad.isnan().any()


def test_it_names_inputs_of_grad(block):
    x = torch.tensor([0.0], requires_grad=True)
    w = torch.ones(1, requires_grad=True)
    with (
        torch.autograd.set_detect_anomaly(True),
        block(),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match=r"inputs\[1\] of grad\(\), of shape \(1,\)"),
    ):
        torch.autograd.grad((root_of_zero(x) + w).sum(), [w, x])


def test_code_of_users_runs_once_and_their_leaves_are_put_back(block):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    w.grad = stored = torch.ones(2)
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append("leaf"))
    with torch.autograd.set_detect_anomaly(True), block():
        h = root_of_zero(x)
        later = w.exp()  # newer nodes come first
        later.register_hook(lambda g: seen.append("hook"))
        y = Twice.apply((h * 2 + h.detach()).sum()) + later.sin().sum()
        with (
            pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
            pytest.raises(RuntimeError, match="SqrtBackward0 returned nan"),
        ):
            y.backward()
    assert captured() == 1
    assert sorted(seen) == ["Twice", "hook", "leaf"]
    assert x.grad is None
    assert w.grad is stored
    assert torch.equal(stored, torch.ones(2))


def test_a_function_that_gives_nan_is_named(block):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append("Bad")
            return g * float("nan")

    x = torch.ones(3, requires_grad=True)
    with (
        torch.autograd.set_detect_anomaly(True),
        block(),
        pytest.warns(UserWarning, match="Error detected in BadBackward"),
        pytest.raises(RuntimeError, match="BadBackward returned nan"),
    ):
        Bad.apply(x.exp()).sin().sum().backward()
    assert seen == ["Bad"]
    assert x.grad is None


def test_passes_without_nan_are_those_of_other_days(block):
    """One program serves graphs recorded with and without the mode, and passes in and out of it."""
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    expected = torch.autograd.grad((x.exp() * 3).sin().sum(), x)[0]

    def step():
        y = (x.exp() * 3).sin()
        y.register_hook(lambda g: seen.append(1))
        for out in (y.sum(), (x.exp() * 3).sin().sum()):
            x.grad = None
            out.backward()
            torch.testing.assert_close(x.grad, expected, rtol=1e-5, atol=1e-6)

    with block():
        step()
        before = captured()
        for check in (True, False):
            with torch.autograd.set_detect_anomaly(True, check_nan=check):
                step()
        step()
    assert captured() == before
    assert len(seen) == 4


def test_without_a_search_nothing_is_raised(block):
    x = torch.tensor([0.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False), block():
        root_of_zero(x).sum().backward()
    assert captured() == 1
    assert x.grad.isnan().all()


def test_nan_that_comes_with_the_first_gradient_is_told(block):
    x = torch.ones(2, requires_grad=True)
    with (
        torch.autograd.set_detect_anomaly(True),
        block(),
        pytest.raises(RuntimeError, match=r"leaf of shape.*came with the first gradients"),
    ):
        x.backward(torch.tensor([1.0, float("nan")]))
    assert x.grad is None


def test_a_sparse_grad_is_put_back():
    table = torch.nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    before = table.weight.grad.to_dense()
    x = torch.tensor([0.0], requires_grad=True)
    module.reset()
    with torch.autograd.set_detect_anomaly(True), compiled_autograd(backend="python"):
        h = root_of_zero(x)
        rows = table(torch.tensor([1, 3]))
        rows.register_hook(lambda g: None)
        y = h.sum() + rows.exp().sum()
        with (
            pytest.warns(UserWarning, match="Error detected in"),
            pytest.raises(RuntimeError, match="returned nan"),
        ):
            y.backward()
    assert torch.equal(table.weight.grad.to_dense(), before)


@pytest.mark.parametrize("factor", [0.0, -0.0, 0, 1e-200, 1e300, math.inf])
def test_a_factor_may_be_any_number(factor):
    """A graph whose factors are its inputs is told from other numbers than these."""
    compiled = []
    module.reset()
    for number in (factor, 2.0):
        x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
        with module._enable(lambda graph: compiled.append(graph) or graph):
            (x.exp() * number).sum().backward()
        assert torch.equal(x.grad, x.exp() * number)
