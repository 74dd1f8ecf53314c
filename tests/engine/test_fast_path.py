"""The fast path of backward() and grad() gives what the slow path gives, and knows its place."""

import pytest

import pullback as torch
from pullback.engine import backward as entry
from pullback.engine import fast_path
from pullback.engine.threads import side_by_side
from pullback.utils._python_dispatch import TorchDispatchMode


@pytest.fixture
def fast_passes(monkeypatch):
    """The roots of the passes that take the fast path, as they come."""
    taken = []
    run = fast_path.run

    def noted(request, edge, *how):
        taken.append(edge)
        return run(request, edge, *how)

    monkeypatch.setattr(fast_path, "run", noted)
    return taken


def leaves():
    torch.manual_seed(0)
    return [torch.randn(2, 3, requires_grad=True) for _ in range(3)]


def chain(a, b, c):
    return ((a * b).sin() + c.exp() * a).sum()


PROGRAMS = {
    "a chain": chain,
    "one node": lambda a, b, c: a * b + c,
    "an output of several": lambda a, b, c: (a * b * c).max(1)[0],
    "a view": lambda a, b, c: (a * b * c)[0],
    "joins": lambda a, b, c: ((a * b) * (a + c)) / (2 + (a * b).abs()),
    "broadcasting": lambda a, b, c: a[0] * b + c.sum(),
    "a Function of the user's": lambda a, b, c: Double.apply(a * b) + c,
}


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        assert not torch.is_grad_enabled()
        assert torch._C._current_graph_task_id() >= 0
        return g * 2


def seeded(out):
    return None if out.numel() == 1 else torch.linspace(1, 2, out.numel()).reshape(out.shape)


