"""Results lie in memory as eager's do."""

import numpy
import pytest

import pullback as torch
from pullback.compiled.backends import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")
functional = torch.nn.functional


def _numbers(*shape):
    return torch.tensor(numpy.random.default_rng(0).standard_normal(shape).astype("f4"))


CALLS = {
    "transposed": (lambda x: x * 3, lambda: _numbers(3, 4).t()),
    "a chain": (lambda x: (x * 3 + 1).tanh() - x, lambda: _numbers(3, 40).t()),
    "with a row": (lambda x: x * torch.arange(3.0) + 1, lambda: _numbers(3, 4).t()),
    "with a column": (lambda x: x * torch.arange(4.0)[:, None], lambda: _numbers(3, 4).t()),
    "both orders": (lambda x: x + _BY_ROWS, lambda: _numbers(3, 4).t()),
    "channels last": (lambda x: x.relu() + 1, lambda: _numbers(2, 5, 6, 3).permute(0, 3, 1, 2)),
    "comparison": (lambda x: x > 0, lambda: _numbers(3, 4).t()),
    "cast": (lambda x: x.double() * 2, lambda: _numbers(3, 4).t()),
    "where": (lambda x: torch.where(x > 0, x, -x), lambda: _numbers(3, 4).t()),
    "contiguous": (lambda x: (x * 2).contiguous(), lambda: _numbers(3, 4).t()),
    "clone": (lambda x: x.clone(), lambda: _numbers(3, 4).t()),
    "turned at the end": (lambda x: (x * 2).t(), lambda: _numbers(3, 4)),
    "turned twice": (lambda x: (x.t() * 2).t() + 1, lambda: _numbers(3, 4)),
    "reduced": (lambda x: x.sum(0, keepdim=True) * x, lambda: _numbers(3, 4, 5).permute(2, 0, 1)),
    "softmax": (lambda x: x.softmax(-1) * 2, lambda: _numbers(3, 4).t()),
    "product": (lambda x: (x @ x.t()) * 2, lambda: _numbers(3, 4).t()),
    "cut": (lambda x: x[1:] * 2, lambda: _numbers(5, 4).t()),
    "like": (lambda x: torch.zeros_like(x) + x, lambda: _numbers(3, 4).t()),
    "two": (lambda x: (x * 2, (x * 2).t()), lambda: _numbers(3, 4).t()),
    "gathered": (lambda x: x[torch.tensor([1, 0])] * 2, lambda: _numbers(3, 4).t()),
    "joined": (lambda x: torch.cat([x, x]) * 2, lambda: _numbers(3, 4).t()),
    "equal ones": (lambda x: (x.cos().t(), x.cos().t(), x.cos().t()), lambda: _numbers(3, 4)),
}  # fmt: skip
_BY_ROWS = _numbers(4, 3)


@pytest.mark.parametrize("name", CALLS)
def test_strides_are_those_of_eager(name):
    function, make = CALLS[name]
    x = make()
    compiled = torch.compile(function, options={"never_slower": False})
    for _ in range(3):
        theirs, ours = function(x), compiled(x)
        if not isinstance(theirs, tuple):
            theirs, ours = (theirs,), (ours,)
        for one, other in zip(ours, theirs, strict=True):
            assert one.stride() == other.stride()
            numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
            assert one.is_contiguous() == other.is_contiguous()


@pytest.mark.parametrize("name", ["transposed", "a chain", "channels last", "where"])
def test_strides_with_gradients(name):
    function, make = CALLS[name]
    found = []
    for one in (function, torch.compile(function, options={"never_slower": False})):
        x = make().requires_grad_()
        y = one(x)
        (y * y).sum().backward()
        found.append((y.stride(), x.grad.stride(), x.grad.numpy()))
    assert found[0][:2] == found[1][:2]
    numpy.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.flatten(), x.clone()),
        lambda x: (x.flatten(), x * 1, x.contiguous()),
        lambda x: (x.reshape(3, 4), x.clone(), x.reshape(-1), x.clone()),
    ],
)
def test_results_of_equal_numbers_have_their_own_sizes_and_memory(function):
    x = _numbers(4, 6)[::2]
    theirs, ours = function(x), torch.compile(function, backend="llvm")(x)
    assert [one.shape for one in ours] == [one.shape for one in theirs]
    assert [one.stride() for one in ours] == [one.stride() for one in theirs]
    for number, one in enumerate(ours):
        one.fill_(float(number))
    assert all((one == number).all() for number, one in enumerate(ours))


def test_a_turned_chain_is_one_loop():
    compiled = torch.compile(lambda x: (x * 3 + 1).tanh() - x, options={"never_slower": False})
    compiled(_numbers(30, 40).t())
    (program,) = compiled.entries[0].programs()
    assert len(program.plan.steps) == 1
