"""Sums with a factor: what fits the dtype, and what wraps around in it."""

import pytest

import pullback as torch

UNSIGNED = torch.tensor([[5]], dtype=torch.uint8), torch.tensor([[2]], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda a, b: torch.add(a, b, alpha=-1), 3),
        (lambda a, b: torch.sub(a, b, alpha=-1), 7),
        (lambda a, b: torch.rsub(a, b, alpha=-1), 7),
        (lambda a, b: a.clone().add_(b, alpha=-1), 3),
        (lambda a, b: torch.add(a, 2, alpha=-1), 3),
        (lambda a, b: torch.addcmul(a, b, b, value=-1), 1),
        (lambda a, b: torch.addmm(a, b, b, alpha=-1), 1),
        (lambda a, b: torch.add(a, b.to_sparse(), alpha=-1), 3),
        (lambda a, b: a.index_add(0, torch.tensor([0]), b, alpha=-1), 3),
    ],
)
def test_negative_factor_wraps_around_for_unsigned_numbers(program, expected):
    """As in torch: 5 - 2 is 3 by 255 times 2 as well."""
    made = program(*UNSIGNED)
    assert made.dtype is torch.uint8
    assert made.item() == expected


def test_factor_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(RuntimeError, match="300"):
        torch.add(*UNSIGNED, alpha=300)


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("zero", [0, torch.tensor(0), torch.zeros(3, dtype=torch.int64)])
def test_nothing_may_be_divided_by_zero(op, zero):
    nothing = torch.empty(0, 3, dtype=torch.int64)
    divided = getattr(torch, op)(nothing, zero)
    assert divided.shape == (0, 3)
    assert divided.dtype == torch.int64
    with pytest.raises(RuntimeError, match="divided by zero"):
        getattr(torch, op)(torch.ones(1, 3, dtype=torch.int64), zero)
