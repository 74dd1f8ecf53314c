"""Functions with other names for what they find outside, and without what only tensors need."""

import ast

import numpy as np
import pytest

from pullback.compiled.export.definitions import Definitions
from pullback.compiled.export.rewriting import rewritten
from pullback.compiled.export.scope import Scope
from pullback.core.arrays import LIBRARIES
from pullback.core.tensor import Tensor

NAMES = {"Tensor": Tensor, "LIBRARIES": LIBRARIES, "zeros": np.zeros, "np": np}


def written(text, names=NAMES, definitions=None):
    (node,) = ast.parse(text).body
    return ast.unparse(rewritten(node, Scope(definitions or Definitions(), names)))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("if isinstance(x, Tensor): a()\nelse: b = 1", "b = 1"),
        ("if type(x) is not Tensor: b = 1", "b = 1"),
        ("if x.any() or type(x) in LIBRARIES: b = 1", "if x.any():\n    b = 1"),
        ("if x.any() and (not isinstance(x, (Tensor,))): b = 1", "if x.any():\n    b = 1"),
        ("b = a() if isinstance(x, Tensor) and y() else 2", "b = 2"),
        ("b: Tensor = 1", "b = 1"),
    ],
)
def test_what_only_tensors_need_is_left_out(text, left):
    def function(body):
        return "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())

    assert written(function(text)) == function(left).rstrip()


def test_names_from_outside_are_replaced_and_others_stay():
    text = "def f(zeros_of, n: int=3) -> Tensor:\n    return [zeros(n) for n in zeros_of(np.ones)]"
    wanted = "def f(zeros_of, n=3):\n    return [numpy.zeros(n) for n in zeros_of(numpy.ones)]"
    assert written(text) == wanted


def test_a_name_that_means_something_else_here_gets_another_one():
    definitions = Definitions()
    text = written("def f(numpy):\n    return zeros(numpy)", definitions=definitions)
    assert text == "def f(numpy):\n    return numpy_zeros_(numpy)"
    assert "numpy_zeros_ = numpy.zeros" in definitions.texts()[1]


def test_examples_that_import_the_package_are_left_out():
    text = '''def f(x):
    """What it does.

    >>> import pullback
    """
    return x'''
    assert written(text) == 'def f(x):\n    """What it does."""\n    return x'
