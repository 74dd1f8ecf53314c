"""Every operator in every layout: those listed work, with their derivatives; others refuse."""

import pytest

import pullback as torch
from pullback.autograd import gradcheck
from pullback.testing.sparse_samples import LAYOUTS, PROGRAMS, TAKEN, matrix

CASES = [(name, layout) for name in PROGRAMS for layout in LAYOUTS]
check = torch.sparse.as_sparse_gradcheck(gradcheck)


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_what_is_listed_works_and_the_rest_refuses(name, layout):
    """B-66: values follow the dense program, derivatives the differences of values"""
    x = matrix(torch, layout)
    if layout not in TAKEN[name]:
        with pytest.raises((NotImplementedError, RuntimeError, TypeError), match=r"torch.sparse_"):
            PROGRAMS[name](torch, x)
        return
    made = PROGRAMS[name](torch, x.detach().requires_grad_())
    if made.requires_grad and name != "float":  # which has too few digits for differences
        assert check(lambda v: PROGRAMS[name](torch, v), (x.requires_grad_(),), masked=True)


# A mask with a place twice gives its value twice, as in torch.
SUMS = [name for name in TAKEN if "coo" in TAKEN[name] and name != "sparse_mask"]


@pytest.mark.parametrize("name", SUMS)
def test_values_at_one_place_count_as_their_sum(name):
    whole = PROGRAMS[name](torch, matrix(torch, "coo"))
    parts = PROGRAMS[name](torch, matrix(torch, "uncoalesced"))
    both = [one if one.layout is torch.strided else one.to_dense() for one in (whole, parts)]
    assert torch.allclose(both[0], both[1], equal_nan=True)


def test_a_refusal_names_operator_layout_and_what_to_do():
    with pytest.raises(NotImplementedError, match=r"exp: .*torch.sparse_csr.*to_dense\(\)"):
        matrix(torch, "csr").exp()
    with pytest.raises(NotImplementedError, match=r"clamp_?: .*torch.sparse_coo.*to_dense\(\)"):
        matrix(torch, "coo").clamp_(0, 1)
