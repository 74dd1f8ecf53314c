"""Products that are added to a tensor in place are one call of BLAS, where nothing forbids it."""

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.llvm.machine import is_available
from pullback.compiled.plan.plan import Update

pytestmark = pytest.mark.skipif(not is_available(), reason="needs llvmlite")


def taken_by_sub(w, v, x):
    w.sub_((x @ w.mT).mT @ x, alpha=0.1)
    v.add_(x.mT @ x)


def two_of_one_shape(w, v, x):
    v -= 0.5 * (x.mT @ x)
    w += (x @ w.mT).mT @ x


def reads_its_target(w, v, x):
    v.add_(v @ v, alpha=0.01)
    w.sub_(w @ v)


def reads_what_is_overwritten(w, v, x):
    v.mul_(0.5)
    w.add_(w @ v)


def used_elsewhere(w, v, x):
    d = x.mT @ x
    v.add_(d)
    w.add_(d.sum())


def the_other_way_round(w, v, x):
    v.copy_(x.mT @ x - v)
    w.mul_(2.0)


def sum_is_read_at_once(w, v, x):
    v.add_(x.mT @ x)
    w[:5].sub_(v * 0.1)


CASES = {
    sum_is_read_at_once: 0,
    taken_by_sub: 2,
    two_of_one_shape: 2,
    reads_its_target: 0,
    reads_what_is_overwritten: 0,
    used_elsewhere: 0,
    the_other_way_round: 0,
}


def run(function, dtype):
    rng = np.random.default_rng(3)
    w, v, x = (
        torch.tensor(rng.normal(size=size), dtype=dtype) for size in ((6, 5), (5, 5), (4, 5))
    )
    for number in range(3):
        function(w, v, x * number)
    return w.numpy(), v.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", CASES, ids=lambda one: one.__name__)
def test_updates_by_products_are_as_eager(function, dtype):
    compiled = torch.compile(function, fullgraph=True, backend="llvm")
    for ours, eager in zip(run(compiled, dtype), run(function, dtype), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-5)
    (program,) = compiled.entries[0].programs()
    assert sum(isinstance(step, Update) for step in program.plan.steps) == CASES[function]
