"""Time spent making code is an event of its own, apart from the operator that first needed it."""

import importlib.util

import pytest

import pullback as torch
from pullback.autograd.profiler import profile
from pullback.operators.arrays import native

needs_llvm = pytest.mark.skipif(
    importlib.util.find_spec("llvmlite") is None, reason="llvmlite compiles"
)


def compiled_in(run):
    """The events of making code, and all of them."""
    with profile() as times:
        run()
    events = times.function_events
    return [one for one in events if one.name.startswith("compile::")], events


@needs_llvm
def test_a_native_kernel_is_compiled_in_an_event_inside_its_operator_once():
    native.forget()
    x = torch.ones(64, 96)
    made, events = compiled_in(lambda: torch.softmax(x, -1))
    (softmax,) = [one for one in events if one.name == "aten::softmax"]
    assert made
    for one in made:
        assert softmax.time_range.start <= one.time_range.start
        assert one.time_range.end <= softmax.time_range.end
    longest = max(one.cpu_time_total for one in made)
    assert softmax.self_cpu_time_total <= softmax.cpu_time_total - longest
    assert compiled_in(lambda: torch.softmax(x, -1))[0] == []


def test_a_captured_function_is_compiled_in_an_event_of_its_name_once():
    def objective(x):
        return (x.tanh() ** 2).sum()

    f = torch.compile(objective, options={"never_slower": False})
    x = torch.ones(5, 7)
    made, _ = compiled_in(lambda: f(x))
    assert [one.name for one in made if "objective" in one.name] == [
        f"compile::{objective.__qualname__}"
    ]
    made, events = compiled_in(lambda: f(x))
    assert made == []
    assert f"compiled::{objective.__qualname__}" in [one.name for one in events]
