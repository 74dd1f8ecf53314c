"""Laws of every operator: no pattern misses a nonzero, and sparse Jacobians are the dense ones."""

import itertools

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func import jacfwd, jacobian_sparsity, sparse_jacobian
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

# Backward and forward mode refuse.
NO_DERIVATIVE = {"floor_divide", "heaviside", "geqrf", "linalg.ldl_factor", "linalg.ldl_factor_ex"}
NO_DERIVATIVE |= {"nn.functional.ctc_loss"}  # no forward mode
NAMES = [n for n in SAMPLES if n not in NO_DERIVATIVE and resolve(torch, n) is not None]


def _calls(name):
    """Functions of one tensor and one result, and a point."""
    function = resolve(torch, name)
    smooth = (one for one in samples_for(name) if one.smooth)  # else NaN spreads over rows
    for sample in itertools.islice(smooth, 3):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        fixed = [v.detach() if isinstance(v, Tensor) else v for v in leaves]
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor) or not leaf.requires_grad or leaf.dtype.is_complex:
                continue

            def call(value, number=number, fixed=fixed, spec=spec):
                inside = [value if n == number else one for n, one in enumerate(fixed)]
                first, rest, kwargs = tree_unflatten(inside, spec)
                results = tensors_in(function(first, *rest, **kwargs))
                real = [one for one in results if one.dtype.is_floating_point]
                return real[0] if real else None

            point = fixed[number].clone()
            made = call(point)
            if made is not None and 0 < point.numel() <= 100 and 0 < made.numel() <= 200:
                yield call, point


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_pattern_has_every_nonzero_and_the_sparse_jacobian_is_the_dense_one(name):
    for call, point in _calls(name):
        dense = jacfwd(call)(point)
        pattern = jacobian_sparsity(call)(point)
        nonzero = numpy.nan_to_num(dense.detach().numpy(), nan=1.0) != 0
        named = numpy.zeros(nonzero.shape, bool)
        named[tuple(pattern.indices)] = True
        assert not (nonzero & ~named).any()
        made = sparse_jacobian(call, pattern=pattern)(point).to_dense()
        assert made.shape == dense.shape
        numpy.testing.assert_allclose(
            made.detach().numpy(), dense.detach().numpy(), rtol=1e-9, atol=1e-12
        )
