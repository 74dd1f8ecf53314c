"""The native entry: what it holds while it runs, and what it lets go of."""

import subprocess
import sys

import pytest

import pullback as torch

pytest.importorskip("llvmlite")

# The other thread gets the interpreter's lock only where this one releases it, inside a kernel.
PROGRAM = """
import sys, threading, weakref
import numpy
import pullback as torch
import pullback.nn.functional as F
from pullback._dynamo import compiled_autograd

sys.setswitchinterval(1000)
x = torch.randn(4_000_000)
w, seed = torch.ones(4_000_000, requires_grad=True), torch.ones(4_000_000)
f = lambda x: torch.exp(torch.sin(x)) * torch.cos(x) + torch.tanh(x)
compiled = torch.compile(f)
held = torch.compile(lambda: f(x))
scaled = torch.compile(lambda x: torch.exp(torch.sin(x * w)) * x)

def backward(made, start):
    w.grad = None
    start()
    made.backward(seed)
    return w.grad

def argument(start):
    start()
    return compiled(x)

def closure(start):
    start()
    return held()

def eager(start):
    rows = x.view(4000, 1000)
    start()
    return F.layer_norm(rows, (1000,))

def backward_of_a_call(start):
    return backward(scaled(x), start)

def captured_pass(start):
    with compiled_autograd._enable(torch.compile):
        return backward((w * x).exp().sin(), start)

run = globals()[CASE]
for _ in range(4):
    wanted = run(lambda: None).clone()
values, inside = x._array, False

def memory_of(array):
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return weakref.ref(array)

def replace(other):
    # Whether that was inside the kernel, and the old array outlived it.
    old = memory_of(x._array)
    ready.set()
    begin.wait()
    x.data = other
    seen.append((inside, old() is not None))

def start():
    global inside
    inside = True
    begin.set()

for _ in range(50):  # until the other thread was quick enough
    x.data, seen = torch.from_numpy(values.copy()), []
    ready, begin = threading.Event(), threading.Event()
    thread = threading.Thread(target=replace, args=(torch.zeros(4_000_000),))
    thread.start()
    ready.wait()
    made = run(start)
    inside = False
    thread.join()
    if seen[0][0]:
        break
print(*seen[0], torch.equal(made, wanted))
"""


@pytest.mark.parametrize(
    "case", ["argument", "closure", "eager", "backward_of_a_call", "captured_pass"]
)
def test_arrays_live_while_a_kernel_runs_without_the_lock(case, tmp_path):
    program = f"CASE = {case!r}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True,
                          text=True, timeout=100, cwd=tmp_path)  # fmt: skip
    assert not done.returncode, done.stderr
    if done.stdout.startswith("False"):
        pytest.skip("the other thread never ran beside the kernel")
    assert done.stdout.strip() == "True True True"


def test_a_large_program_lets_go_of_what_it_held():
    f = torch.compile(lambda x, y: torch.exp(torch.sin(x)) * torch.cos(y) + torch.tanh(x))
    x, y = torch.randn(200_000), torch.randn(200_000)
    for _ in range(3):
        f(x, y)
    before = [sys.getrefcount(one._array) for one in (x, y)]
    for _ in range(10):
        f(x, y)
    assert [sys.getrefcount(one._array) for one in (x, y)] == before
