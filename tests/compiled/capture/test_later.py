"""Hooks, custom Functions and checkpoints in compiled functions: eager runs them with the pass."""

import functools

import pytest

import pullback as torch
from pullback.autograd.function import once_differentiable
from pullback.compiled.capture.reasons import CannotCapture
from pullback.utils.checkpoint import checkpoint
from tests.compiled.closeness import close


def _x(requires_grad=True):
    made = torch.arange(6, dtype=torch.float64).reshape(2, 3) * 0.3 - 0.5
    return made.requires_grad_(requires_grad)


def _gradient(f):
    x = _x()
    f(x).backward()
    return x.grad


def _is_eager(f, reason):
    """That each call runs the function, for this reason."""
    assert not f.entries
    assert any(reason in one for one in f.reasons), f.reasons


class _Triple(torch.autograd.Function):
    """Its backward does what `doing` does, with the gradient."""

    doing = staticmethod(lambda g: g * 3)

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return _Triple.doing(g)


# Writes ------------------------------------------------------------------------------------------


def test_a_hook_that_counts_counts_each_pass(compiled):
    seen = []

    def f(x):
        y = x.sin()
        y.register_hook(lambda g: seen.append(12.0))
        return (y * 2).sum()

    g = compiled(f)
    for turn in range(3):
        close(_gradient(g), 2 * _x(requires_grad=False).cos())
        assert seen == [12.0] * (turn + 1)
    _is_eager(g, "list is written by code that runs in the backward pass")


def test_a_backward_of_a_function_that_writes_outside_is_eager(compiled, monkeypatch):
    class Held:
        gradient = None

    held = Held()

    def keep(g):
        held.gradient = g
        return g * 3

    monkeypatch.setattr(_Triple, "doing", keep)
    f = compiled(lambda x: _Triple.apply(x).sum())
    for _ in range(3):
        held.gradient = None
        close(_gradient(f), torch.full((2, 3), 3.0, dtype=torch.float64))
        close(held.gradient, torch.ones(2, 3, dtype=torch.float64))
    _is_eager(f, "written by code that runs in the backward pass")


def test_a_hook_that_writes_to_a_tensor_is_eager(compiled):
    total = torch.zeros(3, dtype=torch.float64)

    def f(x):
        y = x * 2
        y.register_hook(lambda g: g + 0 * total.add_(g.sum(0)))
        return y.sum()

    g = compiled(f)
    for turn in range(3):
        _gradient(g)
        close(total, torch.full((3,), 2.0 * (turn + 1), dtype=torch.float64))
    _is_eager(g, "writes to what was there before")


def test_what_the_function_returned_may_grow_in_the_pass(compiled):
    def f(x):
        found, count = [], torch.zeros(1, dtype=torch.float64)
        y = x * 2
        y.register_hook(lambda g: found.append(g))
        y.register_hook(lambda g: count.add_(1) * 0 + g)
        return y.sum(), found, count

    g = compiled(f)
    for _ in range(2):
        loss, found, count = g(_x())
        loss.backward()
        assert len(found) == 1
        assert float(count) == 1


def test_what_a_function_keeps_on_its_ctx_changes_with_each_pass(compiled):
    class Growing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.passes = 0
            return x * 1

        @staticmethod
        def backward(ctx, g):
            ctx.passes += 1
            return g * ctx.passes

    f = compiled(lambda x: Growing.apply(x).sum())
    x = _x()
    loss = f(x)
    loss.backward(retain_graph=True)
    loss.backward()
    close(x.grad, torch.full((2, 3), 3.0, dtype=torch.float64))
    _is_eager(f, "changes a")


def test_a_generator_that_a_hook_uses_up_is_eager(compiled):
    def f(x):
        factors = iter([2.0, 5.0])
        y = x * 1
        y.register_hook(lambda g: g * next(factors))
        return y.sum()

    g = compiled(f)
    x = _x()
    loss = g(x)
    loss.backward(retain_graph=True)
    loss.backward()
    close(x.grad, torch.full((2, 3), 7.0, dtype=torch.float64))
    _is_eager(g, "uses up what was there before")


