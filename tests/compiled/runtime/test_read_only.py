"""A compiled function refuses to write to read-only memory, as eager does."""

import subprocess
import sys
import warnings

import numpy
import pytest

import pullback as torch
from pullback import nn
from tests.compiled.closeness import close

WRITES = {
    "add_": lambda x, y: x.add_(1),
    "copy_": lambda x, y: x.copy_(y),
    "a part": lambda x, y: x[1:].mul_(3),
    "an element": lambda x, y: x.__setitem__(0, 7.0),
    "out=": lambda x, y: torch.mul(y, 2, out=x),
    "zero_": lambda x, y: x.zero_(),
    "a view": lambda x, y: x.view(2, 2).t().exp_(),
    "by places": lambda x, y: x.index_add_(0, torch.tensor([0]), y[:1]),
    "a mask": lambda x, y: x.masked_fill_(y > 0, 2.0),
    "foreach": lambda x, y: torch._foreach_mul_([x], 2.0),
}


def fixed(values):
    array = numpy.array(values, numpy.float32)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("wants_gradients", [False, True])
@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
def test_read_only_targets_are_refused_with_eagers_error(compiled, write, wants_gradients, first):
    def f(x, y, w):
        write(x, y)
        return (x * w).sum()

    g = compiled(f)
    y, w = torch.ones(4), torch.ones(4, requires_grad=wants_gradients)
    for _ in range(0 if first else 3):
        g(torch.ones(4), y, w)
    x = fixed([1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="read-only") as ours:
        g(x, y, w)
    with pytest.raises(RuntimeError, match="read-only") as eager:
        f(x, y, w)
    assert str(ours.value) == str(eager.value)
    assert x.tolist() == [1, 2, 3, 4]
    close(g(torch.ones(4), y, w), f(torch.ones(4), y, w))  # others are written as before


def test_a_held_tensor_that_becomes_read_only_is_refused(compiled):
    held = torch.zeros(4)
    g = compiled(lambda x: held.add_(x))
    for _ in range(3):
        g(torch.ones(4))
    held.data = fixed([1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="read-only"):
        g(torch.ones(4))
    assert held.tolist() == [1, 2, 3, 4]


def test_read_only_arguments_may_be_read(compiled):
    def f(x, y):
        y.add_(x)
        return y * x

    g = compiled(f, fullgraph=True)
    for _ in range(3):
        assert g(fixed([1, 2]), torch.ones(2)).tolist() == [2, 6]


def test_statistics_on_read_only_memory_are_refused(compiled):
    norm = nn.BatchNorm1d(3)
    g = compiled(norm)
    x = torch.randn(4, 3)
    for _ in range(3):
        g(x)
    norm.running_mean.data = fixed([0, 0, 0])
    with pytest.raises(RuntimeError, match="read-only"):
        g(x)
    assert norm.running_mean.tolist() == [0, 0, 0]


PAGES = """
import warnings, numpy, pullback as torch
warnings.simplefilter("ignore")
f = torch.compile(lambda x: x.add_(1))
for _ in range(3):
    f(torch.zeros(4))
numpy.zeros(4, "f4").tofile("pages")
try:
    f(torch.from_numpy(numpy.asarray(numpy.memmap("pages", dtype="f4", mode="r"))))
except RuntimeError as error:
    print("refused" if "read-only" in str(error) else error)
bytes_ = b"\\0" * 16
try:
    f(torch.frombuffer(bytes_, dtype=torch.float32))
except RuntimeError as error:
    print("refused" if "read-only" in str(error) else error, bytes_ == b"\\0" * 16)
"""


def test_pages_of_a_file_opened_for_reading_and_bytes_are_refused(tmp_path):
    run = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True,
                         cwd=tmp_path)  # fmt: skip
    assert (run.returncode, run.stdout.split()) == (0, ["refused", "refused", "True"]), run.stderr
