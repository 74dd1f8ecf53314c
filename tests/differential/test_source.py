"""Backward passes as source, run on torch itself."""

import numpy as np
import pytest

import pullback
from pullback.autograd.graph import source
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from tests.compiled.source.test_source import program_of

torch = pytest.importorskip("torch")


def on_torch(made):
    """The gradients that torch computes by the text, as arrays."""
    given = {
        name: torch.from_numpy(np.array(one.numpy(), order="C"))
        for name, one in made.arguments.items()
    }
    found = made.load(torch)(**given)
    return [None if one is None else one.resolve_conj().resolve_neg().numpy() for one in found]


def assert_same(found, wanted, loose):
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            expected = other.numpy()
            assert (one.shape, one.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(one, expected, rtol=loose, atol=loose)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_same_gradients_on_torch(seed):
    drawn = program_of(seed)
    if drawn is None:
        return
    program, _, wanted, loss, found = drawn
    biggest = max((abs(one.numpy()).max(initial=0) for one in found if one is not None), default=1)
    if not np.isfinite(biggest):
        return
    scale = max(float(biggest), 1.0)
    loose = 3e-3 if program.dtype is np.float32 else 1e-7
    assert_same(on_torch(source(loss, wanted)), found, loose * scale)


# Where torch computes another number at a pole.
OTHERWISE = {"digamma"}


@pytest.mark.filterwarnings("ignore")
def test_what_rules_of_operators_call_has_the_same_meaning_on_torch():
    count, without = 0, set()
    for name in sorted(set(SAMPLES) - OTHERWISE):
        function = resolve(pullback, name)
        for _, sample in zip(range(2), samples_for(name), strict=False):
            inputs = sample.differentiable
            try:
                pullback.manual_seed(0)
                out = sample.call(function)
                outs = [one for one in tensors_in(out if isinstance(out, tuple | list) else [out])
                        if one.requires_grad and not one.is_complex()]  # fmt: skip
                loss = sum((one * 1.5).sum() for one in outs)
                wanted = pullback.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
            except Exception:
                continue  # refused, or nothing to differentiate
            try:
                made = source(loss, inputs)
            except NotImplementedError:
                without.add(name)
                continue
            try:
                assert_same(on_torch(made), wanted, 1e-4)
            except BaseException as error:
                error.add_note(f"of {name} on {sample!r}\n{made}")
                raise
            count += 1
    assert count > 800
    assert len(without) < 60
