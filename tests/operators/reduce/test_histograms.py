"""Histograms: what cannot be written is refused before anything is."""

import pytest

import pullback as torch


def test_an_out_that_cannot_take_both_results_is_left_alone():
    counts, other = torch.zeros(3), torch.zeros(4, dtype=torch.float64)
    for out in (counts, [counts], [counts, 1], [counts, other]):
        with pytest.raises((TypeError, RuntimeError), match="histogram"):
            torch.histogram(torch.arange(6.0), 3, out=out)
    assert counts.tolist() == [0, 0, 0]
