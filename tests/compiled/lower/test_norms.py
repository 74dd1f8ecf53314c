"""Norms over the batch, with their running statistics, are loops: no eager kernel among them."""

import numpy as np
import pytest

import pullback as torch
from pullback import nn

pytest.importorskip("llvmlite")


def kernels(f):
    """Names of the eager kernels in a function's programs."""
    programs = [program for entry in f.entries for program in entry.programs()]
    return [between.kernel.name for one in programs for *_, between in one.parts if between]


@pytest.mark.parametrize("shape", [(32, 6), (5, 6, 4), (3, 6, 4, 5)])
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False}, {"eps": 0.1}])
def test_running_statistics_are_native(shape, options):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
    ours, eager = (kind(6, **options) for _ in range(2))
    f = torch.compile(lambda x: (ours(x) * 2).tanh().sum(), backend="llvm")
    for turn in range(5):
        torch.manual_seed(turn)
        x = (torch.randn(shape) * 3 + 1).requires_grad_()
        made, wanted = f(x), (eager(x) * 2).tanh().sum()
        pairs = [(made, wanted), *zip(*[torch.autograd.grad(one, x) for one in (made, wanted)],
                                      strict=True)]  # fmt: skip
        pairs += list(zip(ours.buffers(), eager.buffers(), strict=True))
        for a, b in pairs:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-5)
    if options.get("momentum", 0.1) is not None:
        assert not kernels(f)
    for one in (ours, eager):
        one.eval()
    with torch.no_grad():
        x = torch.randn(shape)
        np.testing.assert_allclose(
            f(x).numpy(), (eager(x) * 2).tanh().sum().numpy(), rtol=1e-4, atol=1e-4
        )


def test_integers_wrap_around_as_numpys_do():
    def work(x, y):
        return (x + y) * 3 - y, 7 - x, torch.maximum(x, -y), torch.add(x, y, alpha=-2), x & y | 5

    f = torch.compile(work, backend="llvm")
    for dtype, most in ((torch.int64, 2**63 - 1), (torch.int32, 2**31 - 1)):
        x = torch.tensor([0, 1, -1, most, -most - 1, most // 2 + 1, 12345], dtype=dtype)
        for a, b in zip(f(x, x.flip(0)), work(x, x.flip(0)), strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
    assert not kernels(f)
