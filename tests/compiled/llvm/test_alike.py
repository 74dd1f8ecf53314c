"""What a loop of Python's repeats is written once: code for LLVM does not grow with its turns."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import pullback as torch
from pullback.compiled.llvm.module import ModuleText

SIZES = (6, 24)


@pytest.fixture
def texts(monkeypatch):
    """Texts of the modules that were written."""
    found = []
    written = ModuleText.__init__

    def init(self, *args, **options):
        written(self, *args, **options)
        found.append(self.text)

    monkeypatch.setattr(ModuleText, "__init__", init)
    return found


def products(x, w, turns):
    for _ in range(turns):
        x = (x @ w).tanh()
    return x


def slices(x, w, turns):
    rows = [x[:, 4 * t : 4 * t + 4] * 2 + x[:, 4 * t : 4 * t + 4].sin() for t in range(turns)]
    return torch.stack(rows, 1)


def writes(x, w, turns):
    made = x.clone()
    for t in range(turns):
        made[:, 4 * t : 4 * t + 4] += w[:, :4] * 0.5
    return made


def products_of_slices(x, w, turns):
    h = x[:, :4]
    for t in range(turns):
        h = (x[:, 4 * t : 4 * t + 4] @ w[:4, :4] + h @ w[4:8, 4:8]).tanh()
    return h


CASES = [(products, 8), (slices, 96), (writes, 96), (products_of_slices, 96)]


@pytest.mark.parametrize(
    ("function", "columns"), CASES, ids=lambda one: getattr(one, "__name__", "")
)
@pytest.mark.parametrize("backward", [False, True])
def test_functions_do_not_grow_with_the_turns_of_a_loop(texts, function, columns, backward):
    rng = np.random.default_rng(0)
    rows = 8
    counts = []
    for turns in SIZES:
        x = torch.tensor(rng.standard_normal((rows, columns), dtype=np.float32))
        w = torch.tensor(rng.standard_normal((rows, 8), dtype=np.float32) * 0.3)
        x.requires_grad_(backward)
        wanted = function(x, w, turns)
        texts.clear()
        f = torch.compile(lambda x, w: function(x, w, turns).square().sum(), backend="llvm")  # noqa: B023
        made = f(x, w)
        counts.append(sum(text.count("define ") for text in texts))
        assert torch.allclose(made, wanted.square().sum(), rtol=1e-4)
        if backward:
            wanted.square().sum().backward()
            eager, x.grad = x.grad, None
            f(x, w).backward()
            assert torch.allclose(x.grad, eager, rtol=1e-4, atol=1e-5)
    # The first and the last turn may be of their own, and one loop calls the others.
    assert counts[1] <= counts[0] + 4


def test_many_calls_are_a_loop_over_a_table(texts):
    x = torch.tensor(np.random.default_rng(1).standard_normal((8, 8), dtype=np.float32))
    f = torch.compile(lambda x, w: products(x, w, 40), backend="llvm")
    made = f(x, x * 0.5)
    (text,) = texts
    assert text.count("call void @g") < 10
    assert "call void %f(ptr %B, ptr %S, i64 0, i64 %n, i64 0)" in text
    assert torch.allclose(made, products(x, x * 0.5, 40), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(5, 9, 13, 7)])
def test_offsets_that_vary_with_sizes_stay_inputs_of_the_code(sizes):
    """Words of a table are fixed: an offset of one size must not be taken for another's."""

    def halves(x, w):
        n = x.shape[0] // 2
        parts = [x[n:], x[n:] * 2, x[1 : 1 + n].sum(0, keepdim=True), x[n : n + 1] @ w]
        return torch.cat(parts)

    f = torch.compile(halves, backend="llvm")
    rng = np.random.default_rng(2)
    w = torch.tensor(rng.standard_normal((4, 4), dtype=np.float32))
    for n in sizes:
        x = torch.tensor(rng.standard_normal((n, 4), dtype=np.float32))
        assert torch.allclose(f(x, w), halves(x, w), rtol=1e-5, atol=1e-6), n
