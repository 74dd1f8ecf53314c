"""Loops shared among threads: the results of one, whoever calls and whenever."""

import subprocess
import sys

import pytest

import pullback as torch

pytest.importorskip("llvmlite")

PROGRAM = """
import os, threading
import numpy as np
import pullback as torch
from pullback.compiled.runtime.threads import can_share, count

assert count() == (3 if can_share() else 1)
x = torch.from_numpy(np.random.default_rng(0).standard_normal((700, 300), np.float32))
w = torch.from_numpy(np.random.default_rng(1).standard_normal(300, np.float32)).requires_grad_()

def f(x):
    y = (x * w).softmax(-1)
    return (y * x.exp()).mean(), y.amax(0) + 1.0, y.mean(0)  # totals that are no results: shared

g = torch.compile(f, fullgraph=True, backend="llvm")
loss, top, total = g(x)
wanted = f(x)
for ours, one in zip((loss, top, total), wanted):
    np.testing.assert_allclose(ours.detach()._array, one.detach()._array, rtol=2e-4, atol=1e-5)
(loss + total.sum()).backward()
ours, w.grad = w.grad, None
(wanted[0] + wanted[2].sum()).backward()
np.testing.assert_allclose(ours._array, w.grad._array, rtol=3e-3, atol=2e-2)
first = [one.detach()._array.copy() for one in g(x)]

def again():
    for _ in range(20):
        for a, b in zip(g(x), first):
            if not (a.detach()._array == b).all():
                os._exit(3)

threads = [threading.Thread(target=again) for _ in range(3)]
for one in threads:
    one.start()
again()
for one in threads:
    one.join()
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        g(x)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("fine")
"""


SET = "import pullback\npullback.set_num_threads(3)\n"
SHARED = """
from pullback.compiled.runtime import threads as workers
assert len(workers._pools) == 1, "loops were not shared"
"""


@pytest.mark.parametrize(
    ("before", "named"), [("", {"PULLBACK_THREADS": "3"}), (SET, {})], ids=["environment", "set"]
)
def test_shared_loops_give_fixed_results(before, named):
    program = before + PROGRAM + SHARED
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True,
                          text=True, timeout=100, check=False,
                          env={**named, "PULLBACK_CACHE": "0",
                               "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                               "PYTHONPATH": ":".join(sys.path)})  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("threads", [3, 16, 40])
def test_more_threads_than_rows_do_no_row_twice(threads):
    """Loops do at least one row: a part without any was done by two threads at once."""
    pytest.importorskip("llvmlite")
    torch.manual_seed(0)
    x, w = torch.randn(2, 7, 9, 10), torch.randn(70, 7, 2, 3)
    g = torch.randn(2, 70, 10, 10)
    before = torch.get_num_threads()
    found = []
    try:
        for number in (1, threads):
            torch.set_num_threads(number)
            for _ in range(20):
                leaves = [one.clone().requires_grad_() for one in (x, w)]
                torch.nn.functional.conv2d(*leaves, padding=1).backward(g)
                found.append([one.grad for one in leaves])
    finally:
        torch.set_num_threads(before)
    for made in found[1:]:
        for ours, one in zip(made, found[0], strict=True):
            assert torch.allclose(ours, one, atol=1e-4)
