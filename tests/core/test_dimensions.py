"""NumPy's arrays have 64 dimensions at most: more are refused in one sentence."""

import pytest

import pullback as torch


@pytest.mark.parametrize(
    "call",
    [
        lambda sizes: torch.randn(sizes),
        lambda sizes: torch.ones(sizes),
        lambda sizes: torch.empty(sizes),
        lambda sizes: torch.full(sizes, 2.0),
        lambda sizes: torch.ones(1).expand(sizes),
        lambda sizes: torch.ones(1).reshape(sizes),
        lambda sizes: torch.ones(1).repeat(sizes),
    ],
)
def test_more_dimensions_than_arrays_have_are_refused(call):
    assert call([1] * 64).dim() == 64
    with pytest.raises(RuntimeError, match="more than 64 dimensions"):
        call([1] * 65)


def test_meta_tensors_without_dimensions_are_formatted_as_they_are_shown():
    x = torch.empty((), device="meta")
    assert format(x) == repr(x)
