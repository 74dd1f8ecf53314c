"""Long sums in machine code: rows in chains, many rows in blocks."""

import math

import numpy
import pytest

import pullback as torch

pytest.importorskip("llvmlite")


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5, 1000, 7), 1), ((1000, 5, 33), (0, 2)), ((2, 700, 3, 70), (1, 3)),
     ((2, 3, 900, 5), (0, 2)), ((300, 2, 500), (0, 1, 2)), ((3, 9000), 1), ((200, 3, 1), 0),
     ((40, 40, 40), (0, 1))],
)  # fmt: skip
def test_blocks_of_rows_add_up_to_the_sum_whatever_dims_go(shape, dim, monkeypatch):
    x = torch.from_numpy(numpy.random.default_rng(0).integers(-9, 9, shape).astype("f"))
    for threads in ("1", "3"):
        monkeypatch.setenv("PULLBACK_THREADS", threads)
        function = torch.compile(lambda x: (x * 2).sum(dim), backend="llvm")
        numpy.testing.assert_array_equal(function(x).numpy(), (x.numpy() * 2).sum(dim))


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("shape", [(9000, 3), (3, 9000)])
def test_what_is_infinite_stays_so_in_long_compiled_sums(shape, special):
    x = torch.ones(shape)
    x[0, 0] = special
    for dim in (0, 1):
        function = torch.compile(lambda x, dim=dim: (x * 2).sum(dim), backend="llvm")
        numpy.testing.assert_array_equal(function(x).numpy(), (x * 2).sum(dim).numpy())
    x[-1, -1] = -special
    function = torch.compile(lambda x: (x * 2).sum(), backend="llvm")
    assert math.isnan(function(x).item())
