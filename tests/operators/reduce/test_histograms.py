"""Histograms: what cannot be written is refused before anything is."""

import pytest

import pullback as torch


def test_an_out_that_cannot_take_both_results_is_left_alone():
    counts, other = torch.zeros(3), torch.zeros(4, dtype=torch.float64)
    for out in (counts, [counts], [counts, 1], [counts, other]):
        with pytest.raises((TypeError, RuntimeError), match="histogram"):
            torch.histogram(torch.arange(6.0), 3, out=out)
    assert counts.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_number_has_a_bin_however_large_it_is(dtype):
    limits = torch.finfo(dtype)
    expected = {limits.min: [3.0, 0.0, 0.0], limits.max: [0.0, 0.0, 3.0]}
    for value in (limits.min, -1e30, 0.0, 2.0**30, 1e18, limits.max):
        x = torch.full((3,), value, dtype=dtype)
        for made in (torch.histc(x, 3), torch.histc(x, 3, min=value, max=value)):
            assert made.tolist() == expected.get(value, [0.0, 3.0, 0.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_whole_range_of_a_dtype_has_bins(dtype):
    most = torch.finfo(dtype).max
    x = torch.tensor([-most, -most * 0.25, 0, most * 0.25, most], dtype=dtype)
    for made in (torch.histc(x, 4), torch.histc(x, 4, -most, most), torch.histogram(x, 4).hist):
        assert made.tolist() == [1.0, 1.0, 2.0, 1.0]
    assert torch.histc(x, 4, 0, most).tolist() == [1.0, 1.0, 0.0, 1.0]
