"""A pass that somebody looks at: the same bits, each node announced once, in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.engine import node_observers
from pullback.engine import request as entry


class Log:
    """Writes down what it is told."""

    def __init__(self):
        self.said = []

    def start(self, node):
        self.said.append(("start", node.name()))
        return [node]

    def ran(self, token, gradients, results):
        self.said.append(("ran", token[0].name()))
        return token

    def finish(self, node, token):
        assert token[0] is node
        self.said.append(("finish", node.name()))

    @property
    def started(self):
        return [name for what, name in self.said if what == "start"]


@pytest.fixture
def log(monkeypatch):
    log = Log()
    monkeypatch.setattr(node_observers, "observer", log)
    return log


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


STEPS = {
    "sin": lambda a, b: a.sin(),
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "row": lambda a, b: a + b[0],
    "function": lambda a, b: Twice.apply(a),
    "nothing": lambda a, b: Nothing.apply(a) + b,
    "write": lambda a, b: (a * 1).mul_(b),
    "slice": lambda a, b: _sliced(a, b),
    "split": lambda a, b: torch.cat(a.split(1)[::-1]),
    "hook": lambda a, b: _hooked(a * 1),
    "cast": lambda a, b: a.double().float(),
}


def _sliced(a, b):
    made = a * 1
    made[0] = b[1]
    return made


def _hooked(a):
    a.register_hook(lambda g: None if g is None else g * 0.5)
    return a


def gradients(program, *, named, create_graph):
    leaves = [torch.arange(1.0, 7.0).reshape(2, 3).div(k).requires_grad_() for k in (7, 9)]
    values = list(leaves)
    for step, i, j in program:
        values.append(STEPS[step](values[i % len(values)], values[j % len(values)]))
    loss = (values[-1] * values[len(values) // 2]).sum()
    if named:
        inputs = [leaves[0], values[-1]]
        found = torch.autograd.grad(loss, inputs, allow_unused=True, create_graph=create_graph)
        return [None if g is None else g.tolist() for g in found]
    loss.backward()
    return [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]


programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=12,
)


@given(programs, st.booleans(), st.booleans(), st.booleans())
def test_every_bit_is_that_of_a_pass_nobody_looks_at(program, named, create_graph, ordered):
    expected = gradients(program, named=named, create_graph=create_graph)
    log = Log()
    node_observers.observer, entry.always_ordered = log, ordered
    try:
        found = gradients(program, named=named, create_graph=create_graph)
    finally:
        node_observers.observer, entry.always_ordered = None, False
    assert found == expected
    assert len(log.started) == sum(what == "finish" for what, _ in log.said)


@pytest.mark.filterwarnings("ignore:backward.create_graph=True. stores gradients")
@pytest.mark.parametrize("create_graph", [False, True])
def test_each_node_starts_runs_and_finishes_before_the_next(log, create_graph):
    x = torch.ones(2, requires_grad=True)
    x.exp().sum().backward(create_graph=create_graph)
    names = ["SumBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"]
    assert log.said == [(what, name) for name in names for what in ("start", "ran", "finish")]
    x.grad = None  # no cycle


@pytest.mark.parametrize("ordered", [False, True])
def test_a_node_that_fails_finishes_too(log, ordered, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", ordered)

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="no") as caught:
        Fails.apply(x).sum().backward()
    assert log.said[-2:] == [("start", "FailsBackward"), ("finish", "FailsBackward")]
    assert any("FailsBackward" in note for note in caught.value.__notes__)


def test_leaves_that_grad_captures_do_not_run(log):
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(x.exp().sum(), x)
    assert log.started == ["SumBackward0", "ExpBackward0"]


def test_several_who_look_on_are_told_the_same_and_each_may_leave():
    x = torch.ones(2, requires_grad=True)
    logs = [Log() for _ in range(3)]
    for count, one in enumerate(logs, start=1):
        node_observers.add(one)
        x.exp().sum().backward()
        assert [len(other.started) for other in logs] == [3 * (count - i) for i in range(count)] + [
            0
        ] * (3 - count)
    assert logs[0].said[-9:] == logs[1].said[-9:] == logs[2].said
    for count, one in enumerate(logs, start=1):
        node_observers.remove(one)
        before = [len(other.started) for other in logs]
        x.exp().sum().backward()
        more = [len(other.started) - was for other, was in zip(logs, before, strict=True)]
        assert more == [0] * count + [3] * (3 - count)
    assert node_observers.observer is None
