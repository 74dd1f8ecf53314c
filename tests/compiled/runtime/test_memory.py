"""Results and gradients of compiled calls lie in memory that nobody else has (K-50)."""

import numpy
import pytest

import pullback as torch
from pullback.compiled.runtime.memory import owner_of

COPIES = {
    "clone": lambda x: x.clone(),
    "transposed": lambda x: x.t().contiguous(),
    "transposed, in its order": lambda x: x.t().clone(),
    "part": lambda x: x[:, :2].contiguous(),
    "expanded": lambda x: x.expand(2, 4, 3).contiguous(),
    "expanded clone": lambda x: x.expand(2, 4, 3).clone(),
    "row expanded": lambda x: x[:1].expand(4, 3) * 1,
    "permuted": lambda x: x.view(2, 2, 3).permute(2, 0, 1).contiguous(),
    "computed": lambda x: (x * 2).t().contiguous(),
}
LOSSES = {
    "product": lambda x, w: (x * w).sum(),
    "transposed": lambda x, w: (x.t() * w.t()).sum(),
    "twice transposed": lambda x, w: (x * w.t().t()).sum(),
    "parts": lambda x, w: (x[1:] * w[1:]).sum(),
    "means": lambda x, w: x.mean() + w.mean(),
}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.complex64]


def share(one, other):
    return numpy.shares_memory(one.detach().numpy(), other.detach().numpy())


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_no_view_of_the_argument_and_lies_as_eagers(compiled, name):
    f = COPIES[name]
    program = compiled(f, fullgraph=True)
    for wants in (False, True):
        for _ in range(3):
            x = torch.randn(4, 3).requires_grad_(wants)
            made, eager = program(x), f(x)
            assert torch.equal(made, eager)
            assert not share(made, x)
            assert made.is_contiguous() == eager.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_no_views_of_other_arguments(compiled, name, dtype):
    """A `.grad` is added to in place: an argument must not change with it."""

    def f(x, w):
        total = LOSSES[name](x, w)
        return total.abs() if dtype.is_complex else total

    program = compiled(f)
    x, w = (torch.randn(4, 3, dtype=dtype).requires_grad_() for _ in range(2))
    kept = w.detach().clone(), x.detach().clone()
    for _ in range(3):
        gradients = torch.autograd.grad(program(x, w), [x, w])
        for g, e in zip(gradients, torch.autograd.grad(f(x, w), [x, w]), strict=True):
            torch.testing.assert_close(g, e)
            assert not share(g, x)
            assert not share(g, w)
            g.add_(1)
        x.grad = w.grad = None
        for _ in range(2):
            program(x, w).backward()
    assert torch.equal(w, kept[0])
    assert torch.equal(x, kept[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_a_gradient_that_numpy_makes_a_number_of_is_taken(compiled, dtype):
    def f(x):
        return x.mean(), x * 2

    x = torch.randn(3, dtype=dtype).requires_grad_()

    def gradient(function):
        first, second = function(x)
        return torch.autograd.grad(first.abs() + second.abs().sum(), x)[0]

    torch.testing.assert_close(gradient(compiled(f)), gradient(f))


def test_the_owner_of_a_view_by_strides_is_found():
    array = numpy.ones((3, 4))
    by_strides = numpy.lib.stride_tricks.as_strided(array[1:], (2, 2), (0, 8))
    assert owner_of(by_strides) is array
    assert owner_of(by_strides[0].T) is array
    assert owner_of(array) is array
