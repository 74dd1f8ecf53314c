"""In-place sums with a scaled term equal the out-of-place forms to the last digit."""

import numpy
import pytest

import pullback as torch
from pullback.operators.declare import OPERATORS

CALLS = {
    "add": lambda x, a, b, n: x.add_(a, alpha=n),
    "sub": lambda x, a, b, n: x.sub_(a, alpha=n),
    "addcmul": lambda x, a, b, n: x.addcmul_(a, b, value=n),
    "addcdiv": lambda x, a, b, n: x.addcdiv_(a, b, value=n),
    "lerp": lambda x, a, b, n: x.lerp_(a, n),
}
APART = {
    "add": lambda x, a, b, n: torch.add(x, a, alpha=n),
    "sub": lambda x, a, b, n: torch.sub(x, a, alpha=n),
    "addcmul": lambda x, a, b, n: torch.addcmul(x, a, b, value=n),
    "addcdiv": lambda x, a, b, n: torch.addcdiv(x, a, b, value=n),
    "lerp": lambda x, a, b, n: torch.lerp(x, a, n),
}
SHAPES = [
    ((4, 3), (4, 3), (4, 3)),
    ((4, 3), (3,), (4, 1)),
    ((4, 3), (), ()),
    ((), (), ()),
    ((0,),) * 3,
]


def operands(shapes, dtype):
    rng = numpy.random.default_rng(0)
    return [torch.tensor(rng.uniform(0.5, 2, shape), dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("number", [1, 2, 0.3, -0.7, 0.0, -0.0, float("inf"), 1e-50])
def test_in_place_equals_apart(name, dtype, number):
    for shapes in SHAPES:
        x, a, b = operands(shapes, dtype)
        expected = APART[name](x, a, b, number)
        kept = x._array
        assert CALLS[name](x, a, b, number) is x
        assert x._array is kept
        numpy.testing.assert_array_equal(x._array, expected._array)
        assert x._version == 1


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_bool_is_no_scale_of_numbers(name):
    x, a, b = operands(SHAPES[0], torch.float32)
    kept = x.clone()
    for forms in (CALLS, APART):
        with pytest.raises(RuntimeError, match="alpha"):
            forms[name](x, a, b, True)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("name", CALLS)
def test_operands_may_be_the_target_itself(name):
    (x,) = operands(SHAPES[0][:1], torch.float64)
    expected = APART[name](x, x, x, 0.25)
    CALLS[name](x, x, x, 0.25)
    numpy.testing.assert_array_equal(x._array, expected._array)


@pytest.mark.parametrize("name", CALLS)
def test_a_result_that_does_not_fit_leaves_the_target_as_it_was(name):
    x, a, b = operands([(3,), (4, 3), (4, 3)], torch.float32)
    before = x._array.copy()
    with pytest.raises(RuntimeError):
        CALLS[name](x, a, b, 0.5)
    numpy.testing.assert_array_equal(x._array, before)
    assert x._version == 0


@pytest.mark.parametrize("name", CALLS)
def test_gradients_follow(name):
    x, a, b = (t.requires_grad_() for t in operands(SHAPES[1], torch.float64))
    expected = torch.autograd.grad(APART[name](x, a, b, 0.3).sum(), [x, a])
    found = torch.autograd.grad(CALLS[name](x.clone(), a, b, 0.3).sum(), [x, a])
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_array_equal(one._array, other._array)


def test_other_numbers_go_the_general_way():
    x = torch.ones(3, dtype=torch.complex64)
    assert x.add_(x.clone(), alpha=1j).tolist() == [1 + 1j] * 3
    y = torch.ones(3)
    with pytest.raises(RuntimeError, match="alpha"):
        y.add_(y, alpha=1j)
    whole = torch.ones(3, dtype=torch.int64)
    assert whole.add_(whole.clone(), alpha=3).tolist() == [4, 4, 4]


def test_nothing_is_copied(monkeypatch):
    x, a, b = operands(SHAPES[0], torch.float32)
    for name in ("add", "sub", "addcmul", "addcdiv"):
        CALLS[name](x, a, b, 0.5)
        scope = getattr(torch.Tensor, f"{name}_").__globals__

        def fails(*args, **kwargs):
            raise AssertionError("computed apart")

        monkeypatch.setitem(scope, "forward", fails)
        CALLS[name](x, a, b, 0.5)
    assert OPERATORS["addcmul"].out_kernel is not None
