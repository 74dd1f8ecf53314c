"""Memory shared with CuPy, and with torch where it is installed."""

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device

pytestmark = [needs_device, pytest.mark.usefixtures("device")]


def test_cupy_and_tensors_share_memory():
    import cupy

    x = torch.arange(4.0, device="cuda")
    array = cupy.asarray(x)
    array[0] = 7
    assert x.tolist() == [7, 1, 2, 3]
    assert torch.from_dlpack(array).data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="detach"):
        torch.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__


def test_torch_and_tensors_share_memory():
    theirs = pytest.importorskip("torch")
    x = torch.arange(4.0, device="cuda")
    y = theirs.from_dlpack(x)
    y[0] = 5
    theirs.cuda.synchronize()
    assert x.tolist() == [5, 1, 2, 3]
    z = torch.from_dlpack(theirs.ones(3, device="cuda"))
    assert z.is_cuda
    assert z.tolist() == [1, 1, 1]
