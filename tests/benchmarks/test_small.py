"""The page of small calls: its lines run on our library, and its bars can be missed."""

import pytest

import pullback
from benchmarks import small, small_bare
from benchmarks.small_calls import FAMILIES, TIMES, backward_scope, compiled, small_works


@pytest.mark.parametrize(
    "work", small_works(FAMILIES, ("forward", "backward")), ids=lambda work: work.name
)
def test_every_line_runs(work):
    program = work.build(pullback)
    program.run(None)
    assert all(tensor is not None for tensor in program.answer(None))


def test_a_run_is_the_call_many_times():
    scope = {"found": []}
    compiled("found.append(1)", scope)(None)
    assert len(scope["found"]) == TIMES


def test_a_low_median_and_a_slow_call_without_reason_are_breaches():
    fine = {("x + y", "forward"): 1.3, ("x + y", "backward"): 1.9}
    assert small.breaches(fine) == []
    (slow, median) = small.breaches({**fine, ("x.exp()", "forward"): 0.5})
    assert "x.exp()" in slow
    assert "median, forward: 0.90" in median


def test_a_reason_excuses_a_slow_call(monkeypatch):
    monkeypatch.setitem(small.REASONS, ("x.exp()", "forward"), "measured")
    ratios = {("x + y", "forward"): 2.0, ("x.exp()", "forward"): 0.5, ("-x", "forward"): 1.3}
    assert small.breaches(ratios) == []


def test_every_reason_was_measured_on_a_call_of_the_page():
    pytest.importorskip("scipy")
    calls = {work.title for work in small_works(FAMILIES, ("forward",))}
    assert small_bare.MEASURED.keys() == small_bare.BARE.keys() <= calls
    assert small_bare.MEASURED_BACKWARD.keys() == small_bare.BARE_BACKWARD.keys() <= calls
    given = small_bare.arrays()
    for body in (*small_bare.BARE.values(), *small_bare.BARE_BACKWARD.values()):
        exec(body, dict(given))


def test_a_line_with_backward_gives_the_gradients_of_what_the_call_used():
    line, scope = backward_scope(pullback, "x * y")
    found = eval(line, scope)
    assert len(found) == len(scope["leaves"]) == 2
    assert all(pullback.equal(a, b) for a, b in zip(found, scope["found"], strict=True))


def test_functions_of_python_are_counted():
    scope = {"outer": lambda: scope["inner"](), "inner": lambda: len("abc")}
    assert small_bare.functions_of_python("outer()", scope) == 2