# Reads -------------------------------------------------------------------------------------------


def test_what_a_hook_reads_must_be_there_when_the_pass_comes(compiled):
    factor = [2.0]

    def f(x):
        y = x.sin()
        y.register_hook(lambda g: g * factor[0])
        return y.sum()

    g = compiled(f)
    cos = _x(requires_grad=False).cos()
    close(_gradient(g), 2 * cos)
    factor[0] = 4.0
    close(_gradient(g), 4 * cos)
    x = _x()
    loss = g(x)
    factor[0] = 8.0
    with pytest.raises(RuntimeError, match=r"captured with the forward.*was 4\.0"):
        loss.backward()
    factor[0] = 4.0
    loss.backward()
    close(x.grad, 4 * cos)
    assert g.entries


def test_what_a_function_reads_must_be_there_when_the_pass_comes(compiled, monkeypatch):
    f = compiled(lambda x: _Triple.apply(x).sum())
    close(_gradient(f), torch.full((2, 3), 3.0, dtype=torch.float64))
    loss = f(_x())
    monkeypatch.setattr(_Triple, "doing", lambda g: g * 5)
    with pytest.raises(RuntimeError, match="captured with the forward"):
        loss.backward()
    close(_gradient(f), torch.full((2, 3), 5.0, dtype=torch.float64))


def test_a_tensor_that_a_hook_reads_must_be_unchanged_when_the_pass_comes(compiled):
    scale = torch.ones(3, dtype=torch.float64)

    def f(x, given):
        part = given[0]
        y = x * 2
        y.register_hook(lambda g: g * scale * part)
        return y.sum()

    g = compiled(f)
    given = torch.ones(2, dtype=torch.float64)
    for changed in (scale, given):
        x = _x()
        g(x, given).backward()
        loss = g(x, given)
        changed.mul_(2)
        with pytest.raises(RuntimeError, match=r"a tensor of shape \(\d,\)"):
            loss.backward()
    assert g.entries


def test_what_a_hook_reads_of_an_argument_is_read_then(compiled):
    def f(x, options):
        y = x * 1
        y.register_hook(lambda g: g * options["factor"])
        return y.sum()

    g = compiled(f)
    for factor in (3.0, 4.0):
        x, options = _x(), {"factor": 2.0}
        loss = g(x, options)
        options["factor"] = factor
        loss.backward()
        close(x.grad, torch.full((2, 3), factor, dtype=torch.float64))
    _is_eager(g, "reads argument 1")


def test_a_number_that_each_call_writes_anew_is_not_read_by_a_hook(compiled):
    class State:
        calls = 0

    state = State()

    def f(x):
        state.calls += 1
        y = x * 1
        y.register_hook(lambda g: g * state.calls)
        return y.sum()

    g = compiled(f)
    for turn in range(4):
        close(_gradient(g), torch.full((2, 3), turn + 1.0, dtype=torch.float64))


