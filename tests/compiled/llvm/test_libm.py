"""Functions of the C library inside of programs: what they give, and for how many elements."""

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.llvm.machine import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="needs llvmlite")

HARD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    -0.7,
    2.5,
    -3.0,
    1e-30,
    1e30,
    np.inf,
    -np.inf,
    np.nan,
    8.0,
    700.0,
]
ONE = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "erfc", "exp2", "lgamma", "log10", "log2")
TWO = ("atan2", "fmod", "hypot", "pow", "remainder")


def programs(compiled):
    return compiled.entries[0].programs()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", [*ONE, *TWO, "sinh"])
def test_they_are_native_and_right_where_arguments_are_hard(name, dtype):
    function = getattr(torch, name)
    x = torch.tensor(HARD, dtype=dtype)
    given = (x, x.roll(4)) if name in TWO else (x,)
    compiled = torch.compile(lambda *given: function(*given) + 0.0, fullgraph=True)
    made, wanted = compiled(*given), function(*given) + 0.0
    assert all(one.is_native for one in programs(compiled))
    rounding = 4 * torch.finfo(dtype).eps
    np.testing.assert_allclose(made.numpy(), wanted.numpy(), rtol=rounding, atol=0, equal_nan=True)


@pytest.mark.parametrize("count", [1, 7, 33, 512])
def test_rows_of_any_length_are_asked_element_by_element(count):
    x = torch.linspace(0.5, 3.0, count, dtype=torch.float64)

    def gradient(x):
        return torch.func.grad(lambda x: (x**1.7 + x.atan2(x + 1.0)).sum())(x)

    compiled = torch.compile(gradient, fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), gradient(x).numpy(), rtol=1e-14)
    assert all(one.is_native for one in programs(compiled))


def test_many_elements_are_left_to_vectors_of_numpy():
    x = torch.linspace(0.5, 3.0, 513, dtype=torch.float64)
    options = {"never_slower": False}
    compiled = torch.compile(lambda x: (x**1.7) * 2.0, fullgraph=True, options=options)
    assert torch.equal(compiled(x), (x**1.7) * 2.0)
    assert not any(one.is_native for one in programs(compiled))
