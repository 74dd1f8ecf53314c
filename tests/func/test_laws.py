"""Laws of every operator: vmap is a loop, jvp and vjp are transposes, jacrev is jacfwd."""

import warnings

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func import jacfwd, jacrev, jvp, vjp, vmap
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in
from pullback.transforms import vmap_level

EXAMPLES = 3
# Calls whose result's size, or meaning, depends on the values of a mapped tensor: refused (T-84).
BY_VALUE = {
    *("argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive", "where"),
    *("nn.functional.one_hot", "repeat_interleave", "Tensor.__getitem__", "index_put"),
    *("nn.functional.rrelu", "nn.functional.embedding_bag", "histogramdd", "segment_reduce"),
}

# Backward and forward mode refuse.
NO_DERIVATIVE = {"floor_divide", "heaviside", "geqrf", "linalg.ldl_factor", "linalg.ldl_factor_ex"}


def _names(skip=()):
    return [name for name in SAMPLES if name not in skip and resolve(torch, name) is not None]


def _array(tensor):
    return numpy.asarray(tensor.detach()._array)


def _close(a, b):
    a, b = _array(a), _array(b)
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and numpy.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)


def _batches(name):
    """Samples of one call, stacked: leaves, mapped dimensions, structure.

    All tensors are mapped; then, for the first calls, each of them alone.
    """
    rows = [samples_for(name, seed=seed, requires_grad=False) for seed in range(EXAMPLES)]
    for number, samples in enumerate(zip(*rows, strict=True)):
        flat = [tree_flatten((one.input, one.args, one.kwargs)) for one in samples]
        columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
        tensors = [n for n, column in enumerate(columns) if isinstance(column[0], Tensor)]
        same = [n for n in tensors if len({tuple(one.shape) for one in columns[n]}) == 1]
        choices = [tuple(tensors)] if same == tensors else []
        if number < 2 and len(same) > 1:
            choices += [(n,) for n in same]
        for chosen in choices:
            leaves = [
                torch.stack(column) if n in chosen else column[0]
                for n, column in enumerate(columns)
            ]
            if chosen:
                yield (
                    leaves,
                    tuple(0 if n in chosen else None for n in range(len(columns))),
                    flat[0][1],
                )


@pytest.mark.parametrize("name", _names())
def test_vmap_equals_a_loop_without_being_one(name):
    """T-74, T-76, T-84, T-148: warnings are errors, so a loop in vmap would fail."""
    function = resolve(torch, name)
    vmap_level._warned.clear()
    for leaves, dims, spec in _batches(name):

        def call(*inside, spec=spec):
            first, rest, kwargs = tree_unflatten(list(inside), spec)
            return tuple(tensors_in(function(first, *rest, **kwargs)))

        def example(number, leaves=leaves, dims=dims):
            pairs = zip(leaves, dims, strict=True)
            return [v if d is None else v.select(d, number).clone() for v, d in pairs]

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deprecated")
            try:
                wanted = [call(*example(number)) for number in range(EXAMPLES)]
            except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
                continue
            if not wanted[0]:
                continue
            batch = [v.clone() if d == 0 else v for v, d in zip(leaves, dims, strict=True)]
            try:
                got = vmap(call, in_dims=dims)(*batch)
            except RuntimeError as error:
                assert name in BY_VALUE, error  # noqa: PT017 (which of them fails is the message)
                assert "vmap" in str(error)  # noqa: PT017 (which of them fails is the message)
                continue
        for number, one in enumerate(got):
            assert _close(one, torch.stack([results[number] for results in wanted]))


def _first_batch(name):
    """The first call of `_batches` whose tensors are all mapped and that runs on its own."""
    function = resolve(torch, name)
    for leaves, dims, spec in _batches(name):

        def call(*inside, spec=spec):
            first, rest, kwargs = tree_unflatten(list(inside), spec)
            return tuple(tensors_in(function(first, *rest, **kwargs)))

        def example(number, leaves=leaves, dims=dims):
            pairs = zip(leaves, dims, strict=True)
            return [v if d is None else v.select(d, number).clone() for v, d in pairs]

        try:
            wanted = [call(*example(number)) for number in range(EXAMPLES)]
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            continue
        if wanted[0]:
            return call, leaves, dims, wanted
    return None


def _moved(leaves, dims, source, to):
    return [v.movedim(source, to) if d == 0 else v for v, d in zip(leaves, dims, strict=True)]


@pytest.mark.parametrize("name", _names(BY_VALUE))
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_vmap_maps_last_dimensions_and_nests(name):
    """T-67, T-68, T-73."""
    found = _first_batch(name)
    if found is None:
        pytest.skip("no call whose tensors can be stacked")
    call, leaves, dims, wanted = found
    last = tuple(None if d is None else -1 for d in dims)
    for number, one in enumerate(
        vmap(call, in_dims=last, out_dims=-1)(*_moved(leaves, dims, 0, -1))
    ):
        assert _close(one, torch.stack([results[number] for results in wanted], -1))
    pairs = zip(leaves, dims, strict=True)
    twice = [torch.stack([v, v.flip(0)], 1) if d == 0 else v for v, d in pairs]
    for number, one in enumerate(vmap(vmap(call, in_dims=dims), in_dims=dims)(*twice)):
        forth = torch.stack([results[number] for results in wanted])
        assert _close(one, torch.stack([forth, forth.flip(0)], 1))


def _numbers_and_the_first(name):
    """The first sample, and those with 0-d tensors, whose dimensions a batch must not take."""
    for number, sample in enumerate(samples_for(name)):
        if not number or any(one.ndim == 0 for one in sample.differentiable):
            yield sample


@pytest.mark.parametrize("name", _names(NO_DERIVATIVE))
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_gradients_of_a_batch_equal_a_loop(name):
    """E-33, T-147."""
    function = resolve(torch, name)
    rng = numpy.random.default_rng(0)
    for sample in _numbers_and_the_first(name):
        inputs = sample.differentiable
        for out in tensors_in(sample.call(function)) if inputs else ():
            if not out.requires_grad:
                continue
            weights = torch.tensor(rng.standard_normal((EXAMPLES, *out.shape))).to(out.dtype)
            options = {"retain_graph": True, "allow_unused": True}
            batch = torch.autograd.grad(out, inputs, weights, is_grads_batched=True, **options)
            rows = [torch.autograd.grad(out, inputs, one, **options) for one in weights]
            for number, one in enumerate(batch):
                if one is not None:
                    assert _close(one, torch.stack([row[number] for row in rows]))


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


DIFFERENTIABLE = _names(NO_DERIVATIVE)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_jvp_is_the_transpose_of_vjp_and_jacobians_agree(name):
    """T-65, T-148."""
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
