"""The backward pass of every operator, captured: the engine's gradients, by capture and by hit."""

import pytest
from pullback._dynamo import compiled_autograd as module

import pullback as torch
from pullback.compiler import compiled_autograd
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in
from tests.compiled.closeness import assert_same_bits

_MOST_SAMPLES = 3


def summed(one):
    return one.sum()


def behind_a_hook(one):
    """The operator's node has a stop before it, and another behind it where its leaf has a hook."""
    h = one * 1.5
    h.register_hook(lambda g: g * 2)
    return h.sum()


def gradients(function, sample, root_of=summed):
    """Of all that a sample's results depend on; None where that is nothing, or eager refuses."""
    torch.manual_seed(0)
    leaves = [one for one in tensors_in([*sample.args, *sample.kwargs.values()]) if one.is_leaf]
    if sample.input is not None:
        leaves += [one for one in tensors_in([sample.input]) if one.is_leaf]
    leaves = [one for one in leaves if one.requires_grad]
    if root_of is behind_a_hook and leaves:
        with leaves[0].register_hook(lambda g: g * 3):
            return found(function, sample, root_of, leaves)
    return found(function, sample, root_of, leaves)


def found(function, sample, root_of, leaves):
    made = sample.call(function)
    results = tensors_in(made if isinstance(made, tuple | list) else [made])
    roots = [root_of(one) for one in results if one.requires_grad and one.dtype.is_floating_point]
    if not (roots and leaves):
        return None
    return torch.autograd.grad(roots, leaves, allow_unused=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("root_of", [summed, behind_a_hook])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_captured_passes_give_the_engines_gradients(name, root_of, backend):
    """K-19, K-21, K-70: shapes and dtypes too, whatever pass was captured before."""
    module.reset()
    function = resolve(torch, name)
    for _, sample in zip(range(_MOST_SAMPLES), samples_for(name), strict=False):
        try:
            wanted = gradients(function, sample, root_of)
        except Exception:
            continue  # what eager refuses is tested elsewhere
        if wanted is None:
            continue
        for _ in range(3):  # captured, found by its key, found by its trail
            with compiled_autograd(backend=backend, fallback="silent"):
                ours = gradients(function, sample, root_of)
            for a, b in zip(ours, wanted, strict=True):
                assert (a is None) == (b is None)
                if b is not None and backend == "python":
                    assert_same_bits(a, b)
                elif b is not None:
                    torch.testing.assert_close(a, b, equal_nan=True)
