"""Stances: whether compiled functions run programs, and make new ones."""

import pytest

import pullback as torch
from pullback import compiler


@pytest.fixture(autouse=True)
def afresh():
    yield
    compiler.set_stance("default")


def function(x):
    return x * 2


def warm():
    """A compiled function with a program for two elements, and a list of its calls without one."""
    f = torch.compile(function, dynamic=False)
    for _ in range(3):
        f(torch.ones(2))
    assert f.entries
    runs = []

    def noted(x):
        runs.append(x.shape)
        return function(x)

    f.function = noted
    return f, runs


def test_force_eager_runs_the_function_itself_and_programs_again_afterwards():
    f, runs = warm()
    with compiler.set_stance("force_eager"):
        assert f(torch.ones(2)).tolist() == [2, 2]
        assert f(torch.ones(2)).tolist() == [2, 2]
    assert len(runs) == 2
    f(torch.ones(2))
    assert len(runs) == 2


def test_eager_on_recompile_uses_programs_that_are_there():
    f, runs = warm()
    with compiler.set_stance("eager_on_recompile"):
        f(torch.ones(2))
        assert runs == []
        f(torch.ones(3, 3))
        f(torch.ones(3, 3))
        assert len(runs) == 2
        f(torch.ones(2))
        assert len(runs) == 2


def test_fail_on_recompile_says_which_function():
    f, runs = warm()
    with compiler.set_stance("fail_on_recompile"):
        f(torch.ones(2))
        with pytest.raises(RuntimeError, match="noted: a call that no program fits"):
            f(torch.ones(3, 3))
    assert runs == []


def test_eager_then_compile_compiles_from_the_second_call_on():
    f = torch.compile(function)
    with compiler.set_stance("eager_then_compile"):
        f(torch.ones(2))
        assert not f.entries
        f(torch.ones(2))
        assert f.entries


def test_as_a_function_it_holds_from_then_on():
    f, runs = warm()
    compiler.set_stance("force_eager")
    f(torch.ones(2))
    compiler.set_stance("default")
    f(torch.ones(2))
    assert len(runs) == 1


def test_as_a_decorator_it_holds_inside_the_function_alone():
    f, runs = warm()

    @compiler.set_stance("force_eager")
    def inside():
        return f(torch.ones(2))

    f(torch.ones(2))
    assert runs == []
    inside()
    assert len(runs) == 1
    f(torch.ones(2))
    assert len(runs) == 1
