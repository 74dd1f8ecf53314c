"""Every operator on samples of another class or size: parameters, wrappers, large arrays."""

from __future__ import annotations

import itertools

import numpy
import pytest

import pullback as torch
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports
from pullback.utils._pytree import tree_map

NAMES = [name for name in SAMPLES if resolve(torch, name) is not None]
DIFFERENTIABLE = [name for name in NAMES if supports(name, "grad")]

pytestmark = pytest.mark.filterwarnings("ignore")


class Wrapper(torch.Tensor):
    """Has no data of its own; every call that reaches it is done on what it wraps."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, strides=inner.stride()
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = tree_map(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
        made = func(*given[0], **given[1])
        return tree_map(lambda x: cls(x) if type(x) is torch.Tensor else x, made)


def with_class(value, make):
    if isinstance(value, tuple | list):
        return type(value)(with_class(one, make) for one in value)
    return make(value) if isinstance(value, torch.Tensor) else value


def values(made):
    found = []
    for one in tensors_in(made):
        one = one.inner if isinstance(one, Wrapper) else one
        found.append(one.detach().resolve_conj().resolve_neg().numpy())
    return found


def called(name, sample, make=lambda tensor: tensor):
    torch.manual_seed(0)
    args = [with_class(one, make) for one in (sample.input, *sample.args)]
    kwargs = {key: with_class(one, make) for key, one in sample.kwargs.items()}
    made = resolve(torch, name)(*args, **kwargs)
    return made, [one for one in tensors_in([args, list(kwargs.values())]) if one.requires_grad]


def gradients(made, inputs):
    recorded = [one for one in tensors_in(made) if one.requires_grad]
    if not recorded or not inputs:
        return []
    ones = [torch.ones_like(one) for one in recorded]
    found = torch.autograd.grad(recorded, inputs, ones, allow_unused=True)
    return [numpy.zeros(()) if g is None else values(g)[0] for g in found]


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, strict=True)


def parameter(tensor):
    if not tensor.requires_grad:
        return tensor
    return torch.nn.Parameter(tensor.detach().clone(memory_format=torch.preserve_format))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_parameters_are_tensors_to_every_operator(name):
    for sample in itertools.islice(samples_for(name), 2):
        made, inputs = called(name, sample)
        theirs, parameters = called(name, sample, parameter)
        same(values(theirs), values(made))
        given = {id(one) for one in parameters}  # what changes nothing may hand them back
        results = [one for one in tensors_in(theirs) if id(one) not in given]
        assert not any(isinstance(one, torch.nn.Parameter) for one in results)
        same(gradients(theirs, parameters), gradients(made, inputs))


# What looks at the values of its input to say what its result is; a wrapper is told it has none.
BY_VALUES = frozenset(
    {
        *("histogram", "histogramdd", "unique", "segment_reduce", "nn.functional.one_hot"),
        *("nn.functional.gaussian_nll_loss", "nn.functional.embedding_bag"),
    }
)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_wraps_tensors_sees_the_calls_of_every_operator(name):
    plain, other = (next(iter(samples_for(name, requires_grad=False)), None) for _ in range(2))
    if plain is None or not plain.tensors:
        pytest.skip("takes no tensors")
    if name in BY_VALUES:
        with pytest.raises(NotImplementedError, match="wrapper without data"):
            called(name, other, Wrapper)
        return
    same(values(called(name, other, Wrapper)[0]), values(called(name, plain)[0]))


def wrapped(tensor):
    return Wrapper(tensor.detach()).requires_grad_(tensor.requires_grad)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name not in BY_VALUES])
def test_a_class_that_wraps_tensors_gets_the_gradients_of_every_operator(name):
    plain, other = (next(samples_for(name), None) for _ in range(2))
    if plain is None:
        pytest.skip("no samples of real numbers")
    made, inputs = called(name, other, wrapped)
    found = gradients(made, inputs)
    assert all(isinstance(one, Wrapper) for one in inputs)
    same(found, gradients(*called(name, plain)))


# Sizes at which other kernels take over: blocks that stay in cache, threads, chains of sums.
LARGE = 70_000


@pytest.mark.parametrize("name", [name for name in NAMES if "." not in name])
def test_a_large_array_is_what_its_parts_are(name):
    """Of functions of one tensor that keep its shape and work element by element."""
    function = resolve(torch, name)
    op = getattr(function, "op", None)
    if op is None or op.kind != "elementwise" or len(op.inputs) != 1:
        pytest.skip("not element by element of one tensor")
    sample = next(iter(samples_for(name, requires_grad=False)))
    if not sample.input.numel() or sample.args or sample.kwargs:
        pytest.skip("takes options")
    for dtype in (torch.float64, torch.float32):
        row = sample.input.reshape(-1)
        row = row.to(dtype) if row.is_floating_point() else row
        times = LARGE // row.numel() + 1
        large = row.repeat(times)
        made = function(large)
        parts = function(row)
        # Vectors and the rest of a line may be rounded by other instructions.
        expected = parts.repeat(times).numpy()
        numpy.testing.assert_allclose(made.numpy(), expected, rtol=4e-7, atol=0, strict=True)
        turned = function(large.reshape(2, -1).t() if large.numel() % 2 == 0 else large)
        assert turned.numel() == large.numel()
