"""`graph.debug`: stepping through a backward pass at a prompt."""

import inspect

import pytest

import pullback as torch
from pullback import nn
from pullback.autograd.graph import debug


class Terminal:
    """Answers from a list, and what was told."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.told = []

    def ask(self, prompt):
        assert prompt == "(backward) "
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    @property
    def text(self):
        return "\n".join(self.told)

    @property
    def stops(self):
        return [line[2:].partition(",")[0] for line in self.told if line.startswith("> ")]


def run(loss, *breaks, answers=("c",) * 50, **options):
    terminal = Terminal(*answers)
    debug(loss, *breaks, ask=terminal.ask, tell=terminal.told.append, **options)
    return terminal


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_without_breaks_it_stops_at_the_first_node_and_steps_before_and_after():
    terminal = run((leaf() * 3).sum(), answers=["s", "s", "s", "c"])
    assert terminal.stops == [
        "before SumBackward0",
        "after SumBackward0",
        "before MulBackward0",
        "after MulBackward0",
    ]
    assert terminal.told[-1] == "the pass is over: 2 nodes, 1 leaf"


def test_next_goes_from_node_to_node_and_an_empty_line_repeats():
    terminal = run((leaf() * 3).exp().sum(), answers=["n", "", "", "c"])
    assert [stop.split()[1] for stop in terminal.stops] == [
        *("SumBackward0", "ExpBackward0", "MulBackward0", "AccumulateGrad"),
    ]


@pytest.mark.parametrize("name", ["exp", "ExpBackward0", "expbackward0"])
def test_a_break_on_a_node(name):
    assert run((leaf() * 3).exp().sum(), name).stops == ["before ExpBackward0"]


def test_a_break_on_a_line():
    x = leaf()
    y = x * 3
    line = inspect.currentframe().f_lineno - 1
    for spec in (line, f"test_debug.py:{line}"):
        assert run(y.exp().sum(), spec, retain_graph=True).stops == ["before MulBackward0"]
    assert run(y.exp().sum(), f"other.py:{line}").stops == []


def test_a_break_on_a_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    terminal = run(model(torch.ones(1, 3)).sum(), "0", params=model)
    stops = [line for line in terminal.told if line.startswith("> ")]
    assert stops[0].endswith("in 0: Linear(3, 4)")
    assert {line.split()[2].rstrip(",") for line in stops} == {"AddmmBackward0", "AccumulateGrad"}
    assert any("AccumulateGrad of 0.weight" in line for line in stops)


def test_conditions_stop_where_they_hold():
    x = leaf()
    terminal = run((x.exp() * 2000).sum(), "norm > 2e3")
    assert terminal.stops == ["before ExpBackward0", "before AccumulateGrad"]
    y = torch.tensor([0.0], requires_grad=True)
    assert run((y.sqrt() * 0).sum(), "nan").stops[0] == "before AccumulateGrad"
    calls = []
    run((leaf() * 2).sum(), lambda stop: calls.append((stop.when, stop.name)))
    assert len(calls) == 6


def test_values_are_at_hand():
    x = leaf()
    terminal = run(
        x.exp().sum(),
        "exp",
        answers=[
            *("p grad", "saved['out'].tolist()", "g", "s", "g", "p grads[0]", "twice = norm * 2"),
            *("twice", "nonsense(", "undefined", "c"),
        ],
    )
    text = terminal.text
    assert "tensor([1., 1.])" in text
    assert "2.71828" in text
    assert "given 0: float32[2]" in text
    assert "tensor([2.7183, 7.3891])" in text
    assert "2.828" in text
    assert "*** SyntaxError" in text
    assert "*** NameError" in text


def test_breaks_are_set_listed_cleared_and_taken_once():
    loss = (leaf() * 3).exp().exp().sum()
    terminal = run(
        loss,
        answers=["b mul", "tbreak exp", "b", "c", "cl 9", "cl 1", "b 1 +", "c"],
    )
    text = terminal.text
    assert "1: node mul" in text
    assert "2: node exp" in text
    assert "*** no break 9" in text
    assert terminal.stops == ["before SumBackward0", "before ExpBackward0"]


def test_the_source_and_the_way():
    x = leaf()
    loss = x.exp().sum()  # the line
    terminal = run(loss, "exp", answers=["l", "w", "h", "c"])
    assert "-> " in terminal.text
    assert "# the line" in terminal.text
    assert "   1 SumBackward0" in terminal.text
    assert "continue" in terminal.text


@pytest.mark.parametrize("answers", [["q"], []])
def test_quitting_leaves_no_gradient_and_no_hooks(answers):
    x = leaf()
    y = x.exp()
    loss = y.sum()
    terminal = run(loss, answers=answers, retain_graph=True)
    assert "left the pass" in terminal.text
    assert x.grad is None
    assert y.grad_fn._cold is None or not y.grad_fn._cold.has_hooks
    loss.backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_gradients_are_those_of_a_plain_pass():
    x, plain = leaf(), leaf()
    run((x.exp() * x).sum())
    (plain.exp() * plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_a_loss_without_history_is_explained():
    with pytest.raises(RuntimeError, match="nothing to step through"):
        debug(torch.ones(()))
    with pytest.raises(TypeError, match="a break is"):
        debug(leaf().sum(), 3.5)


# The page -----------------------------------------------------------------------------------------


def test_a_recorded_pass_has_every_stop_and_keeps_no_graph(tmp_path):
    import weakref

    x = leaf()
    y = x.exp()
    gone = weakref.ref(y.grad_fn)
    recording = debug((y * 2).sum(), "norm > 2", page=tmp_path / "steps.html")
    assert len(recording) == 8
    assert [one["name"] for one in recording.stops][::2] == [
        *("SumBackward0", "MulBackward0", "ExpBackward0", "AccumulateGrad"),
    ]
    assert [one["broken"] for one in recording.stops] == [False] * 4 + [True, False] * 2
    assert recording.stops[4]["saved"]["out"]["values"] == ["2.718", "7.389"]
    assert x.grad is not None
    del y
    assert gone() is None
    text = (tmp_path / "steps.html").read_text("utf-8")
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "8 stops" in repr(recording)


def test_names_of_the_users_cannot_break_out_of_the_page():
    x = leaf()
    recording = debug((x * 2).sum(), params={"</script><b>": x}, page=True)
    assert "</script><b>" not in recording.page().html()
