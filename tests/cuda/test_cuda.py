"""`torch.cuda` without a device."""

import pytest

import pullback as torch
from tests.cuda.conftest import HAS_DEVICE

pytestmark = pytest.mark.skipif(HAS_DEVICE, reason="there is a device")


def test_memory_is_not_in_use():
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved(0) == 0
    assert dict(torch.cuda.memory_stats()) == {}
    assert torch.cuda.empty_cache() is None


def test_streams_are_names_only():
    with torch.cuda.stream(None):
        pass
    with torch.cuda.device(-1):
        pass
    for make in (torch.cuda.Stream, torch.cuda.Event, torch.cuda.CUDAGraph):
        assert isinstance(make, type)
        with pytest.raises(RuntimeError, match="none can hold tensors"):
            make()
    with pytest.raises(RuntimeError), torch.cuda.device(0):
        pass
    with pytest.raises(RuntimeError), torch.cuda.nvtx.range("a"):
        pass


def test_types_of_tensors():
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    with pytest.raises(TypeError, match=r"torch\.FloatTensor"):
        torch.cuda.FloatTensor(2)


def test_seeds_and_states():
    torch.cuda.manual_seed_all(1)
    torch.cuda.random.seed_all()
    assert torch.cuda.get_rng_state_all() == []
    torch.cuda.set_rng_state_all([])
    with pytest.raises(AssertionError):
        torch.cuda.initial_seed()


def test_what_needs_a_device_says_so():
    for name in ("current_device", "get_device_name", "get_device_properties", "init"):
        with pytest.raises(AssertionError, match=f"cuda.{name}"):
            getattr(torch.cuda, name)()
    torch.cuda.set_device(-1)
    with pytest.raises(ValueError, match="cuda device is needed"):
        torch.cuda.set_device("cpu")
    with pytest.raises(AttributeError, match="no CUDA device"):
        torch.cuda.no_such_name
