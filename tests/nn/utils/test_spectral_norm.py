"""Spectral normalisation by a hook: states of its first version."""

import pytest

import pullback as torch
from pullback import nn
from pullback.nn.utils import spectral_norm


def old_state(layer):
    """As the first version had it: the normalised weight, no `v`, and no version."""
    state = layer.state_dict()
    state["weight"] = layer.weight.detach().clone()
    del state["weight_v"]
    del state._metadata[""]["spectral_norm"]
    return state


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Linear(3, 2), (1, 3)),
        (lambda: nn.Linear(2, 3), (1, 2)),
        (lambda: nn.Conv1d(2, 4, 3), (1, 2, 5)),
        (lambda: nn.ConvTranspose1d(2, 4, 3), (1, 2, 5)),
    ],
)
def test_a_state_of_the_first_version_gives_the_same_results(make, shape):
    torch.manual_seed(0)
    layer, x = spectral_norm(make()), torch.randn(shape)
    layer(x)
    before = layer.eval()(x)
    loaded = spectral_norm(make()).eval()
    loaded.load_state_dict(old_state(layer))
    assert torch.allclose(loaded(x), before, rtol=1e-5, atol=1e-6)


def test_a_state_of_the_first_version_without_its_weight_is_incomplete():
    layer = spectral_norm(nn.Linear(3, 2))
    layer(torch.ones(1, 3))
    state = old_state(layer)
    del state["weight"]
    with pytest.raises(RuntimeError, match="weight"):
        layer.load_state_dict(state)
