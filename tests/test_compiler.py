"""Marks and questions about compiling."""

import pytest

import pullback as torch


def function(x):
    return x


def test_nothing_is_compiling():
    for name in ("is_compiling", "is_dynamo_compiling", "is_exporting"):
        assert not getattr(torch.compiler, name)()
    assert not torch._dynamo.is_compiling()
    assert not torch._dynamo.external_utils.is_compiling()


def test_marks_give_the_function_back():
    compiler = torch.compiler
    assert compiler.disable(function).__wrapped__ is function
    assert compiler.disable(recursive=False)(function).__wrapped__ is function
    assert compiler.allow_in_graph(function) is function
    assert compiler.allow_in_graph([function]) == [function]
    assert compiler.assume_constant_result(function) is function
    assert compiler.substitute_in_graph(max)(function) is function
    assert compiler.nested_compile_region(function) is function
    with pytest.raises(AssertionError):
        compiler.allow_in_graph(3)


def test_calls_without_effect():
    compiler = torch.compiler
    compiler.reset()
    compiler.cudagraph_mark_step_begin()
    assert "python" in compiler.list_backends()
    with compiler.set_stance("force_eager"):
        pass
    assert compiler.set_stance("force_eager")(function)(2) == 2
    with pytest.raises(RuntimeError, match="stance"):
        compiler.set_stance("x")


def test_functions_of_arrays_take_tensors():
    import numpy

    wrapped = torch.compiler.wrap_numpy(lambda x: (numpy.sin(x), 3))
    sine, number = wrapped(torch.zeros(2))
    assert torch.equal(sine, torch.zeros(2))
    assert number == 3
