"""What a choice among kernels reads of their source."""

import ast
import inspect
import textwrap

import pytest

import pullback.nn.functional  # noqa: F401 (brings operators)
from pullback.operators import choice
from pullback.operators.declare import OPERATORS

KERNELS = {
    f"{name}: {kernel.function.__name__}": kernel.function
    for name, op in OPERATORS.items()
    for kernel in op.kernels
    if inspect.getmodule(kernel.function) is not None
}


def tree(text):
    return ast.dump(ast.parse(textwrap.dedent(text)))


@pytest.mark.parametrize("name", KERNELS)
def test_the_lines_that_code_was_made_of_are_the_function(name):
    function = KERNELS[name]
    assert tree(choice._source_of(function)) == tree(inspect.getsource(function))


def test_a_python_without_positions_is_helped():
    function = next(iter(KERNELS.values()))
    code = function.__code__.replace(co_linetable=b"")
    without = type(function)(code, function.__globals__)
    assert not any(end for _, end, _, _ in code.co_positions())
    assert tree(choice._source_of(without)) == tree(inspect.getsource(function))


def test_there_are_kernels():
    assert len(KERNELS) > 100
