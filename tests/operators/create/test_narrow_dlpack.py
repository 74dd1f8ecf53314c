"""DLPack of dtypes that NumPy does not exchange, and of capsules without their array."""

import numpy as np
import pytest

import pullback as torch

NAMES = "bfloat16 complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
NAMES = f"{NAMES} float8_e8m0fnu"


@pytest.mark.parametrize("name", NAMES.split())
def test_narrow_dtypes_are_exchanged_on_the_same_memory(name):
    pytest.importorskip("ml_dtypes")
    kind = getattr(torch, name)
    x = torch.ones(2, 3, dtype=kind)
    for source in (x, torch.utils.dlpack.to_dlpack(x)):
        made = torch.from_dlpack(source)
        assert made.dtype is kind
        assert made.data_ptr() == x.data_ptr()
        assert torch.equal(made.to(torch.complex64), torch.ones(2, 3, dtype=torch.complex64))
    turned = torch.from_dlpack(x.t())
    assert turned.stride() == (1, 3)
    assert torch.from_dlpack(x[0, 0]).shape == ()
    assert torch.from_dlpack(x[:0]).shape == (0, 3)
    copied = torch.from_dlpack(x, copy=True)
    assert copied.dtype is kind
    assert copied.data_ptr() != x.data_ptr()


def test_writes_to_exchanged_memory_are_seen():
    pytest.importorskip("ml_dtypes")
    x = torch.ones(3, dtype=torch.bfloat16)
    torch.from_dlpack(x)[0] = 5
    assert x.tolist() == [5, 1, 1]


def test_numpy_refuses_what_it_does_not_know():
    pytest.importorskip("ml_dtypes")
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(torch.ones(3, dtype=torch.bfloat16))


def test_a_capsule_is_taken_once():
    pytest.importorskip("ml_dtypes")
    for kind in (torch.float32, torch.bfloat16):
        capsule = torch.utils.dlpack.to_dlpack(torch.ones(3, dtype=kind))
        torch.from_dlpack(capsule)
        with pytest.raises((RuntimeError, ValueError, BufferError)):
            torch.from_dlpack(capsule)


def test_the_host_has_no_streams():
    x = torch.ones(2)
    assert type(x.__dlpack__(stream=-1)).__name__ == "PyCapsule"
    for stream in (0, 1):
        with pytest.raises(AssertionError, match="streams"):
            x.__dlpack__(stream=stream)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream="x")


def test_asarray_takes_a_capsule():
    x = torch.arange(3.0)

    def capsule():
        return torch.utils.dlpack.to_dlpack(x)

    shared = torch.asarray(capsule(), copy=False)
    shared[0] = 9
    assert x.tolist() == [9, 1, 2]
    assert torch.asarray(capsule(), copy=True).data_ptr() != x.data_ptr()
    assert torch.asarray(capsule(), dtype=torch.float64).dtype is torch.float64
    with pytest.raises(ValueError, match="copy"):
        torch.asarray(capsule(), dtype=torch.float64, copy=False)
