"""Sizes that are given to view, reshape and expand."""

import pytest

import pullback as torch


@pytest.mark.parametrize("sizes", [(2, -5), (-5,), (2, -3, 1), (-2, 2, 1)], ids=str)
@pytest.mark.parametrize("recorded", [False, True])
def test_no_size_but_minus_one_is_worked_out(sizes, recorded):
    x = torch.ones(4, requires_grad=recorded)
    turned = torch.ones(2, 2).t()
    for call, told in (
        (lambda: x.view(*sizes), "view"), (lambda: x.view(sizes), "view"),
        (lambda: x.reshape(*sizes), "reshape"), (lambda: x.reshape(sizes), "reshape"),
        (lambda: torch.reshape(x, sizes), "reshape"), (lambda: turned.reshape(sizes), "reshape"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"{told}: .*no other may be negative"):
            call()


def test_expand_keeps_sizes_by_minus_one_alone():
    x = torch.ones(1, 4)
    assert x.expand(3, -1).shape == (3, 4)
    with pytest.raises(RuntimeError, match="size -2 at dimension 0 is negative"):
        x.expand(-2, 4)
