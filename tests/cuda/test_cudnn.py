"""Convolutions by cuDNN on a device: the host's values and gradients, as exact as was asked for."""

import numpy
import pytest

import pullback as torch
from pullback.operators.cuda.cudnn import Cudnn
from tests.cuda.conftest import needs_device

F = torch.nn.functional
SIZES = {1: (17,), 2: (11, 13), 3: (7, 6, 8)}
# Stride, padding, dilation, groups.
GEOMETRIES = [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (2, 1, 2, 2), (1, 1, 1, 4)]
CLOSE = {"float64": 1e-13, "float32": 3e-6, "float16": 4e-3, "bfloat16": 4e-2}


def test_without_the_library_it_takes_nothing():
    class Cupy:
        """Has no kernels, as the stand-in of the tests."""

    cudnn = Cudnn(Cupy())
    assert cudnn.library() is None


@pytest.fixture
def by_cudnn(device):
    cudnn = device.cudnn
    if cudnn.library() is None:
        pytest.skip("cuDNN is not installed")
    return cudnn


def run(dim, geometry, arrays, device, dtype, *, transposed=False):
    stride, padding, dilation, groups = geometry
    name = f"conv_transpose{dim}d" if transposed else f"conv{dim}d"
    given = [one.to(dtype).to(device).requires_grad_() for one in arrays]
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = getattr(F, name)(*given, **how)
    g = torch.tensor(numpy.random.default_rng(1).normal(size=tuple(out.shape))).to(dtype)
    grads = torch.autograd.grad(out, given, g.to(device))
    return [one.detach().cpu().double().numpy() for one in (out, *grads)]


def images(dim, groups, dtype, *, transposed):
    rng = numpy.random.default_rng(0)
    filters = (8, 12 // groups) if transposed else (12, 8 // groups)
    shapes = (3, 8, *SIZES[dim]), (*filters, *(3,) * dim), (12,)
    return [torch.tensor(rng.normal(size=shape)).to(dtype) for shape in shapes]


@needs_device
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dim", SIZES)
@pytest.mark.parametrize("name", CLOSE)
def test_convolutions_are_those_of_the_host(by_cudnn, name, dim, geometry, transposed):
    dtype = getattr(torch, name)
    arrays = images(dim, geometry[3], dtype, transposed=transposed)
    expected = run(dim, geometry, arrays, "cpu", torch.float64, transposed=transposed)
    before = len(by_cudnn._plans)
    found = run(dim, geometry, arrays, "cuda", dtype, transposed=transposed)
    assert len(by_cudnn._plans) > before
    for one, other in zip(found, expected, strict=True):
        assert numpy.abs(one - other).max() <= CLOSE[name] * max(1.0, numpy.abs(other).max())


@needs_device
def test_deterministic_algorithms_give_the_same_bits(by_cudnn):
    arrays = images(2, 1, torch.float32, transposed=False)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        runs = [run(2, GEOMETRIES[1], arrays, "cuda", torch.float32) for _ in range(5)]
    for again in runs[1:]:
        assert all((a == b).all() for a, b in zip(runs[0], again, strict=True))


@needs_device
def test_memory_at_odd_addresses_goes_another_way(by_cudnn):
    arrays = images(2, 1, torch.float32, transposed=False)
    flat = torch.zeros(arrays[0].numel() + 1, device="cuda")
    flat[1:] = arrays[0].flatten().cuda()
    shifted = flat[1:].view(arrays[0].shape)
    found = F.conv2d(shifted, arrays[1].cuda()).cpu()
    expected = F.conv2d(arrays[0].double(), arrays[1].double())
    assert (found - expected).abs().max() < 1e-5


@needs_device
def test_switched_off_it_is_not_asked(by_cudnn):
    arrays = images(2, 1, torch.float32, transposed=False)
    by_cudnn._plans.clear()
    with torch.backends.cudnn.flags(enabled=False):
        run(2, GEOMETRIES[0], arrays, "cuda", torch.float32)
    assert not by_cudnn._plans
