"""Memory of a device: what is in use and was, what holds it, and what is said when none is left."""

import gc

import pytest

import pullback as torch
from tests.cuda import stand_in
from tests.cuda.stand_in import devices

pytestmark = pytest.mark.usefixtures("library")
MB = 1 << 20


def test_memory_in_use_and_the_most_of_it():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.zeros(4 * MB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 * MB
    y = torch.zeros(2 * MB, dtype=torch.uint8, device="cuda")
    del x, y
    z = torch.zeros(MB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == MB
    # Nobody asked while it was high.
    assert torch.cuda.max_memory_allocated() - before == 6 * MB
    assert torch.cuda.max_memory_reserved() >= torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() - before == MB
    del z


def test_the_most_that_a_backward_pass_holds_is_seen():
    x = torch.ones(MB // 4, device="cuda", requires_grad=True)
    torch.autograd.grad((x.exp() * x.sin()).sum(), x)  # what kernels keep is there
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    (x.exp() * x.sin()).sum().backward()
    most = torch.cuda.max_memory_allocated() - before
    assert 4 * MB <= most <= 7 * MB
    assert torch.cuda.memory_allocated() - before < 1.1 * MB
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == most + before


def test_the_map_of_a_graph_counts_blocks_of_the_device():
    x = torch.ones(1000, device="cuda", requires_grad=True)
    found = torch.autograd.graph.memory_map((x.exp() * 2).sum())
    assert {entry.node for entry in found} == {"ExpBackward0", "torch::autograd::AccumulateGrad"}
    assert all(entry.bytes >= 4000 for entry in found)


@pytest.fixture
def limited(library):
    """A device of 64 MB more than the pool has."""
    gc.collect()  # what tests before this left would be given back in the middle of it
    if library.cupy is not stand_in.module:
        pool = library.cupy.get_default_memory_pool()
        pool.free_all_blocks()
        held = pool.total_bytes()  # pieces that nobody uses count too
    else:
        pool = devices.pool
        held = pool.used_bytes()
    pool.set_limit(size=held + 64 * MB)
    yield pool
    pool.set_limit(size=0)


@pytest.mark.usefixtures("limited")
def test_out_of_memory_names_the_lines_that_hold_it():
    x = torch.ones(2 * MB, device="cuda", requires_grad=True)

    def program():
        return [x.exp() for _ in range(20)]  # the line that is told

    with pytest.raises(torch.OutOfMemoryError) as caught:
        program()
    told = str(caught.value)
    assert "cuda:0 has no memory for 8 MiB more" in told
    assert "ExpBackward0: its `out` at " in told
    assert "test_memory.py" in told
    assert "7 times" in told
    assert "parameters and other leaves" in told
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    del caught
    assert x.exp().sum() > 0


@pytest.mark.usefixtures("limited")
def test_out_of_memory_in_a_backward_pass_leaves_the_rest_usable():
    x = torch.ones(MB, device="cuda", requires_grad=True)
    y = (x * x.exp() * 3 * x.sin()).sum()
    filler = torch.empty(44 * MB, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="in the backward of"):
        y.backward(retain_graph=True)
    del filler
    x.grad = None
    y.backward()
    assert x.grad.is_cuda


def test_a_fault_of_the_device_is_told_by_the_operator_in_anomaly_mode(library):
    if library.cupy is not stand_in.module:
        pytest.skip("a fault would leave the device unusable for the tests that follow")
    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = x.exp()
        devices.Device.fault = devices.CUDARuntimeError(700)
        with pytest.raises(torch.AcceleratorError, match="sin failed on the device"):
            y.sin()
        z = (y * 2).sum()
        y.register_hook(lambda g: _break())
        with (
            pytest.warns(UserWarning, match="Error detected in ExpBackward0"),
            pytest.raises(torch.AcceleratorError, match="ExpBackward0 failed on the device"),
        ):
            z.backward()


def _break():
    devices.Device.fault = devices.CUDARuntimeError(700)


def test_pinned_memory_is_read_by_the_device():
    x = torch.arange(6.0).reshape(2, 3)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[0].is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), x)
    assert torch.equal(pinned.T.cuda().cpu(), x.T)
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros(0, pin_memory=True).shape == (0,)
    leaf = x.clone().requires_grad_()
    leaf.pin_memory().sum().backward()
    assert torch.equal(leaf.grad, torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="host's memory alone"):
        x.cuda().pin_memory()
    with pytest.raises(RuntimeError, match="host's memory alone"):
        torch.ones(2, pin_memory=True, device="cuda")


def test_a_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(4.0), torch.arange(4))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    batches = list(loader)
    assert all(one.is_pinned() for batch in batches for one in batch)
    assert torch.equal(batches[1][0], torch.tensor([2.0, 3.0]))
