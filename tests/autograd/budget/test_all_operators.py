"""Every operator on its samples: gradients after all that it saved was let go, bit for bit."""

import numpy
import pytest

import pullback as torch
from pullback.core.trees.pytree import tree_map
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in

FIRST = 3  # samples of each operator


def gradients(function, sample, budget):
    """Outputs and gradients; what the operator is given is computed in the block."""
    inputs = sample.differentiable
    torch.manual_seed(3)

    def called():
        made = {id(one): one * 1.0 for one in inputs}
        args, kwargs = tree_map(
            lambda one: made.get(id(one), one), ((sample.input, *sample.args), sample.kwargs)
        )
        out = function(*args, **kwargs)
        return [one for one in tensors_in(out if isinstance(out, tuple | list) else [out])
                if one.requires_grad]  # fmt: skip

    if budget is None:
        outs = called()
    else:
        with budget:
            outs = called()
    if not outs:
        return []
    seeds = [torch.full_like(one, 0.7) for one in outs]
    return [*torch.autograd.grad(outs, inputs, seeds, allow_unused=True), *outs]


def bits(tensors):
    return [None if one is None else (one.stride(), one.detach().numpy().tobytes())
            for one in tensors]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spill", [False, True])
def test_what_is_let_go_comes_back_bit_for_bit(spill):
    wrong, again = [], 0
    for name in sorted(SAMPLES):
        function = resolve(torch, name)
        for _, sample in zip(range(FIRST), samples_for(name), strict=False):
            if not sample.differentiable:
                continue
            try:
                with numpy.errstate(all="ignore"):
                    wanted = bits(gradients(function, sample, None))
            except Exception:
                continue  # what is refused is tested elsewhere
            budget = torch.autograd.graph.memory_budget("1 GiB", spill=spill)
            budget._recorder.decide = lambda value: "put out" if spill else "drop"
            if bits(gradients(function, sample, budget)) != wanted:
                wrong.append((name, sample))
            again += bool(budget.steps) and budget.last.calls + budget.last.spilled > 0
    assert not wrong
    assert again > 500