@pytest.mark.parametrize("wraps", [once_differentiable, torch.amp.custom_bwd(device_type="cpu")])
def test_a_backward_in_the_librarys_wrapper_is_watched_too(compiled, wraps):
    factor = [2.0]

    class Wrapped(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            return x * factor[0]

        @staticmethod
        @wraps
        def backward(ctx, g):
            return g * factor[0]

    f = compiled(lambda x: Wrapped.apply(x).sum())
    for factor[0] in (2.0, 3.0, 2.0):
        x = _x()
        loss = f(x)
        close(loss, factor[0] * x.detach().sum())
        loss.backward()
        close(x.grad, torch.full((2, 3), factor[0], dtype=torch.float64))
    assert f.entries


@pytest.mark.parametrize("kind", ["method", "object", "classmethod"])
def test_a_backward_that_is_no_plain_function_is_in_no_program(compiled, kind):
    factor = [2.0]

    class Helper:
        def times(self, ctx, g):
            return g * factor[0]

        __call__ = times

    made = {
        "method": staticmethod(Helper().times),
        "object": staticmethod(Helper()),
        "classmethod": classmethod(lambda cls, ctx, g: g * factor[0]),
    }[kind]

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        backward = made

    f = compiled(lambda x: Same.apply(x).sum())
    for factor[0] in (2.0, 3.0, 4.0):
        close(_gradient(f), torch.full((2, 3), factor[0], dtype=torch.float64))
    whole = compiled(lambda x: Same.apply(x).sum(), fullgraph=True)
    with pytest.raises(CannotCapture, match="backward of the Function Same"):
        whole(_x())


def test_a_checkpoint_reads_its_module_again_when_the_pass_comes():
    linear = torch.nn.Linear(3, 3).double()
    f = torch.compile(
        lambda x, w: checkpoint(lambda t: linear(t @ w), x, use_reentrant=False).sin().sum()
    )
    w = torch.eye(3, dtype=torch.float64)
    expected = _gradient(lambda x: linear(x).sin().sum())
    for _ in range(2):
        close(_gradient(lambda x: f(x, w)), expected)
    for change in (
        lambda: setattr(linear.weight, "data", linear.weight.data * 2),
        lambda: w.mul_(2),
        lambda: setattr(w, "data", w.data * 2),
        lambda: setattr(linear, "bias", None),
    ):
        loss = f(_x(), w)
        change()
        with pytest.raises(RuntimeError, match="captured with the forward"):
            loss.backward()
    assert f.entries


# Settings of the moment --------------------------------------------------------------------------


def test_random_numbers_of_a_hook_are_drawn_in_the_pass(compiled):
    def f(x):
        y = x * 1
        y.register_hook(lambda g: g * torch.rand(()))
        return y.sum()

    g = compiled(f)
    for _ in range(2):
        torch.manual_seed(3)
        x = _x()
        loss = g(x)
        first = torch.rand(())
        loss.backward()
        torch.manual_seed(3)
        assert float(first) == float(torch.rand(()))
        close(x.grad, torch.rand(()).double().expand(2, 3))
    _is_eager(g, "random numbers")


def test_a_hook_that_asks_whether_gradients_are_recorded_is_eager(compiled):
    def f(x):
        y = x * 1
        y.register_hook(lambda g: g * (2.0 if torch.is_grad_enabled() else 1.0))
        return y.sum()

    g = compiled(f)
    x = _x()
    (once,) = torch.autograd.grad(g(x), x)
    (kept,) = torch.autograd.grad(g(x), x, create_graph=True)
    close(once, torch.ones(2, 3, dtype=torch.float64))
    close(kept.detach(), torch.full((2, 3), 2.0, dtype=torch.float64))
    _is_eager(g, "is_grad_enabled")


@pytest.mark.parametrize("wraps", ["no_grad", "once_differentiable"])
def test_a_backward_without_recording_is_not_differentiated_through_its_calls(compiled, wraps):
    decorate = torch.no_grad() if wraps == "no_grad" else once_differentiable

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @decorate
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos()

    f = compiled(lambda x: Sine.apply(x).sum())
    close(_gradient(f), _x(requires_grad=False).cos())
    x = _x()
    with pytest.raises(RuntimeError, match="without recording"):
        torch.autograd.grad(f(x), x, create_graph=True)


def test_a_backward_of_recorded_operators_is_differentiated_twice(compiled):
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos()

    f = compiled(lambda x: Sine.apply(x).sum())
    x = _x()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x)
    close(second, -x.detach().sin())
    assert f.entries


def test_settings_of_the_pass_must_be_those_of_the_capture(compiled):
    def f(x):
        y = x * 1
        y.register_hook(functools.partial(torch.mul, other=torch.tensor(2.0).double()))
        y.register_hook(lambda g: g + torch.zeros(3).double())
        return y.sum()

    g = compiled(f)
    _gradient(g)
    assert g.entries
    for switch in (
        torch.autocast("cpu", dtype=torch.bfloat16),
        torch.device("meta"),
    ):
        loss = g(_x())
        with switch, pytest.raises(RuntimeError, match=r"autocast is on|default device differs"):
            loss.backward()
    loss = g(_x())
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match="default dtype differs"):
            loss.backward()
    finally:
        torch.set_default_dtype(torch.float32)
