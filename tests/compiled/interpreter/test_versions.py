"""Each instruction of this Python is known or refused; what is known does as eager does."""

import asyncio
import contextlib
import dis
import sys
import types

import pytest

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.instructions import Interpreter
from pullback.compiled.interpreter.versions import (
    DROPPED,
    REFUSED,
    SKIPPED,
    SUPPORTED,
    TABLE,
    decode,
)
from pullback.core.mode import settle
from tests.compiled.interpreter import (  # noqa: F401 (they fill the lists)
    language_flow,
    language_functions,
    language_values,
)
from tests.compiled.interpreter.language import LANGUAGE, MORE

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="a version that nobody has looked at")


def interpreted(function, *args):
    def no_tensor(*_):
        raise AssertionError("there is no tensor")

    return Interpreter(no_tensor, settle()).begin(function, args, {})


def by_name(functions):
    return pytest.mark.parametrize("function", functions, ids=lambda one: one.__name__)


@by_name(LANGUAGE + MORE)
def test_interpreted_python_does_what_python_does(function):
    assert interpreted(function, 3) == function(3)


@by_name(LANGUAGE)
def test_a_compiled_function_does_what_eager_does(function):
    x = torch.tensor([1.5, -2.0])
    compiled = torch.compile(function, fullgraph=True, backend="python")
    for one in (x, x + 1):
        ours, eager = one.clone(), one.clone()
        assert plain(compiled(ours)) == plain(function(eager))
        assert plain(ours) == plain(eager)


def plain(value):
    """Tensors as lists, in whatever holds them."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value)([plain(one) for one in value])
    return {key: plain(one) for key, one in value.items()} if isinstance(value, dict) else value


# What changes the function's surroundings ---------------------------------------------------------

written = 1
deleted = 1


def changing_globals(x):
    global written, deleted
    written = 5
    del deleted
    try:
        return deleted
    except NameError:
        return x * written


def test_global_names_are_written_and_deleted():
    names = changing_globals.__globals__
    try:
        assert interpreted(changing_globals, 2) == 10
        assert (names["written"], names["deleted"]) == (1, 1)  # an interpreter keeps its writes
        compiled = torch.compile(changing_globals, backend="python")
        for _ in range(2):
            names["written"] = names["deleted"] = 1
            assert compiled(torch.tensor(2.0)).item() == 10.0
            assert names["written"] == 5
            assert "deleted" not in names
    finally:
        names["written"] = names["deleted"] = 1


hint = int


def annotated(x):
    def inner(a: hint):
        return a

    inner.__annotations__["b"] = str
    return x if inner.__annotations__ == {"a": int, "b": str} else -x


def test_annotations_of_an_inner_function_are_read_at_each_call(monkeypatch):
    compiled = torch.compile(annotated, fullgraph=True, backend="python")
    x = torch.tensor(2.0)
    assert (compiled(x).item(), compiled(x).item()) == (2.0, 2.0)
    monkeypatch.setitem(annotated.__globals__, "hint", float)
    assert (compiled(x).item(), annotated(x).item()) == (-2.0, -2.0)


# What is refused, and runs eagerly ----------------------------------------------------------------


def class_statement(x):
    class Inner:
        value = 3

    return x * Inner.value


def coroutine(x):
    async def inner():
        return x

    walk = inner()
    try:
        walk.send(None)
    except StopIteration as end:
        return end.value


def exception_group(x):
    try:
        raise ExceptionGroup("several", [ValueError("one")])
    except* ValueError:
        return_value = x
    return return_value


def thrown_into_a_generator(x):
    def inner():
        try:
            yield 1
        except ValueError:
            yield x

    walk = inner()
    next(walk)
    return walk.throw(ValueError("thrown"))


def left_inside_try(x):
    found = []

    def inner():
        try:
            yield 1
        finally:
            found.append("left")

    def outer():
        yield from inner()

    walk = outer()
    next(walk)
    walk.close()
    return x * len(found)


REFUSALS = [class_statement, coroutine, exception_group, thrown_into_a_generator, left_inside_try]


@by_name(REFUSALS)
def test_what_is_not_followed_is_refused_and_runs_eagerly(function):
    x = torch.tensor(3.0)
    with pytest.raises(CannotCapture):
        interpreted(function, 3)
    compiled = torch.compile(function, backend="python")
    for _ in range(2):
        assert compiled(x).item() == function(x).item()


# The tables ---------------------------------------------------------------------------------------


def test_every_instruction_is_known_or_refused():
    named = {name for name in dis.opmap if not name.startswith("INSTRUMENTED_")}
    known = set(Interpreter.table) | set(TABLE) | DROPPED | SKIPPED | REFUSED
    assert sorted(named - known) == []
    assert not REFUSED & (set(Interpreter.table) | set(TABLE) | DROPPED | SKIPPED)


def codes_of(module):
    """Every code object that a module's file compiles to."""
    with open(module.__file__, "rb") as file:
        waiting = [compile(file.read(), module.__file__, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]


@pytest.mark.parametrize(
    "module", [asyncio.tasks, contextlib, dis, types, pytest], ids=lambda one: one.__name__
)
def test_whole_modules_are_written_in_instructions_that_are_known_or_refused(module):
    refused = REFUSED | {"PRINT", "CLEANUP_THROW"}
    for code in codes_of(module):
        program, handlers = decode(code)
        assert len(program) == len(handlers)
        for step in program:
            is_known = step.name in Interpreter.table or step.name in refused | SKIPPED
            assert is_known or step.name.startswith("INTRINSIC_"), step
            if step.target is not None:
                assert 0 <= step.target < len(program)
                assert program[step.target].name not in SKIPPED or step.name == "JUMP"


def test_code_that_is_instrumented_is_read_as_it_was_written():
    def function(x):
        return [one + x for one in range(3)]

    before = decode(function.__code__)
    old = sys.gettrace()
    sys.settrace(lambda *_: lambda *_: None)
    try:
        for _ in range(100):
            function(1)
        during = decode(function.__code__)
    finally:
        sys.settrace(old)
    assert during == before


def test_a_version_that_nobody_has_looked_at_runs_eagerly_and_says_so(monkeypatch):
    monkeypatch.setattr("pullback.compiled.capture.capture.SUPPORTED", False)
    x = torch.tensor(2.0)
    assert torch.compile(lambda x: x + 1, backend="python")(x).item() == 3.0
    with pytest.raises(CannotCapture, match="this version of Python"):
        torch.compile(lambda x: x + 1, backend="python", fullgraph=True)(x)
