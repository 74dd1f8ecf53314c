"""The backward pass of every operator, captured: the engine's gradients, by capture and by hit."""

import pytest
from pullback._dynamo import compiled_autograd as module

import pullback as torch
from pullback.compiler import compiled_autograd
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

_MOST_SAMPLES = 3


def gradients(function, sample):
    """Of all that a sample's results depend on; None where that is nothing, or eager refuses."""
    torch.manual_seed(0)
    leaves = [one for one in tensors_in([*sample.args, *sample.kwargs.values()]) if one.is_leaf]
    if sample.input is not None:
        leaves += [one for one in tensors_in([sample.input]) if one.is_leaf]
    leaves = [one for one in leaves if one.requires_grad]
    made = sample.call(function)
    results = tensors_in(made if isinstance(made, tuple | list) else [made])
    roots = [one.sum() for one in results if one.requires_grad and one.dtype.is_floating_point]
    if not (roots and leaves):
        return None
    return torch.autograd.grad(roots, leaves, allow_unused=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_captured_passes_give_the_engines_gradients(name, backend):
    """K-19, K-21, K-70: shapes and dtypes too, whatever pass was captured before."""
    module.reset()
    function = resolve(torch, name)
    for _, sample in zip(range(_MOST_SAMPLES), samples_for(name), strict=False):
        try:
            wanted = gradients(function, sample)
        except Exception:
            continue  # what eager refuses is tested elsewhere
        if wanted is None:
            continue
        for _ in range(3):  # captured, found by its key, found by its trail
            with compiled_autograd(backend=backend, fallback="silent"):
                ours = gradients(function, sample)
            for a, b in zip(ours, wanted, strict=True):
                assert (a is None) == (b is None)
                if b is not None:
                    torch.testing.assert_close(a, b, equal_nan=True)
