"""Laws of every operator: vmap is a loop, jvp and vjp are transposes, jacrev is jacfwd."""

import warnings

import numpy
import pytest

import pullback as torch
from pullback.core.pytree import tree_flatten, tree_unflatten
from pullback.core.tensor import Tensor
from pullback.func import jacfwd, jacrev, jvp, vjp, vmap
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in
from pullback.transforms import vmap_level

EXAMPLES = 3
# What looks at values: sizes of results, or memory as one example cannot see it.
BY_VALUE = {
    *("bincount", "histogram", "masked_select", "nonzero", "argwhere", "unique", "combinations"),
    *("unique_consecutive", "nn.functional.one_hot", "repeat_interleave", "where"),
    *("Tensor.__getitem__", "index_put", "histogramdd", "as_strided", "nn.functional.dropout"),
}
# Known gaps: these fail under vmap and should not.
GAPS = {"inverse", "linalg.solve_ex", "linalg.matrix_rank"}
# Without a batching rule: they run in a loop, and say so.
LOOPED = {"histc", "nonzero_static"}
# With options for which a rule is not known.
LOOPED_IN_PART = {"nn.functional.embedding"}


def _names(skip):
    return [name for name in SAMPLES if name not in skip and resolve(torch, name) is not None]


def _array(tensor):
    return numpy.asarray(tensor.detach()._array)


def _close(a, b):
    a, b = _array(a), _array(b)
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and numpy.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)


def _batches(name):
    """Stacked samples of one call: leaves, mapped dimensions, structure, keyword arguments."""
    rows = [samples_for(name, seed=seed, requires_grad=False) for seed in range(EXAMPLES)]
    for samples in zip(*rows, strict=True):
        flat = [tree_flatten((one.input, one.args)) for one in samples]
        leaves, dims = [], []
        for column in zip(*(leaves for leaves, _ in flat), strict=True):
            if not isinstance(column[0], Tensor):
                leaves.append(column[0])
                dims.append(None)
            elif len({tuple(one.shape) for one in column}) == 1:
                leaves.append(torch.stack(column))
                dims.append(0)
            else:
                break
        else:
            if any(dim is not None for dim in dims):
                yield leaves, tuple(dims), flat[0][1], samples[0].kwargs


@pytest.mark.parametrize("name", _names(BY_VALUE | GAPS))
def test_vmap_equals_a_loop_without_being_one(name):
    function = resolve(torch, name)
    vmap_level._warned.clear()
    for leaves, dims, spec, kwargs in _batches(name):

        def call(*inside, spec=spec, kwargs=kwargs):
            first, rest = tree_unflatten(list(inside), spec)
            return tuple(tensors_in(function(first, *rest, **kwargs)))

        def example(number, leaves=leaves, dims=dims):
            pairs = zip(leaves, dims, strict=True)
            return [v if d is None else v.select(d, number).clone() for v, d in pairs]

        try:
            wanted = [call(*example(number)) for number in range(EXAMPLES)]
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            continue
        if not wanted[0]:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if name in LOOPED | LOOPED_IN_PART else "error")
            got = vmap(call, in_dims=dims)(
                *(v.clone() if d == 0 else v for v, d in zip(leaves, dims, strict=True))
            )
        for number, one in enumerate(got):
            assert _close(one, torch.stack([results[number] for results in wanted]))


def _differentiable_calls(name):
    """Functions of the differentiable tensors of each smooth sample, and a point."""
    function = resolve(torch, name)
    for sample in samples_for(name):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [n for n, v in enumerate(leaves) if isinstance(v, Tensor) and v.requires_grad]
        if not sample.smooth or sample.layout != "contiguous" or not at:
            continue
        fixed = [v.detach() if isinstance(v, Tensor) else v for v in leaves]

        def call(*values, at=at, fixed=fixed, spec=spec):
            inside = list(fixed)
            for number, value in zip(at, values, strict=True):
                inside[number] = value
            first, rest, kwargs = tree_unflatten(inside, spec)
            results = tensors_in(function(first, *rest, **kwargs))
            return tuple(one for one in results if one.dtype.is_floating_point)

        point = tuple(fixed[number] for number in at)
        if any(one.dtype.is_complex for one in point) or sum(one.numel() for one in point) > 100:
            continue
        outputs = call(*point)
        if outputs and all(one.numel() for one in (*point, *outputs)):
            yield call, point, outputs


# No derivative at all, none in forward mode, or (embedding's padding) torch's two that differ.
NO_DERIVATIVE = {
    *("floor_divide", "heaviside", "nn.functional.embedding", "Tensor.__rfloordiv__", "geqrf"),
}
DIFFERENTIABLE = _names(BY_VALUE | GAPS | NO_DERIVATIVE)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jvp_is_the_transpose_of_vjp_and_jacobians_agree(name):
    rng = numpy.random.default_rng(0)
    for call, point, outputs in _differentiable_calls(name):
        tangents = tuple(torch.tensor(rng.standard_normal(one.shape)) for one in point)
        cotangents = tuple(torch.tensor(rng.standard_normal(one.shape)) for one in outputs)
        pulled = vjp(call, *point)[1](cotangents)
        pushed = jvp(call, point, tangents)[1]
        left = sum(float((a * b).sum()) for a, b in zip(pulled, tangents, strict=True))
        right = sum(float((a * b).sum()) for a, b in zip(pushed, cotangents, strict=True))
        assert numpy.isclose(left, right, rtol=1e-6, atol=1e-8, equal_nan=True)
        every = tuple(range(len(point)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reverse, forward = jacrev(call, every)(*point), jacfwd(call, every)(*point)
        for a, b in zip(tree_flatten(reverse)[0], tree_flatten(forward)[0], strict=True):
            assert _close(a, b)
