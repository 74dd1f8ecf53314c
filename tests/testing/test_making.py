"""make_tensor: dtypes, ranges, layouts, refusals."""

import pytest

import pullback as torch
from pullback.testing import assert_allclose, make_tensor

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.float32),
    *(torch.float64, torch.complex64, torch.complex128),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("noncontiguous", [False, True])
def test_shape_dtype_and_layout_are_as_asked(dtype, shape, noncontiguous):
    x = make_tensor(*shape, dtype=dtype, device="cpu", noncontiguous=noncontiguous)
    assert (tuple(x.shape), x.dtype) == (shape, dtype)
    assert make_tensor(shape, dtype=dtype, device="cpu").shape == x.shape
    assert x.is_contiguous() == (not noncontiguous or x.numel() < 2)


def test_ranges():
    torch.manual_seed(0)
    whole = make_tensor(2000, dtype=torch.int64, device="cpu")
    assert (whole.min().item(), whole.max().item()) == (-9, 9)
    real = make_tensor(2000, dtype=torch.float32, device="cpu", low=2, high=3)
    assert 2 <= real.min() < 2.1 < 2.9 < real.max() <= 3
    assert set(make_tensor(100, dtype=torch.bool, device="cpu").tolist()) == {False, True}
    assert make_tensor(50, dtype=torch.uint8, device="cpu", low=-5, high=2).max() == 1
    huge = make_tensor(50, dtype=torch.float32, device="cpu", high=float("inf"))
    assert huge.isfinite().all()
    assert make_tensor(9, dtype=torch.int64, device="cpu", high=float("inf")).max() > 10**15


def test_zeros_can_be_excluded():
    x = make_tensor(9, dtype=torch.int64, device="cpu", low=0, high=1, exclude_zero=True)
    assert x.tolist() == [1] * 9


def test_gradients_and_memory_formats():
    assert make_tensor(2, dtype=torch.float64, device="cpu", requires_grad=True).is_leaf
    image = make_tensor(
        *(2, 3, 4, 5), dtype=torch.float32, device="cpu", memory_format=torch.channels_last
    )
    assert image.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "options",
    [
        {"low": 2, "high": 1},
        {"low": float("nan")},
        {"low": 1, "high": 1, "dtype": torch.int64},
        {"requires_grad": True, "dtype": torch.int64},
        {"noncontiguous": True, "memory_format": torch.channels_last},
    ],
    ids=str,
)
def test_refusals(options):
    with pytest.raises(ValueError, match="make_tensor"):
        make_tensor(2, **{"dtype": torch.float32, "device": "cpu", **options})


def test_one_number_is_warned_of():
    with pytest.warns(FutureWarning, match=r"torch\.full"):
        assert make_tensor(2, dtype=torch.float32, device="cpu", low=1, high=1).tolist() == [1, 1]


def test_the_older_comparison():
    with pytest.warns(FutureWarning, match="assert_close"):
        assert_allclose([1.0, float("nan")], torch.tensor([1.0, float("nan")]))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        assert_allclose(torch.ones(1), torch.ones(1) * 1.1)


def test_file_check_is_refused_with_a_reason():
    with pytest.raises(AttributeError, match="compiler"):
        torch.testing.FileCheck
