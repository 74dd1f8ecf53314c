"""Where a program must stop, Python does one instruction, and another program goes on behind it."""

import contextlib
import enum
import gc
import io
import random
import threading
import types
import warnings
import weakref

import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.compiled.explain import explain

W = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
LOG = []


def item(x):
    y = (x @ W).tanh()
    scale = y.abs().mean().item()
    return (y * scale + 1).sum() / scale


def float_of_a_tensor_that_decides(x):
    y = x @ W
    if float(y.detach().sum()) > 0:
        return (y * 2).sum()
    return (y * y).mean()


def printed(x):
    y = (x @ W).tanh()
    print("shape", tuple(y.shape))
    return (y * 2).sum()


def mask(x):
    y = x @ W
    picked = y[y > 0]
    return picked.sum() * 2 + (picked * picked).mean()


def places_that_are_not_zero(x):
    y = x @ W
    at = (x > 0).nonzero()
    return y[at[:, 0], at[:, 1]].sum()


def numbers_of_python(x):
    if random.random() < 0.5:
        x = x * 2
    return (x @ W).sum() * random.random()


def loop_with_breaks(x):
    total = 0.0
    for n, scale in enumerate([1.0, 2.0, 3.0]):
        x = (x @ W).tanh() * scale
        print(n)
        total += x.sum().item()
    return x.sum() * total


def nested_calls(x):
    return (_inner(x) + _inner(x * 2)).sum()


def _inner(x):
    h = x @ W
    if h.sum().item() > 0:
        h = h * 2
    return h.tanh()


def handled_error(x):
    y = x @ W
    try:
        int("a")
    except ValueError:
        y = y + 1
    try:
        open("/nowhere")  # noqa: SIM115 (it cannot be opened)
    except OSError as error:
        y = y + len(type(error).__name__)
    finally:
        y = y * 2
    return y.sum()


def raised_error(x):
    y = x @ W
    print("before")
    if y.shape[0] == 4:
        raise KeyError("four")
    return y


def without_recording(x):
    with torch.no_grad():
        largest = (x @ W).abs().max().item()
        fixed = x @ W
    return (x @ W / largest + fixed).sum()


def closures_and_containers(x):
    kept = [x * 2]
    scale = 3

    def more(y):
        nonlocal scale
        scale += 1
        kept.append(y)
        return y * scale

    first = more(x @ W)
    print(len(kept))
    second = more(first)
    return sum(one.sum() for one in kept) + second.sum()


def written_before_and_after(x):
    LOG.append(x.sum().item())
    print(len(LOG))
    LOG.append((x @ W).sum())
    return x.sum() * len(LOG)


FUNCTIONS = [item, float_of_a_tensor_that_decides, printed, mask, places_that_are_not_zero,
             numbers_of_python, loop_with_breaks, nested_calls, handled_error, raised_error,
             without_recording, closures_and_containers, written_before_and_after]  # fmt: skip


