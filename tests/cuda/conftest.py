"""Where tests of devices run: on a stand-in for CuPy everywhere, on a device where there is one."""

import importlib.util
import sys

import numpy
import pytest

import pullback as torch
from pullback.core.mode import settle
from pullback.operators.cuda import found as finding

HAS_DEVICE = importlib.util.find_spec("cupy") is not None and finding.found()
if HAS_DEVICE:
    finding.forget()

needs_device = pytest.mark.skipif(
    not HAS_DEVICE, reason=f"needs CuPy and a CUDA device ({finding.found.reason})"
)


@pytest.fixture(autouse=True)
def silent_device():
    """Devices say nothing of NaN; the stand-in computes by NumPy, in the tests' own files."""
    settle()  # what pullback asks of NumPy once in a context would end with the block
    with numpy.errstate(all="ignore"):
        yield


@pytest.fixture(autouse=True)
def full_precision():
    """Convolutions in whole single precision, as on the host: TensorFloat-32 keeps ten bits."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.fixture(params=["stand-in", pytest.param("cuda", marks=needs_device)], scope="module")
def library(request):
    """An array library for devices of type "cuda", given up after the module."""
    if request.param == "cuda":
        assert finding.found()
        yield finding.found.library
        finding.forget()
        return
    from tests.cuda import stand_in

    before = {name: sys.modules.get(name) for name in stand_in.MODULES}
    sys.modules.update(stand_in.MODULES)
    yield finding.use(stand_in.module, stand_in.cupyx, 1)
    finding.forget()
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


@pytest.fixture(scope="module")
def device():
    """A device, given up after the module: the next one would take its pool for the user's own."""
    assert finding.found()
    yield finding.found.library
    finding.forget()
