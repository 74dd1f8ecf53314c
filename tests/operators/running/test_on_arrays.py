"""Rules and compositions on bare arrays."""

import importlib
import pkgutil
from types import FunctionType, ModuleType

import numpy
import pytest

from pullback import operators
from pullback.operators.declare import OPERATORS
from pullback.operators.dispatch.layers import code_of
from pullback.operators.nn.activation.functions import tanhshrink
from pullback.operators.running import on_arrays as on_bare_arrays
from pullback.operators.running.on_arrays import kernel, on_arrays, with_operators


class StoppedError(Exception):
    pass


def test_a_composition_runs_on_arrays():
    x = numpy.array([0.5, -1.0])
    assert on_arrays(tanhshrink)(x) == pytest.approx(x - numpy.tanh(x))


def test_what_stops_the_copying_leaves_no_half_of_it_to_the_next():
    """It was entered before its operators were replaced, and stayed so."""

    def stop(op, key):
        raise StoppedError

    key = object()
    with pytest.raises(StoppedError):
        with_operators(tanhshrink, stop, key)
    made = with_operators(tanhshrink, lambda op, key: kernel(op), key)
    assert type(made(numpy.ones(2))) is numpy.ndarray
    assert with_operators(tanhshrink, stop, key) is made


def _functions_under(function, seen):
    """What a rule calls, however deep, as `on_arrays` follows it."""
    if hasattr(function, "op") or type(function) is not FunctionType or function in seen:
        return
    if not function.__module__.startswith("pullback.operators."):
        return
    seen.add(function)
    for name in on_bare_arrays._global_names(code_of(function)):
        _functions_under(function.__globals__.get(name), seen)


def test_rules_name_operators_as_globals_and_never_through_a_module():
    """An operator behind a module is not replaced, and asks a NumPy scalar to be a tensor."""
    for module in pkgutil.walk_packages(operators.__path__, "pullback.operators."):
        if ".cuda" not in module.name:
            importlib.import_module(module.name)
    reached = set()
    for op in OPERATORS.values():
        for rule in (*op.rules.values(), *filter(None, [op.fused_backward])):
            _functions_under(rule, reached)
    assert len(reached) > 500
    hidden = [
        f"{function.__module__}.{function.__qualname__}: {name}"
        for function in reached
        for name in on_bare_arrays._global_names(code_of(function))
        if type(module := function.__globals__.get(name)) is ModuleType
        and any(type(one) is FunctionType and hasattr(one, "op") for one in vars(module).values())
    ]
    assert hidden == []
