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


def test_explain_tells_why_a_call_ran_eagerly(backend):
    """K-63"""
    found = explain(lambda x: x * float(x.sum()), backend=backend)(torch.ones(2))
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
