"""A Function's backward: what it gets, what it may return, higher derivatives (F-61 to F-77)."""

import threading
import traceback
import warnings

import numpy as np
import pytest

import pullback as torch
from pullback.autograd.function import Function, once_differentiable
from pullback.engine import request as engine


def leaf(*values, dtype=torch.float64):
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


@pytest.fixture(params=["plain", "ordered", "recorded"])
def run(request, monkeypatch):
    """backward() through each of the engine's passes."""
    if request.param == "ordered":
        monkeypatch.setattr(engine, "always_ordered", True)

    def backward(out):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of the cycle that create_graph makes, once per process
            out.sum().backward(create_graph=request.param == "recorded")

    return backward


def returning(backward):
    class Mine(Function):
        @staticmethod
        def forward(ctx, x, *rest):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return backward(g)

    return Mine


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_inside_is_create_graph(create_graph):
    """F-61."""
    seen = []

    def backward(g):
        seen.append((torch.is_grad_enabled(), g.requires_grad))
        return g * 2

    x, w = leaf(1.0), leaf(2.0)
    out = returning(backward).apply(x) * w
    torch.autograd.grad(out.sum(), x, create_graph=create_graph)
    assert seen == [(create_graph, create_graph)]


def test_grad_mode_changed_inside_ends_there(run):
    """E-123."""
    modes = []

    def backward(g):
        modes.append(torch.is_grad_enabled())
        torch.set_grad_enabled(not modes[0])
        return g

    x = leaf(1.0)
    mine = returning(backward)
    run(mine.apply(mine.apply(x)))
    assert modes[0] == modes[1]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("returned", "numbers"), [((), "expected 1, got 0"), ((1, 1), "expected 1, got 2")]
)
def test_wrong_number_of_gradients(run, returned, numbers):
    """F-62."""
    mine = returning(lambda g: tuple(g for _ in returned))
    with pytest.raises(RuntimeError, match=f"MineBackward.*{numbers}"):
        run(mine.apply(leaf(1.0)))


def test_surplus_none_is_ignored(run):
    """F-62."""
    x = leaf(1.0)
    run(returning(lambda g: (g * 2, None, None)).apply(x))
    assert x.grad.tolist() == [2.0]


def test_a_list_is_told_from_a_tuple(run):
    """F-62, F-63."""
    with pytest.raises(RuntimeError, match=r"MineBackward.*got 1.*tuple, not a list"):
        run(returning(lambda g: [g, None]).apply(leaf(1.0), 3))


@pytest.mark.parametrize("value", [2.0, np.ones(1), [1], np.float64(3)])
def test_gradients_must_be_tensors(run, value):
    """F-63, pitfall 9."""
    name = type(value).__name__
    with pytest.raises(RuntimeError, match=f"MineBackward.*returned a {name} at position 1"):
        run(returning(lambda g: value).apply(leaf(1.0)))


def test_no_gradient_for_arguments_that_are_no_tensors(run):
    """F-63."""
    with pytest.raises(RuntimeError, match=r"MineBackward.*position 2.*not a tensor"):
        run(returning(lambda g: (g, g)).apply(leaf(1.0), 3))


def test_none_means_no_gradient(run):
    """F-64."""
    log = []
    x = leaf(1.0)
    y = x * 1
    y.register_hook(lambda g: log.append(g))
    run(returning(lambda g: None).apply(y))
    assert x.grad is None
    assert log == [None]


def test_gradient_for_an_untracked_tensor_is_ignored_unchecked(run):
    """F-64."""
    x = leaf(1.0)
    run(returning(lambda g: (g, torch.ones(7, 7))).apply(x, torch.ones(2)))
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1,), (2, 1, 3), (2, 4, 3)])
def test_broadcast_gradients_are_summed(run, shape):
    """F-65."""
    x = torch.ones(shape[-1:] if len(shape) == 1 else (1, shape[-1]), dtype=torch.float64)
    x.requires_grad_()
    wide = torch.ones(4, *shape, dtype=torch.float64)
    run(returning(lambda g: wide).apply(x))
    assert x.grad.shape == x.shape
    assert x.grad.sum().item() == wide.sum().item()


def test_broadcast_gradient_for_a_scalar_and_an_empty_tensor(run):
    """F-65, pitfall 10."""
    x = torch.tensor(1.0, requires_grad=True)
    run(returning(lambda g: torch.ones(2, 3)).apply(x))
    assert x.grad.item() == 6.0
    empty = torch.ones(0, 2, requires_grad=True)
    run(returning(lambda g: torch.ones(3, 0, 2)).apply(empty))
    assert tuple(empty.grad.shape) == (0, 2)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (4,)])
def test_other_shapes_are_refused(run, shape):
    """F-65."""
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match=r"MineBackward .* index 0: got shape .* shape \(3,\)"):
        run(returning(lambda g: torch.ones(shape)).apply(x))


@pytest.mark.parametrize(
    ("have", "give"),
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.int64),
        (torch.complex128, torch.float64),
        (torch.float32, torch.bool),
    ],
)
def test_gradients_are_cast(run, have, give):
    """F-66."""
    x = leaf(1.0, dtype=have)
    out = returning(lambda g: torch.ones(1).to(give)).apply(x)
    run(out.real if have.is_complex else out)
    assert x.grad.dtype == have
    assert x.grad.tolist() == [1.0]


def test_complex_gradient_of_a_real_tensor_is_refused(run):
    """F-66."""
    with pytest.raises(RuntimeError, match=r"MineBackward .* complex gradient at index 0"):
        run(returning(lambda g: g * 1j).apply(leaf(1.0)))


