"""Gradients of a recorded pass (`create_graph`) require grad where torch's do.

Where nothing of them depends on an input, torch gives zeros for their own gradient, since its
rules take that input all the same; a program that differentiates once more must not end there.
"""

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = [name for name in SAMPLES if supports(name, "grad") and resolve(torch, name) is not None]

# Why ours end where torch's go on -> operators.
ENDS = {
    "of one or no element the place is known without looking": "cummax cummin",
    "which of two gradients is asked for decides": "scatter_reduce index_reduce",
    "several operators here, one that takes its input in torch": """
        nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss segment_reduce
        nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    """,
}


def requires_grad(module, name, sample):
    """Of each input's gradient; None where there is none."""
    made = sample.call(resolve(module, name))
    recorded = [one for one in tensors_in(made) if one.requires_grad]
    inputs = sample.differentiable
    if not recorded or not inputs:
        return []
    ones = [module.ones_like(one) for one in recorded]
    options = {"create_graph": True, "allow_unused": True}
    found = module.autograd.grad(recorded, inputs, ones, **options)
    return [g is not None and g.requires_grad for g in found]


def ends(name, alone):
    """Samples whose gradients do not require grad, and torch's do; of one input `alone`, or all."""
    pairs = zip(samples_for(name), samples_for(name, module=torch), strict=True)
    for ours, theirs in pairs:
        if alone is not None:
            for one in (ours, theirs):
                for at, tensor in enumerate(one.differentiable):
                    tensor.requires_grad_(at == alone)
        try:
            expected = requires_grad(torch, name, theirs)
        except (RuntimeError, NotImplementedError):
            continue
        found = requires_grad(pullback, name, ours)
        if any(a and not b for a, b in zip(expected, found, strict=True)):
            yield ours


@pytest.mark.parametrize("name", NAMES)
def test_recorded_gradients_require_grad_where_torchs_do(name):
    found = [sample for alone in (None, 0, 1, 2) for sample in ends(name, alone)]
    assert not found or any(name in names.split() for names in ENDS.values())


@pytest.mark.parametrize("name", sorted(" ".join(ENDS.values()).split()))
def test_exceptions_are_needed(name):
    assert any(list(ends(name, alone)) for alone in (None, 0, 1, 2))
