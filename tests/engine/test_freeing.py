"""What a pass frees, its grad mode, and its errors (rows E-115 to E-131)."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest

import pullback as torch
from pullback.autograd import Function, grad
from pullback.autograd.function import once_differentiable
from pullback.engine import task
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def test_saved_values_go_as_soon_as_their_node_has_run():
    """E-115"""
    x = leaf(2.0)
    a = x * 2
    b = a.exp()
    c = b * b
    states = []

    def hook(g):
        with pytest.raises(RuntimeError, match="retain_graph"):
            c.grad_fn._saved_self
        states.append(b.grad_fn._saved_result.item())

    b.register_hook(hook)
    c.backward()
    assert len(states) == 1


def test_freed_values_say_so():
    """E-116"""
    x = leaf(2.0)
    y = x * x
    y.backward()
    for use in (lambda: y.backward(), lambda: y.grad_fn._saved_self):
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            use()

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.mine = "still here"
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Keeps.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.grad_fn.saved_tensors
    assert y.grad_fn.mine == "still here"


def test_nodes_that_save_nothing_run_again():
    """E-117"""
    x = leaf(2.0)
    y = (x + x).view(1, 1)
    y.backward()
    y.backward()
    assert x.grad.item() == 4
    z = x * 2
    z.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        z.backward()
    base = leaf(1.0, 2.0) * 1.0
    base = base + 0
    base[0] = 5.0
    base.sum().backward(retain_graph=True)
    base.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        base.sum().backward()


def test_a_function_that_saved_nothing_is_marked_freed():
    """E-118"""

    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Nothing.apply(x)
    y.backward()
    y.backward()
    assert x.grad.item() == 4
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.grad_fn.saved_tensors


def test_gradients_are_released_as_they_are_consumed():
    """E-119"""
    x = leaf(2.0)
    a = x.exp()
    b = a.exp()
    c = b.exp()
    seen = []
    c.register_hook(lambda g: seen.append(weakref.ref(g)))
    b.register_hook(lambda g: seen.append(weakref.ref(g)))
    a.register_hook(lambda g: seen.append([ref() is None for ref in seen]))
    c.backward()
    assert seen[2] == [True, True]


@pytest.mark.parametrize("fails", [False, True])
def test_the_engine_holds_nothing_after_a_pass(fails):
    """E-120"""

    class StopError(Exception):
        pass

    x = leaf(2.0)
    y = x * 2

    def hook(g):
        if fails:
            raise StopError

    y.register_hook(hook)
    z = y * y
    refs = [weakref.ref(one) for one in (z.grad_fn, y, hook)]
    try:
        z.backward()
    except StopError as error:
        traceback.clear_frames(error.__traceback__)
    del y, z, hook
    assert [ref() for ref in refs] == [None] * 3


def test_a_dropped_graph_dies_without_the_collector():
    """E-121"""
    gc.collect()
    gc.disable()
    try:
        x = leaf(2.0)
        y = (x * 2).exp()
        y.register_hook(lambda g: g)
        refs = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])]
        del y
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("callers", [False, True])
def test_grad_mode_of_a_pass_is_create_graph(create_graph, callers):
    """E-122"""
    x = leaf(2.0)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.grad_fn.register_hook(lambda i, o: seen.append(torch.is_grad_enabled()))
    y.register_hook(lambda g: task.queue_callback(lambda: seen.append(torch.is_grad_enabled())))
    with torch.set_grad_enabled(callers):
        grad(y, x, create_graph=create_graph)
        assert torch.is_grad_enabled() is callers
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            grad(y, x)
        assert torch.is_grad_enabled() is callers
    assert seen[:3] == [create_graph] * 3


def test_grad_mode_changed_by_user_code_does_not_last():
    """E-123"""

    class Leaky(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            torch.set_grad_enabled(True)
            return g * 2

    x = leaf(2.0)
    a = x * 2
    seen = []
    a.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    b = Leaky.apply(a)
    b.register_hook(lambda g: torch.set_grad_enabled(True) and None)
    b.grad_fn.register_prehook(lambda o: seen.append(torch.is_grad_enabled()))
    b.backward()
    assert seen == [False, False]
    assert torch.is_grad_enabled()


def test_saved_tensor_hooks_around_a_recorded_pass_are_in_force():
    """E-124"""
    x = leaf(2.0)
    y = x**3
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        (g,) = grad(y, x, create_graph=True)
    assert packed
    assert grad(g, x)[0].item() == 12


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_comes_out_as_it_is_and_stops_the_pass(kind):
    """E-126"""
    x = leaf(2.0)
    a = x * 2
    ran = []
    a.register_hook(lambda g: ran.append(1))
    b = a * 3
    error = kind("mine")

    def failing_hook(g):
        raise error

    b.register_hook(failing_hook)
    with pytest.raises(kind) as caught:
        b.backward()
    assert caught.value is error
    assert ran == []
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "failing_hook" in names
    assert any("MulBackward0" in note for note in error.__notes__)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("records", [False, True])
@pytest.mark.filterwarnings("ignore:backward.create_graph")
def test_leaves_served_before_a_failure_keep_their_gradient(kind, records):
    """E-127"""
    x, y, w = leaf(2.0), leaf(3.0), leaf(5.0)
    a = x * w
    b = a * y
    fails = [True]

    def hook(g):
        if fails[0]:
            raise kind("mine")

    a.register_hook(hook)
    with pytest.raises(kind):
        b.backward(create_graph=records, retain_graph=False)
    assert y.grad.item() == 10
    assert x.grad is None
    assert w.grad is None
    fails[0] = False
    a.backward()  # the node that failed keeps its values
    assert x.grad.item() == 5
    with pytest.raises(RuntimeError, match="retain_graph"):
        b.backward()
    for t in (x, y, w):
        t.grad = None


def test_leaves_awaited_by_another_branch_get_nothing_on_failure():
    """E-127"""
    x = leaf(2.0)
    early = x * 3
    late = x * 5
    early.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (early + late).backward()
    assert x.grad is None


def test_a_nested_failure_can_be_caught():
    """E-128"""
    x = leaf(2.0)
    y = x * 2

    def hook(g):
        with torch.enable_grad():
            inner = leaf(1.0) * 2
        inner.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            inner.backward()

    y.register_hook(hook)
    y.backward()
    assert x.grad.item() == 2


def test_once_differentiable_results_refuse_a_second_derivative():
    """E-130"""

    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(2.0)
    (g,) = grad(Once.apply(x) ** 2, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_a_changed_saved_tensor_is_found_when_needed():
    """E-131"""
    x = leaf(2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        z.backward()
    text = str(caught.value)
    assert "version" in text
    assert "1" in text
    assert "MulBackward0" in text


class InjectedError(BaseException):
    """Raised at the chosen step."""


class Steps:
    """Counts user code that the engine calls; fails at one step."""

    def __init__(self, failing):
        self.failing = failing
        self.done = 0

    def __call__(self, *args):
        self.done += 1
        if self.done == self.failing:
            raise InjectedError

    def unpack(self, t):
        self()
        return t


def with_all_features(step, *, leaf_hooks):
    class Own(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + b

        @staticmethod
        def backward(ctx, g, h):
            step()
            a, b = ctx.saved_tensors
            return g * b + h, g * a + h

    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, step.unpack):
        a = x * w
        p, q = Own.apply(a, x)
        p.retain_grad()
        b = (p.exp() * 0.01 + q).unbind(0)
        c = torch.stack([b[0] * 2, b[1] * w[0]])
        c[0] = c[1] * 2
        loss = (c * x).sum()
    for t in (a, p, q, c):
        t.register_hook(step)
    for t in (a, p, loss):
        t.grad_fn.register_hook(step)
        t.grad_fn.register_prehook(step)
    if leaf_hooks:  # without them the plain pass is taken
        x.register_hook(step)
        w.register_post_accumulate_grad_hook(step)

    def nest(g):
        with torch.enable_grad():
            inner = (w * 2).sum()
            inner.register_hook(step)
        inner.backward()
        task.queue_callback(step)

    q.register_hook(nest)
    return loss, x, w


@pytest.mark.parametrize("leaf_hooks", [False, True])
def test_a_failure_at_any_step_leaves_a_clean_engine(leaf_hooks):
    """E-120, E-127"""
    never = Steps(0)
    loss, x, w = with_all_features(never, leaf_hooks=leaf_hooks)
    loss.backward()
    expected = (x.grad.tolist(), w.grad.tolist())
    assert never.done > 20
    failed = []
    for k in range(1, never.done + 1):
        loss, x, w = with_all_features(Steps(k), leaf_hooks=leaf_hooks)
        with pytest.raises(InjectedError):
            loss.backward()
        assert torch.is_grad_enabled()
        assert task.task_id() == -1
        assert task.current_node() is None
        failed.append(weakref.ref(loss.grad_fn))
        loss, x, w = with_all_features(Steps(0), leaf_hooks=leaf_hooks)
        loss.backward()
        assert (x.grad.tolist(), w.grad.tolist()) == expected
    gc.collect()
    assert not any(ref() is not None for ref in failed)
