"""`explain`, `verify`, counters and marks."""

import pytest

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.compiled.explain import explain
from pullback.compiled.names import disable, is_compiling, list_backends, reset


def loss(x):
    y = (x * 2).tanh()
    return (y.softmax(-1) * y).sum()


def test_explain_shows_programs_with_the_users_lines(backend):
    """K-20, K-63"""
    x = torch.randn(4, 3, requires_grad=True)
    found = explain(loss, backend=backend)(x)
    assert found.graph_count == 1
    assert found.graph_break_count == 0
    text = str(found)
    assert "tanh" in text
    assert "test_explain.py:" in text
    assert "argument 0" in text


def test_explain_tells_why_a_call_ran_in_parts(backend):
    """K-63"""
    found = explain(lambda x: (x * float(x.sum())).exp(), backend=backend)(torch.ones(2))
    assert found.graph_count == 2
    assert "needs its values" in found.break_reasons[0]
    assert "test_explain.py" in found.break_reasons[0]
    assert [line.split()[0] for line in found.tree] == ["program", "Python:", "program"]
    assert found.tree[1] in str(found)


def test_explain_tells_why_a_call_ran_eagerly(backend):
    def doubled(x):
        def twice():
            yield float(x.sum())

        return x * sum(twice())

    found = explain(doubled, backend=backend)(torch.ones(2))
    assert found.graph_count == 0
    assert "needs its values" in found.break_reasons[0]


def test_verify_compares_each_call_with_eager(backend, monkeypatch):
    """K-70"""
    x = torch.randn(4, 3)
    f = torch.compile(loss, backend=backend, options={"verify": True})
    assert torch.allclose(f(x), loss(x))
    program = f.entries[0].programs()[0].program
    monkeypatch.setattr(type(program), "__call__", lambda self, arrays: [self_wrong(x)])
    with pytest.raises(RuntimeError, match=r"sum.*test_explain\.py"):
        f(x)


def self_wrong(x):
    return (loss(x) + 1)._array


def test_captures_hits_and_fallbacks_are_counted(backend):
    """K-7, K-27"""
    reset()
    f = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    f(torch.ones(2))
    f(torch.ones(3))
    f.quick = None
    f(torch.ones(3))
    assert counters["compile"]["captures"] == 2
    assert counters["compile"]["hits"] == 1
    assert any("size" in reason for reason in counters["misses"])


def test_reset_forgets_everything(backend):
    """K-63"""
    f = torch.compile(lambda x: x + 1, backend=backend)
    f(torch.ones(2))
    assert f.entries
    reset()
    assert not f.entries
    assert not counters["compile"]


def test_code_can_ask_whether_it_is_captured(backend):
    """K-63"""
    seen = []
    f = torch.compile(lambda x: x + (1 if is_compiling() else 2), backend=backend, fullgraph=True)
    assert float(f(torch.zeros(()))) == 1
    assert not is_compiling()
    assert not seen


def test_a_disabled_function_is_never_captured(backend):
    """K-63"""

    @disable(reason="it prints")
    def inner(x):
        return x * 3

    f = torch.compile(lambda x: inner(x) + 1, backend=backend)
    assert float(f(torch.ones(()))) == 4
    with pytest.raises(CannotCapture, match="it prints"):
        torch.compile(lambda x: inner(x), backend=backend, fullgraph=True)(torch.ones(()))


def test_a_compiled_module_answers_as_the_module_does(backend):
    model = torch.nn.Linear(2, 3)
    compiled = torch.compile(model, backend=backend)
    assert len(list(compiled.parameters())) == 2
    assert compiled.in_features == 2


def test_back_ends_are_listed():
    """K-69"""
    assert "python" in list_backends()


def test_the_profiler_shows_steps_of_compiled_programs(backend):
    from pullback.profiler import profile

    w = torch.randn(3, 4, requires_grad=True)
    x = torch.randn(5, 3)
    f = torch.compile(lambda x: (x @ w).tanh().sum(), backend=backend)
    wanted = f(x)
    for _ in range(2):
        f(x)
    with profile() as seen:
        made = f(x)
        made.backward()
    names = [event.name for event in seen.events()]
    step = "compiled::loop(tanh" if backend == "llvm" else "compiled::tanh"
    assert any(name.startswith(step) for name in names), names
    assert "compiled::<lambda>" not in names or "CompiledBackward" in names
    assert "CompiledBackward" in names
    assert abs(made.item() - wanted.item()) < 1e-5
    assert w.grad is not None


def test_who_looks_at_each_operator_sees_each_operator(backend):
    from pullback.operators.dispatch.observers import observe, stop

    class Names:
        def __init__(self):
            self.seen = []

        def enter(self, op, called):
            self.seen.append(called)

        def leave(self, token, result, operands):
            pass

    f = torch.compile(lambda x: x.sin() * 2, backend=backend)
    f(torch.ones(3))
    names = Names()
    observe(names)
    try:
        f(torch.ones(3))
    finally:
        stop(names)
    assert "sin" in names.seen


def test_the_graph_page_shows_fused_groups(backend):
    from pullback.autograd.graph import show

    x = torch.ones(5, requires_grad=True)
    f = torch.compile(lambda x: (x.sin() * x).sum(), backend=backend)
    page = show(f(x))
    (node,) = [one for one in page.graph.nodes if one.name == "CompiledBackward"]
    assert any("sin" in step and "test_explain.py" in step for step in node.steps), node.steps
    assert "sin" in page.html()


@pytest.mark.parametrize("position", [1, 7])
def test_errors_inside_a_program_name_the_operator_and_the_line(backend, position):
    table = torch.randn(5, 3)

    def f(i, x):
        return torch.nn.functional.embedding(i, table) * x.exp()

    g = torch.compile(f, backend=backend)
    x = torch.ones(2, 3)
    g(torch.tensor([0, 1]), x)
    if position < 5:
        g(torch.tensor([0, position]), x)
        return
    with pytest.raises(IndexError, match="embedding") as caught:
        g(torch.tensor([0, position]), x)
    assert any("embedding at test_explain.py" in note for note in caught.value.__notes__)
