"""Laws of transforms on operators, samples, dimensions and directions that hypothesis draws."""

import functools
import math
import warnings

import numpy
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from pullback.testing.coverage import supports
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated")

# Derivatives that are none by torch's convention, or differ by mode.
BY_CONVENTION = {"nn.functional.embedding", "nn.functional.ctc_loss", "nn.functional.dropout"}
# What they give depends on the memory of the whole batch.
BY_MEMORY = {"as_strided", "as_strided_copy"}
SMALL = 30


def _differentiable(name):
    known = name in SAMPLES and resolve(torch, name) is not None and name not in BY_CONVENTION
    return known and supports(name, "grad") and supports(name, "jvp") and supports(name, "vmap")


NAMES = [name for name in SAMPLES if _differentiable(name)]
TWICE = [name for name in NAMES if supports(name, "gradgrad")]


@functools.cache
def _programs(name):
    """Functions of the differentiable tensors of each small smooth sample, with a point."""
    function = resolve(torch, name)
    programs = []
    for sample in samples_for(name):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [n for n, v in enumerate(leaves) if isinstance(v, Tensor) and v.requires_grad]
        fixed = [v.detach() if isinstance(v, Tensor) else v for v in leaves]
        point = tuple(fixed[n] for n in at)
        if not sample.smooth or any(one.dtype.is_complex for one in point):
            continue
        if not all(one.numel() for one in point) or sum(one.numel() for one in point) > SMALL:
            continue

        def call(*values, at=tuple(at), fixed=tuple(fixed), spec=spec):
            inside = list(fixed)
            for number, value in zip(at, values, strict=True):
                inside[number] = value
            first, rest, kwargs = tree_unflatten(inside, spec)
            results = tensors_in(function(first, *rest, **kwargs))
            return tuple(one for one in results if one.dtype.is_floating_point)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = call(*point)
        if point and outputs and sum(one.numel() for one in outputs) <= 2 * SMALL:
            programs.append((call, point, outputs))
    return programs


def programs(names):
    """A name, and one of its programs."""
    return st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(_programs(name) or [None]))
    )


def law(names, examples):
    """A test over drawn programs, the same ones in every run."""

    def decorate(test):
        drawn = given(program=programs(names), seed=st.integers(0, 2**32 - 1))(test)
        return settings(derandomize=True, max_examples=examples, deadline=None)(drawn)

    return decorate


def _normal(rng, like):
    return tuple(torch.tensor(rng.standard_normal(tuple(one.shape))) for one in like)


def _dot(a, b):
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


def _close(a, b):
    return numpy.allclose(a._array, b._array, rtol=1e-6, atol=1e-7, equal_nan=True)


def _scalar(call, weights):
    return lambda *v: sum((out * w).sum() for out, w in zip(call(*v), weights, strict=True))


@law(NAMES, 300)
def test_jvp_is_the_transpose_of_vjp(program, seed):
    """T-65, T-148"""
    name, drawn = program
    assume(drawn is not None)
    call, point, outputs = drawn
    rng = numpy.random.default_rng(seed)
    tangents, cotangents = _normal(rng, point), _normal(rng, outputs)
    left = _dot(vjp(call, *point)[1](cotangents), tangents)
    right = _dot(jvp(call, point, tangents)[1], cotangents)
    assert math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-7) or (left != left), name


@law(NAMES, 150)
def test_jacobians_by_rows_and_columns_agree(program, seed):
    """T-148"""
    name, drawn = program
    assume(drawn is not None)
    call, point, _ = drawn
    every = tuple(range(len(point)))
    rows, columns = jacrev(call, every)(*point), jacfwd(call, every)(*point)
    looped = jacrev(call, every, chunk_size=1)(*point)
    for a, b, c in zip(*(tree_flatten(one)[0] for one in (rows, columns, looped)), strict=True):
        assert _close(a, b), name
        assert _close(a, c), name


@law([name for name in NAMES if name not in BY_MEMORY], 150)
def test_map_of_a_derivative_equals_a_loop(program, seed):
    """T-149: gradients and tangents of each example, the mapped dimension anywhere."""
    name, drawn = program
    assume(drawn is not None)
    call, point, outputs = drawn
    rng = numpy.random.default_rng(seed)
    # Examples close to the sample, where the function is as smooth as there.
    batch = [torch.stack([one, one + 1e-3 * one.abs()]) for one in point]
    dims = tuple(int(rng.integers(0, one.ndim)) for one in batch)
    moved = [one.movedim(0, dim) for one, dim in zip(batch, dims, strict=True)]
    f = _scalar(call, _normal(rng, outputs))
    every = tuple(range(len(point)))
    got = vmap(grad(f, every), in_dims=dims)(*moved)
    looped = [grad(f, every)(*(one[n] for one in batch)) for n in range(2)]
    for number, one in enumerate(got):
        assert _close(one, torch.stack([row[number] for row in looped])), name
    # The gradient of the sum over the examples is that of each example, side by side.
    together = grad(lambda *v: vmap(f)(*v).sum(), every)(*batch)
    for a, b in zip(got, together, strict=True):
        assert _close(a, b), name


@law(TWICE, 120)
def test_hessian_is_symmetric_and_its_diagonal_is_grad_of_grad(program, seed):
    """T-65: forward over reverse, reverse over forward and reverse over reverse."""
    name, drawn = program
    assume(drawn is not None)
    call, point, outputs = drawn
    assume(sum(one.numel() for one in point) <= 16)
    rng = numpy.random.default_rng(seed)
    f = _scalar(call, _normal(rng, outputs))
    first = point[0]

    def of_first(v):
        return f(v, *point[1:])

    size = first.numel()
    forms = [hessian(of_first), jacrev(jacfwd(of_first)), jacrev(jacrev(of_first))]
    square, other, third = (form(first).reshape(size, size) for form in forms)
    assert _close(square, square.mT), name
    assert _close(square, other), name
    assert _close(square, third), name
    place = int(rng.integers(0, size))
    again = grad(lambda v: grad(of_first)(v).reshape(-1)[place])(first).reshape(-1)[place]
    assert _close(again, square[place, place]), name


@law(NAMES, 120)
def test_maps_commute(program, seed):
    """T-73: two maps in either order, and a map with a derivative."""
    name, drawn = program
    assume(drawn is not None)
    call, point, _ = drawn
    grid = [torch.stack([torch.stack([one, one * 1.001])] * 3) for one in point]
    inner_last = vmap(vmap(call))(*grid)
    inner_first = vmap(vmap(call, in_dims=0), in_dims=1, out_dims=1)(*grid)
    for a, b in zip(inner_last, inner_first, strict=True):
        assert _close(a, b), name
    rng = numpy.random.default_rng(seed)
    rows = [one[0] for one in grid]
    directions = _normal(rng, rows)
    each = vmap(lambda v, t: jvp(call, v, t)[1])(tuple(rows), directions)
    whole = jvp(vmap(call), tuple(rows), directions)[1]
    for a, b in zip(each, whole, strict=True):
        assert _close(a, b), name