def outcome(function, x, seed):
    """What a call gives, prints, and leaves in the gradient."""
    random.seed(seed)
    W.grad = None
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            made = function(x)
        except KeyError as error:
            return repr(error), text.getvalue()
    if made.requires_grad:
        made.backward()
    return made.detach(), W.grad, text.getvalue()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_a_call_in_parts_is_the_eager_call(compiled, function):
    made = compiled(function)
    for seed in range(6):
        x = torch.linspace(-2 + seed / 3, 3, 16).reshape(4, 4)
        LOG.clear()
        wanted = outcome(function, x, seed)
        left = len(LOG)
        LOG.clear()
        ours = outcome(made, x, seed)
        assert len(LOG) == left
        assert ours[-1] == wanted[-1]
        for a, b in zip(ours[:-1], wanted[:-1], strict=True):
            if isinstance(a, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
            else:
                assert a == b


@pytest.mark.parametrize("function", [item, printed, mask, without_recording, numbers_of_python])
def test_both_halves_are_programs_from_the_second_call_on(compiled, function):
    made = compiled(function)
    random.seed(0)
    x = torch.linspace(-2, 3, 16).reshape(4, 4)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(8):
            made(x)
        captures, hits = counters["compile"]["captures"], counters["compile"]["hits"]
        made(x)
    assert counters["compile"]["captures"] == captures
    assert counters["compile"]["hits"] + (made.quick is not None) > hits
    assert made.parts


@pytest.mark.parametrize(
    "pick", [lambda w, o: w[:, o], lambda w, o: w[o], lambda w, o: w[..., o], lambda w, o: w[o, 1:]]
)
def test_an_index_tensor_without_dimensions_is_a_gather(compiled, pick):
    def function(x, places):
        for n in range(3):
            x = x * 0.5 + pick(W, places[n]).sum()
        return x.sum()

    made = compiled(function, fullgraph=True)
    for places in ([0, 1, 2], [3, -1, 0], [2, 2, -4]):
        given = torch.ones(3), torch.tensor(places)
        W.grad = None
        wanted = function(*given)
        wanted.backward()
        before, W.grad = W.grad, None
        found = made(*given)
        found.backward()
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(W.grad, before)
    with pytest.raises(IndexError, match="out of bounds"):
        made(torch.ones(3), torch.tensor([0, 4, 0]))


def test_a_part_that_an_index_tensor_names_is_written_as_in_eager(compiled):
    def written(x, place):
        part = x[place]
        part.add_(1)
        return x * 2

    def read_after(x, place):
        y = x * 1
        part = y[place]
        y.add_(1)
        return part * 2

    for function in (written, read_after):
        made = compiled(function)
        for n in range(3):
            x, y = torch.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(3, 2)
            assert made(x, torch.tensor(n)).tolist() == function(y, torch.tensor(n)).tolist()
            assert x.tolist() == y.tolist()


def test_with_fullgraph_the_first_break_is_the_error(compiled):
    made = compiled(item, fullgraph=True)
    with pytest.raises(CannotCapture, match=r"item of a tensor.*test_parts\.py"):
        made(torch.ones(4, 4))


def test_what_python_does_between_parts_happens_once_in_the_first_call(compiled):
    seen = []

    class Foreign:
        def __call__(self, x):
            seen.append(x.sum().item())
            return 2.0

    foreign = Foreign()
    made = compiled(lambda x: x * foreign(x * 2) + 1)
    for count in range(1, 4):
        assert made(torch.ones(2)).tolist() == [3, 3]
        assert len(seen) == count


def test_an_object_that_somebody_else_keeps_is_the_functions_own_too(compiled):
    kept = []

    def function(x):
        mine = [x + 1]
        kept.append(mine)
        print(len(mine))
        mine.append(x + 2)
        return mine

    made = compiled(function)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(3):
            result = made(torch.ones(1))
            assert kept.pop() is result
            assert [one.item() for one in result] == [2, 3]


def test_a_warning_names_the_line_of_the_user(compiled):
    def function(x):
        y = x * 2
        warnings.warn("here", stacklevel=1)
        return y + 1

    made = compiled(function)
    for _ in range(3):
        with pytest.warns(UserWarning, match="here") as found:
            made(torch.ones(2))
        assert found[0].filename == __file__
        assert found[0].lineno == function.__code__.co_firstlineno + 2


def test_more_parts_than_there_may_be_run_eagerly(compiled):
    def function(x):
        total = 0.0
        for n in range(80):
            total += x[n % 3].item()
        return x * total

    made = compiled(function)
    x = torch.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        torch.testing.assert_close(made(x), function(x))
    assert any("parts" in reason for reason in made.reasons)


def test_a_seed_that_is_set_between_parts_is_set_at_each_call(compiled):
    def function(x):
        torch.manual_seed(3)
        return x + torch.rand(3)

    made = compiled(function)
    x = torch.zeros(3)
    assert made(x).tolist() == made(x).tolist() == function(x).tolist()


def test_explain_shows_the_tree(backend):
    found = explain(nested_calls, backend=backend)(torch.ones(4, 4))
    assert found.graph_break_count >= 2
    assert any("item of a tensor" in line for line in found.tree)


def test_modes_are_as_they_were_after_an_error_between_parts(compiled):
    def function(x):
        with torch.no_grad():
            y = x * 2
            print(y)
            raise ValueError("here")

    made = compiled(function)
    for _ in range(3):
        with contextlib.redirect_stdout(io.StringIO()), pytest.raises(ValueError, match="here"):
            made(torch.ones(2))
        assert torch.is_grad_enabled()


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize("thing", [types.SimpleNamespace(a=2.0), Color.RED], ids=["object", "enum"])
def test_what_a_part_before_held_is_watched_for_changes(compiled, thing):
    def function(x, *rest):
        print("between")
        return x * (rest[0].a if hasattr(rest[0], "a") else 1.0)

    made = compiled(function)
    with contextlib.redirect_stdout(io.StringIO()):
        for value in (2.0, 2.0, 7.0, 7.0, 2.0):
            thing.a = value
            assert made(torch.ones(1), thing).item() == value
        del thing.a
        assert made(torch.ones(1), thing).item() == 1


def test_a_break_keeps_nothing_alive(compiled):
    class Thing:
        scale = 2.0

    things = weakref.WeakValueDictionary()

    def function(x):
        print("between")
        y = x * (things["a"].scale if "a" in things else 1.0)
        return y * y.sum().item()

    made = compiled(function)
    thing = things["a"] = Thing()
    gc.disable()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            assert [made(torch.ones(1)).item() for _ in range(3)] == [4.0] * 3
            del thing
            assert [made(torch.ones(1)).item() for _ in range(3)] == [1.0] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_training_step_is_one_program(backend, kind):
    def build():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = kind(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step(torch.ones(2, 4))  # which makes the optimizer's state
        return step

    made, eager = torch.compile(build(), fullgraph=True, backend=backend), build()
    for _ in range(4):
        torch.testing.assert_close(
            made(torch.ones(2, 4)), eager(torch.ones(2, 4)), rtol=1e-4, atol=1e-6
        )


def test_keywords_of_a_call_that_raised_are_not_those_of_the_next(compiled):
    def function(x):
        try:
            open(file="/nowhere")  # noqa: SIM115 (it cannot be opened)
        except OSError:
            x = x + len(str(3))
        return x * float(len(repr(x.sum().item())) > 0)

    made = compiled(function)
    for _ in range(3):
        assert made(torch.ones(1)).item() == 2


def test_a_tensor_that_retains_its_gradient_across_a_break_has_it(compiled):
    def function(x):
        y = x @ W
        y.retain_grad()
        print("between")
        return y, (y * 2).sum()

    made = compiled(function)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(3):
            y, loss = made(torch.ones(4, 4))
            loss.backward()
            assert y.grad.tolist() == [[2.0] * 4] * 4


def test_an_array_that_shares_the_memory_of_a_written_tensor_is_seen(compiled):
    def function(x):
        array = x.numpy()
        x.add_(1)
        return x * float(array.sum())

    made = compiled(function)
    for start in range(3):
        x, y = torch.full((2,), float(start)), torch.full((2,), float(start))
        assert made(x).tolist() == function(y).tolist()
        assert x.tolist() == y.tolist()


def test_a_hook_on_a_tensor_that_crosses_a_break_runs_once(compiled):
    def function(x):
        y = x @ W
        y.register_hook(lambda g: g * 3)
        print("between")
        return (y * y).sum()

    made = compiled(function)
    grads = []
    with contextlib.redirect_stdout(io.StringIO()):
        for one in (function, made, made):
            W.grad = None
            one(torch.ones(4, 4)).backward()
            grads.append(W.grad)
    torch.testing.assert_close(grads[0], grads[1])
    torch.testing.assert_close(grads[0], grads[2])


def test_threads_that_call_in_parts_have_their_own_values(compiled):
    made = compiled(item)
    wanted = [item(torch.full((4, 4), float(n))).item() for n in range(4)]
    wrong = []

    def call(n):
        for _ in range(20):
            found = made(torch.full((4, 4), float(n))).item()
            if abs(found - wanted[n]) > 1e-4 * abs(wanted[n]) and wanted[n] == wanted[n]:
                wrong.append((n, found, wanted[n]))

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(4))
        self.linear = nn.LazyLinear(4)

    def forward(self, x):
        self.mean = self.mean * 0.5 + x.mean(0)
        return self.linear(x) + self.mean


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if y.requires_grad:
            y.register_hook(lambda g: g * 2)
        return y.tanh()


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.net = kind(4, 3, batch_first=True)

    def forward(self, x):
        return self.net(x.unsqueeze(0))[0]


@pytest.mark.parametrize(
    "make", [Buffers, Hooked, lambda: Recurrent(nn.LSTM), lambda: Recurrent(nn.GRU)],
    ids=["buffer and lazy layer", "hook on what it computes", "LSTM", "GRU"],
)  # fmt: skip
def test_modules_of_many_kinds_are_captured(backend, make):
    torch.manual_seed(0)
    ours = make()
    torch.manual_seed(0)
    eager = make()
    made = torch.compile(ours, backend=backend)
    hits = counters["compile"]["hits"]
    for n in range(5):
        x = torch.linspace(-1, n, 12).reshape(3, 4)
        for net in (made, eager):
            torch.manual_seed(0)  # a lazy layer makes its parameters now
            net(x).sum().backward()
    for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    assert counters["compile"]["hits"] > hits


@pytest.mark.parametrize("backend", [None, "python"])
def test_a_function_in_parts_that_returns_nothing_runs_once_a_call(backend):
    seen, total = [], torch.zeros(3)

    @torch.compile(backend=backend)
    def step(x):
        y = x * 2
        seen.append(y.sum().item())
        print(end="")
        total.add_(y)

    for count in range(1, 24):
        assert step(torch.ones(3)) is None
        assert len(seen) == count
        assert total.tolist() == [2.0 * count] * 3


def test_a_function_in_parts_that_writes_nothing_and_returns_nothing_runs_once_a_call(capsys):
    kept = {}

    @torch.compile
    def step(x):
        x = x + torch.rand(3)
        print("once")
        x = x + torch.rand(3)
        {**kept}.get("a")
        torch.rand(3)

    for _ in range(16):
        step(torch.ones(3))
        assert capsys.readouterr().out == "once\n"


@pytest.mark.parametrize("hooked", [False, True])
def test_a_backward_pass_over_two_parts_is_a_step_between_programs(hooked):
    def training():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        if hooked:
            net[0].weight.register_hook(lambda grad: grad * 2)
        printed = []

        def step(x):
            hidden = net[:2](x)
            printed.append(hidden.mean().item())  # which no program holds
            loss = (net[2](hidden) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, printed

    x = torch.arange(12.0).view(3, 4)
    eager, expected = training()
    step, printed = training()
    compiled = torch.compile(step, options={"never_slower": False})
    before = counters["fallbacks"].copy()
    for _ in range(4):
        torch.testing.assert_close(compiled(x), eager(x))
    assert printed == pytest.approx(expected, rel=1e-4)
    told = str(explain(compiled)(x))
    assert "Python: call" in told.partition("a backward pass inside the function")[0]
    assert counters["fallbacks"] == before
