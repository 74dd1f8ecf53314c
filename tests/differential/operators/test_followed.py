"""Which recorded gradients of pools have a history: those that have one in torch."""

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for

torch = pytest.importorskip("torch")


def test_what_is_followed_is_what_torch_follows():
    found = []
    for name in SAMPLES:
        if not name.startswith("nn.functional.") or "pool" not in name or "lp" in name:
            continue
        ours = list(samples_for(name))[:4]
        theirs = list(samples_for(name, module=torch))[:4]
        for one, other in zip(ours, theirs, strict=True):
            said = []
            for library, sample in ((pullback, one), (torch, other)):
                out = resolve(library, name)(sample.input, *sample.args, **sample.kwargs)
                out = out[0] if isinstance(out, tuple) else out
                if not sample.input.requires_grad or not out.numel():
                    continue
                ones = library.ones_like(out)
                (g,) = library.autograd.grad(out, sample.input, ones, create_graph=True)
                said.append(g.requires_grad)
            assert len(set(said)) <= 1, (name, one)
            found += said
    assert any(found)
