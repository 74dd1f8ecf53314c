"""Every sample of every operator, and its gradient: compiled against eager, in each back end."""

import warnings

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in
from tests.compiled.by_values import BY_VALUES
from tests.compiled.closeness import assert_same_bits


def listed(out):
    return list(tensors_in(out if isinstance(out, tuple | list) else [out]))


def gradients(out, inputs):
    roots = [o for o in listed(out) if o.requires_grad and o.dtype.is_floating_point]
    if not roots or not inputs:
        return ()
    seeds = [torch.ones_like(o) * 1.5 for o in roots]
    return torch.autograd.grad(roots, inputs, seeds, allow_unused=True)


def assert_same(ours, wanted, *, exact):
    assert (ours is None) == (wanted is None)
    if ours is None:
        return
    if exact:
        assert_same_bits(ours, wanted)
        return
    a, b = ours._array, wanted._array
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.dtype.kind not in "fc" or a.dtype.itemsize not in (4, 8, 16):
        loose = 0 if a.dtype.kind in "biu" else 1e-12
    else:
        loose = 4e-6 if a.dtype in (np.float32, np.complex64) else 1e-9
    if loose:
        np.testing.assert_allclose(a, b, rtol=loose, atol=loose)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_compiled_agrees_with_eager_on_every_sample(name, backend):
    """K-70: bit for bit on `python`, within rounding on `llvm`."""
    function = resolve(torch, name)
    for sample in samples_for(name):
        try:
            torch.manual_seed(3)
            wanted = sample.call(function)
        except Exception:
            continue  # what eager refuses is tested elsewhere
        inputs = sample.differentiable
        try:
            wanted_grads = gradients(wanted, inputs)
        except NotImplementedError:
            wanted_grads = None
        torch.manual_seed(3)
        compiled = torch.compile(function, fullgraph=True, backend=backend)
        try:
            ours = sample.call(compiled)
        except CannotCapture:
            assert name in BY_VALUES
            continue
        assert len(listed(ours)) == len(listed(wanted))
        for one, other in zip(listed(ours), listed(wanted), strict=True):
            assert_same(one, other, exact=backend == "python")
            if backend == "python":
                assert one.stride() == other.stride()
            assert one.requires_grad == other.requires_grad
        if wanted_grads is None:
            continue
        for one, other in zip(gradients(ours, inputs), wanted_grads, strict=True):
            assert_same(one, other, exact=backend == "python")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(BY_VALUES - {"floor_divide", "heaviside"}))
def test_what_needs_values_runs_eagerly_and_gives_what_eager_gives(name):
    function = resolve(torch, name)
    for sample in samples_for(name, requires_grad=False):
        try:
            wanted = sample.call(function)
        except Exception:
            continue
        ours = sample.call(torch.compile(function))
        for one, other in zip(listed(ours), listed(wanted), strict=True):
            assert_same(one, other, exact=False)


def test_warnings_of_a_capture_are_those_of_the_call():
    x = torch.ones(3)

    def noisy(x):
        warnings.warn("seen", UserWarning, stacklevel=1)
        return x + 1

    with pytest.warns(UserWarning, match="seen"):
        torch.compile(noisy, backend="python")(x)
