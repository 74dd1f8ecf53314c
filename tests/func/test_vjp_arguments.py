"""The arguments that torch's `vjp_fn` takes beside the cotangent."""

import pytest

import pullback as torch


@pytest.mark.parametrize("given", [(True, True), (True,), (False, False)])
def test_torch_s_arguments_change_nothing(given):
    _, vjp_fn = torch.func.vjp(torch.sin, torch.zeros(2))
    for _ in range(2):
        assert vjp_fn(torch.ones(2), *given)[0].tolist() == [1, 1]
    assert vjp_fn(torch.ones(2), create_graph=True, retain_graph=True)[0].tolist() == [1, 1]