@pytest.mark.parametrize("some", [slice(None), slice(1), slice(1, 3)], ids=["all", "one", "two"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_the_slow_path(name, some, fast_passes, monkeypatch):
    ours = leaves()
    out = PROGRAMS[name](*ours)
    found = torch.autograd.grad(out, ours[some], seeded(out), retain_graph=True)
    assert len(fast_passes) == 1
    monkeypatch.setattr(entry, "all_is_plain", lambda: False)
    expected = torch.autograd.grad(out, ours[some], seeded(out))
    assert len(fast_passes) == 1
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


RECORDED = [name for name in PROGRAMS if "Function" not in name]  # that one looks at the mode


@pytest.mark.parametrize("some", [slice(None), slice(1), slice(1, 3)], ids=["all", "one", "two"])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_gradients_are_those_of_the_slow_path(name, some, fast_passes, monkeypatch):
    def both_orders():
        ours = leaves()
        out = PROGRAMS[name](*ours)
        first = torch.autograd.grad(out, ours[some], seeded(out), create_graph=True)
        known = [one for one in first if one.requires_grad]
        total = sum(one.square().sum() for one in known)
        second = torch.autograd.grad(total, ours, allow_unused=True) if known else ()
        lines = {one.grad_fn.origin.line for one in known}
        return first, second, lines

    first, second, lines = both_orders()
    taken = len(fast_passes)
    assert taken >= 1
    monkeypatch.setattr(entry, "all_is_plain", lambda: False)
    expected = both_orders()
    assert len(fast_passes) == taken
    assert lines == expected[2]  # that of the call of grad()
    for one, other in zip((*first, *second), (*expected[0], *expected[1]), strict=True):
        assert one is other is None or torch.equal(one, other)


def test_a_recorded_pass_inside_a_function_of_the_users_has_the_slow_path(fast_passes):
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                (inner,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
            return g * inner.detach()

    x = torch.tensor([2.0], requires_grad=True)
    out = Outer.apply(x)
    (found,) = torch.autograd.grad(out, x, torch.ones(1))
    assert found.item() == 12.0
    assert len(fast_passes) == 1


@pytest.mark.parametrize("listed", [tuple, list])
def test_one_output_in_a_list_is_one_output(listed, fast_passes):
    a, b, c = leaves()
    out = a * b + c
    seed = seeded(out)
    (expected,) = torch.autograd.grad(out, a, seed, retain_graph=True)
    (found,) = torch.autograd.grad(listed([out]), a, listed([seed]), retain_graph=True)
    assert torch.equal(found, expected)
    assert len(fast_passes) == 2
    with pytest.raises(RuntimeError, match="shape"):
        torch.autograd.grad(listed([out]), a, listed([seed[0]]))
    assert len(fast_passes) == 2


def test_a_recorded_pass_that_fails_leaves_all_as_it_was(fast_passes):
    a, b, c = leaves()
    out = chain(a, b, c)
    ahead = out.grad_fn.next_functions[0][0]
    handle = ahead.register_prehook(lambda gs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        torch.autograd.grad(out, [a, b], create_graph=True)
    handle.remove()
    assert torch._C._current_graph_task_id() == -1
    found = torch.autograd.grad(out, [a, b], create_graph=True)
    assert all(one.requires_grad for one in found)
    assert len(fast_passes) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_backward_stores_what_the_long_way_stores(name, fast_passes, monkeypatch):
    ours, theirs = leaves(), leaves()
    for _ in range(2):  # into nothing, then on top
        out = PROGRAMS[name](*ours)
        out.backward(seeded(out))
    assert len(fast_passes) == 2
    monkeypatch.setattr(entry, "all_is_plain", lambda: False)
    for _ in range(2):
        out = PROGRAMS[name](*theirs)
        out.backward(seeded(out))
    assert len(fast_passes) == 2
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))


def test_a_second_pass_tells_what_the_first_one_freed(fast_passes):
    a, b, c = leaves()
    out = chain(a, b, c)
    torch.autograd.grad(out, [a, b, c])
    with pytest.raises(RuntimeError, match="starts from the same result"):
        torch.autograd.grad(out, [a, b, c])
    assert len(fast_passes) == 2


def test_an_unused_input_is_refused_unless_allowed(fast_passes):
    a, b, c = leaves()
    other = c * 2  # keeps the accumulator of c
    with pytest.raises(RuntimeError, match="inputs\\[1\\]"):
        torch.autograd.grad((a * b).sum(), [a, c])
    found = torch.autograd.grad((a * b).sum(), [a, c], allow_unused=True)
    assert found[1] is None
    assert torch.equal(found[0], b)
    assert len(fast_passes) == 2
    del other


def test_what_an_input_does_not_lead_to_keeps_its_values(fast_passes):
    a, b, c = leaves()
    part = a.exp()
    out = (part * 1 + b.exp() * c).sum()
    torch.autograd.grad(out, [b])
    (found,) = torch.autograd.grad(part.sum(), [a])
    assert torch.equal(found, part)
    assert len(fast_passes) == 2


def test_a_failing_pass_stores_leaves_of_backward_and_none_of_grad(fast_passes):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("on purpose")

    def program(a, b):
        return (Fails.apply(a * 1) * b).sum()

    a, b, _ = leaves()
    with pytest.raises(ValueError, match="on purpose"):
        torch.autograd.grad(program(a, b), [a, b])
    assert a.grad is b.grad is None
    with pytest.raises(ValueError, match="on purpose"):
        program(a, b).backward()
    assert a.grad is None
    assert b.grad is not None
    assert len(fast_passes) == 2
    assert torch.is_grad_enabled()
    assert torch._C._current_graph_task_id() == -1


def test_callbacks_run_after_leaves_are_stored(fast_passes):
    seen = []

    class Asks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: seen.append((x.grad, torch._C._current_graph_task_id() >= 0))
            )
            return g * 2

    x = torch.ones(2, requires_grad=True)
    Asks.apply(x).sum().backward()
    assert len(fast_passes) == 1
    assert seen[0][0].tolist() == [2.0, 2.0]
    assert seen[0][1]


def with_leaf_hook(run, a):
    with a.register_hook(lambda g: g):
        run()


def inside_a_pass(run, a):
    inner = torch.ones(1, requires_grad=True) * 1
    inner.register_hook(lambda g: run())
    inner.register_hook(lambda g: None)
    torch.autograd.backward([inner])


def with_threads(run, a):
    before, side_by_side.threads = side_by_side.threads, 2
    try:
        run()
    finally:
        side_by_side.threads = before


def in_mode(make):
    def way(run, a):
        with make():
            run()

    return way


class Passes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


WAYS = {
    "hooks on leaves": with_leaf_hook,
    "inside a pass": inside_a_pass,
    "threads": with_threads,
    "anomaly": in_mode(torch.autograd.detect_anomaly),
    "dual": in_mode(torch.autograd.forward_ad.dual_level),
    "dispatch": in_mode(Passes),
    "no_grad": in_mode(torch.no_grad),
    "profile": in_mode(torch.autograd.profiler.profile),
}


@pytest.mark.filterwarnings("ignore:.*nomaly")
@pytest.mark.parametrize("how", ["grad", "backward"])
@pytest.mark.parametrize("name", WAYS)
def test_who_looks_on_has_the_slow_path(name, how, fast_passes):
    a, b, c = leaves()
    out = chain(a, b, c)

    def run():
        torch.autograd.grad(out, [a, b, c]) if how == "grad" else out.backward()

    WAYS[name](run, a)
    assert fast_passes == []


@pytest.mark.parametrize("options", [{"materialize_grads": True}, {"is_grads_batched": True}])
def test_unusual_options_have_the_slow_path(options, fast_passes):
    a, b, c = leaves()
    seed = torch.ones(2) if "is_grads_batched" in options else None
    torch.autograd.grad(chain(a, b, c), [a], seed, **options)
    assert fast_passes == []


@pytest.mark.parametrize("given", [False, True])
def test_a_root_without_data_gives_gradients_without_data(given):
    x = torch.ones(3, device="meta", requires_grad=True)
    loss = (x * 2).sum()
    g = torch.ones((), device="meta") if given else None
    (found,) = torch.autograd.grad(loss, x, g, retain_graph=True)
    loss.backward(g)
    for one in (found, x.grad):
        assert (one.device.type, one.shape, one.dtype) == ("meta", (3,), torch.float32)
