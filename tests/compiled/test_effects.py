"""Writes to Python objects are done again at each call, after the program, with its values."""

import collections
import functools

import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters


class State:
    count = 0

    def __init__(self):
        self.n, self.last, self.seen = 0, None, []


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0.0


def counter():
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x + n

    return count


def attribute(x, s):
    s.n += 1
    return x * 2


def attribute_that_is_used(x, s):
    s.n += 1
    return x * s.n + s.n / 4


def attribute_that_decides(x, s):
    s.n += 1
    return x * 2 if s.n % 4 == 0 else x


def tensor_of_the_last_call(x, s):
    before = s.last if s.last is not None else torch.zeros(3)
    s.last = before * 0.5 + x
    return s.last.sum()


def appended(x, s):
    s.seen.append((x * 2).sum())
    s.seen.append({"x": [x + 1]})
    return x


def inserted_and_taken_away(x, s):
    s.seen.insert(0, x.sum())
    del s.seen[2:]
    return x


def stored_and_returned(x, s):
    made = [x + 1]
    s.last = made
    made.append(x + 2)
    return made


def of_the_class(x, s):
    type(s).count += 1
    return x * type(s).count


FUNCTIONS = [attribute, attribute_that_is_used, attribute_that_decides, tensor_of_the_last_call,
             appended, inserted_and_taken_away, stored_and_returned, of_the_class]  # fmt: skip


def plain(value):
    if isinstance(value, torch.Tensor):
        return [round(one, 5) for one in value.detach().reshape(-1).tolist()]
    if isinstance(value, list | tuple | collections.deque):
        return [plain(one) for one in value]
    return {k: plain(one) for k, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_what_is_written_is_eagers_at_each_call_and_calls_are_hits(compiled, function):
    seen = []
    for made in (function, compiled(function, fullgraph=True)):
        State.count = 0
        state, x = State(), torch.tensor([1.0, 2.0, 3.0])
        hits = counters["compile"]["hits"]
        calls = [(plain(made(x + n, state)), plain(vars(state)), State.count) for n in range(9)]
        seen.append(calls)
        hits = counters["compile"]["hits"] - hits
    assert seen[0] == seen[1]
    assert hits >= 5


def test_closures_slots_and_globals_are_written(compiled):
    x = torch.ones(3)
    eager, made = counter(), compiled(counter(), fullgraph=True)
    assert [eager(x).tolist() for _ in range(5)] == [made(x).tolist() for _ in range(5)]
    slotted = Slotted()

    def write(x):
        slotted.n += 0.5
        return x + slotted.n

    write = compiled(write, fullgraph=True)
    assert [write(x)[0].item() for _ in range(4)] == [1.5, 2, 2.5, 3]
    assert slotted.n == 2


def test_containers_of_every_kind_are_written(compiled):
    x = torch.ones(2)
    counts, queue, ordered = collections.Counter(), collections.deque(maxlen=2), {"a": 1, "b": 2}
    some, known = collections.defaultdict(list), set()

    def write(x):
        counts["calls"] += 1
        queue.appendleft(x.sum())
        ordered["a"] = ordered.pop("a")
        some["k"].append(x)
        known.add("z")
        return x

    write = compiled(write)
    for n in range(1, 5):
        write(x)
        assert counts == {"calls": n}
        assert list(ordered) == (["b", "a"])
        assert len(some["k"]) == n
        assert len(queue) == min(n, 2)
        assert known == {"z"}


def test_an_object_that_is_two_arguments_is_written_as_one(compiled):
    def write(x, a, b):
        a.append(1)
        return x * len(b)

    write = compiled(write)
    x = torch.ones(1)
    for _ in range(3):
        assert write(x, [], []).item() == 0
        both = []
        assert write(x, both, both).item() == 1


def test_objects_that_were_two_and_are_one_are_seen(compiled):
    class Holder:
        pass

    def write(x):
        holder.a.n = 5.0
        return x * holder.b.n

    holder = Holder()
    holder.a, holder.b = State(), State()
    holder.b.n = 2.0
    write = compiled(write)
    x = torch.ones(1)
    assert [write(x).item() for _ in range(3)] == [2, 2, 2]
    holder.a = holder.b
    assert write(x).item() == 5


def test_a_stateful_module_is_one_program_after_the_second_call(compiled):
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("mean", torch.zeros(3))
            self.step = 0

        def forward(self, x):
            self.step += 1
            self.mean = self.mean * 0.9 + x.detach() * 0.1
            return (self.linear(x) + self.mean / self.step).sum()

    torch.manual_seed(1)
    ours = Average()
    torch.manual_seed(1)
    eager = Average()
    made = compiled(ours, fullgraph=True)
    captures = counters["compile"]["captures"]
    for n in range(6):
        x = torch.full((3,), float(n))
        for net in (made, eager):
            net(x).backward()
        torch.testing.assert_close(ours.linear.weight.grad, eager.linear.weight.grad)
        torch.testing.assert_close(ours.mean, eager.mean)
    assert ours.step == eager.step == 6
    assert counters["compile"]["captures"] - captures == 2


def test_a_handler_of_the_users_never_meets_a_mistake_of_the_capture(compiled, monkeypatch):
    def tried(x):
        try:
            return x * len([x])
        except Exception:
            return x * 100

    monkeypatch.setattr("pullback.compiled.interpreter.functions.is_container", None)
    made = compiled(tried)
    assert made(torch.ones(2)).tolist() == [1, 1]
    assert "inside the capture" in made.reasons[0]


def test_a_refusal_that_native_code_catches_ends_the_capture(compiled):
    def tried(x):
        return torch.utils._pytree.tree_map(lambda one: one * (2 if caught(one) else 3), [x])[0]

    def caught(x):
        try:
            return bool((x * 1.5).sum().item() > 100)
        except RuntimeError:
            return True

    assert compiled(tried)(torch.ones(2)).tolist() == [3, 3]


def test_a_cached_function_with_effects_runs_as_often_as_in_eager(compiled):
    ran = []

    @functools.lru_cache(maxsize=0)
    def noted(n):
        ran.append(n)
        return n * 2.0

    def use(x):
        return x * noted(3)

    def use_and_print(x):
        made = x * noted(3)
        print(made)
        return made

    for function in (use, use_and_print):
        function = compiled(function)
        ran.clear()
        for count in range(1, 4):
            assert function(torch.ones(1)).item() == 6
            assert len(ran) == count


@pytest.mark.parametrize("walk", [
    lambda state: sum(state.values()), lambda state: state.update(b=2) or state["n"],
    lambda state: len(list(state.items())), lambda state: dict(state)["n"],
])  # fmt: skip
def test_a_write_before_a_dict_is_walked_is_not_forgotten(walk):
    found = []
    for run in (lambda function: function, torch.compile):
        state = {"n": 0, "a": 1}

        def function(x, state=state):
            state["n"] += 1
            return x * walk(state)

        step = run(function)
        found.append([(step(torch.ones(2)).tolist(), dict(state)) for _ in range(4)])
    assert found[0] == found[1]
