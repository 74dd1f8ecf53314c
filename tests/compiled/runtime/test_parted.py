"""Programs with eager kernels between native parts, by their fast path."""

import threading

import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters

pytest.importorskip("llvmlite")
F = nn.functional


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    counters.clear()


def short(function, *args):
    """A compiled function that has its fast path."""
    f = torch.compile(function, backend="llvm")
    for _ in range(3):
        f(*args)
    assert f.quick is not None
    return f


PROGRAMS = {
    "kernel last": lambda x: (x * 2).cumsum(1),
    "kernel first": lambda x: x.sort(1).values * 2,
    "between": lambda x: ((x * 2).cumsum(0) + 1).tanh(),
    "several": lambda x: (x.sort(0).values * 2).cumsum(1) + x.flip(0),
    "two results": lambda x: ((x * 2).sort(1).values, x.tanh()),
    "both of a kernel": lambda x: (x * 2).sort(1),
    "view of what is given": lambda x: (x.flip(0).flip(0), x * 2),
    "other dtypes": lambda x: ((x * 10).to(torch.uint8).float() / 3).half().float() * 2,
    "complex": lambda x: torch.fft.fft(x * 2).abs() + 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_short_way_gives_what_eager_gives(name):
    function = PROGRAMS[name]
    f = torch.compile(function, backend="llvm")
    kept = []
    for _ in range(8):
        x = torch.randn(5, 7).abs()
        ours, eager = f(x), function(x)
        kept.append((ours, eager))
    for ours, eager in kept:  # nothing was written over later
        pairs = zip(ours, eager, strict=True) if isinstance(eager, tuple) else [(ours, eager)]
        for a, b in pairs:
            assert a.dtype == b.dtype
            assert torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-5)


def test_gradients_come_with_the_result():
    weight = torch.randn(7, 4, requires_grad=True)

    def loss(x):
        return ((x @ weight).cumsum(0).sort(1).values * 2).tanh().sum()

    f = torch.compile(loss, backend="llvm")
    for _ in range(6):
        x = torch.randn(5, 7)
        (ours,) = torch.autograd.grad(f(x), weight)
        (eager,) = torch.autograd.grad(loss(x), weight)
        assert torch.allclose(ours, eager, rtol=1e-4, atol=1e-5)
    assert f.quick is not None


def test_results_do_not_share_memory_with_what_was_given():
    f = short(lambda x, i: (x.cumsum(0), x.index_select(0, i)), torch.randn(4, 3), torch.arange(4))
    x = torch.randn(4, 3)
    first, second = f(x, torch.arange(4))
    known = second.clone()
    x.zero_()
    first.zero_()
    assert torch.equal(second, known)


def test_an_error_of_a_kernel_leaves_the_short_way_usable():
    f = short(lambda x, i: (x * 2).index_select(0, i) + 1, torch.randn(4, 3), torch.tensor([1, 2]))
    x = torch.randn(4, 3)
    with pytest.raises(IndexError):
        f(x, torch.tensor([1, 9]))
    assert torch.allclose(f(x, torch.tensor([3, 0])), (x * 2)[[3, 0]] + 1)


def test_a_changed_argument_is_noticed():
    f = short(lambda x: (x * 2).cumsum(0), torch.randn(4, 3))
    for x in (torch.randn(5, 3), torch.randn(3, 4).t(), torch.randn(4, 3).double()):
        assert torch.allclose(f(x), (x * 2).cumsum(0))
    x = torch.randn(4, 3, requires_grad=True)
    assert f(x).requires_grad


def test_threads_have_tables_of_their_own():
    f = short(lambda x: ((x * 2).cumsum(0) + 1).sum(), torch.randn(40, 3))
    wrong = []

    def work(first):
        for n in range(400):
            value = first + n % 7
            x = torch.full((40, 3), value)
            if not torch.allclose(f(x), ((x * 2).cumsum(0) + 1).sum()):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0.5, 100.0, 1000.0)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