def test_returned_tensors_are_never_adopted(run):
    """F-69, V-120."""
    kept = torch.ones(2, dtype=torch.float64)

    class Two(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x)
            return x * w

        @staticmethod
        def backward(ctx, g):
            seen.append(g)
            return {"same": (g, g), "kept": (kept, kept), "saved": (ctx.saved_tensors[0],) * 2}[
                kind
            ]

    for kind in ("same", "kept", "saved"):
        seen = []
        x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        out = Two.apply(x, w)
        (out * 1).sum().backward()
        memory = [t.detach().numpy() for t in (x.grad, w.grad, kept, seen[0], x)]
        for i, a in enumerate(memory):
            assert not any(np.shares_memory(a, b) for b in memory[i + 1 :]), kind
        x.grad.add_(1)
        assert w.grad.tolist() == {"same": [1, 1], "kept": [1, 1], "saved": [1, 2]}[kind]
    assert kept.tolist() == [1.0, 1.0]


def test_sums_never_change_what_a_backward_returned(run):
    """F-69, E-77."""
    kept = torch.ones(2, dtype=torch.float64)
    x = leaf(1.0, 2.0)
    mine = returning(lambda g: kept)
    y = x * 1
    run(mine.apply(y) + mine.apply(y) + mine.apply(y) + y)
    assert x.grad.tolist() == [4.0, 4.0]
    assert kept.tolist() == [1.0, 1.0]


def test_hook_results_are_never_adopted():
    """E-92."""
    kept = torch.ones(2, dtype=torch.float64)
    x = leaf(1.0, 2.0)
    y = x * 1
    y.grad_fn.register_hook(lambda gi, go: (kept, *gi[1:]))
    y.sum().backward()
    x.grad.add_(5)
    assert kept.tolist() == [1.0, 1.0]


def test_boxed_gradients(run):
    """F-70."""
    seen = []

    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            seen.append(type(grads))
            first = grads.pop(0)
            return first * 2 + grads.pop() * 3

    x = leaf(1.0)
    a, b = Boxed.apply(x)
    assert a.grad_fn.apply(torch.ones(1), torch.ones(1)).tolist() == [5.0]
    run(a + b)
    assert x.grad.tolist() == [5.0]
    assert set(seen) == {list}


def test_backward_may_call_backward(run):
    """F-71."""

    class Solves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                inner = (returning(lambda h: h * 2).apply(x) * x).sum()
            (slope,) = torch.autograd.grad(inner, x)
            return g * slope / 2

    x = leaf(3.0)
    run(Solves.apply(Solves.apply(x)))
    assert x.grad is not None
    assert x.grad.tolist() == [108.0]


def test_backward_may_run_in_another_thread():
    """F-71."""
    x = leaf(1.0)
    out = returning(lambda g: g * 2).apply(x)
    thread = threading.Thread(target=lambda: out.sum().backward())
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2.0]


def test_exceptions_reach_the_caller_as_they_are(run):
    """F-72."""

    def backward(g):
        raise KeyError("the user's own")

    x, w = leaf(1.0), leaf(2.0)
    out = returning(backward).apply(x * 1) * w
    with pytest.raises(KeyError, match="the user's own") as caught:
        run(out)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "backward" in frames
    assert any("MineBackward" in note for note in caught.value.__notes__)
    assert any("test_gradients.py" in note for note in caught.value.__notes__)


# Higher derivatives -------------------------------------------------------------------------------


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.x = x
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * ctx.x


def test_derivatives_of_every_order():
    """F-73."""
    x = leaf(2.0)
    y = Cube.apply(x)
    for expected in (12.0, 12.0, 6.0):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == [expected]


def test_derivatives_through_a_saved_output():
    """F-73."""

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(0.5)
    y = Exp.apply(x)
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.item() == pytest.approx(np.exp(0.5))


def test_derivatives_through_a_saved_intermediate_are_missing():
    """F-74."""

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            twice = x * 2
            ctx.save_for_backward(twice)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(3.0)
    (g,) = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    assert g.tolist() == [6.0]
    assert not g.requires_grad


def once(forward, backward):
    class Mine(Function):
        pass

    Mine.forward = staticmethod(forward)
    Mine.backward = staticmethod(once_differentiable(backward))
    return Mine


def test_once_differentiable_runs_with_grad_mode_off():
    """F-75."""
    modes = []

    def backward(ctx, g):
        modes.append(torch.is_grad_enabled())
        return g * 2

    assert once_differentiable(backward).__name__ == "backward"
    mine = once(lambda ctx, x: x * 2, backward)
    x = leaf(1.0)
    mine.apply(x).sum().backward()
    (g,) = torch.autograd.grad(mine.apply(x).sum(), x, create_graph=True)
    assert modes == [False, False]
    assert x.grad.tolist() == g.tolist() == [2.0]
    assert not g.requires_grad


def test_once_differentiable_refuses_a_second_time():
    """F-76, F-77."""
    mine = once(lambda ctx, x, w: (x * 2, w * 1), lambda ctx, g, h: (g * 2, None))
    x, w = leaf(1.0), leaf(1.0)
    a, _ = mine.apply(x, w)
    (g,) = torch.autograd.grad((a * a).sum(), x, create_graph=True)
    assert type(g.grad_fn).__name__ == "Error"
    with pytest.raises(RuntimeError, match=r"differentiated twice.*once_differentiable"):
        g.sum().backward()
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(g.sum(), w)
