"""Every operator on all its samples, against torch: values, dtypes, history, gradients, writes.

The samples are one table, made into tensors of either library. Where torch has a defect of its own,
`DEFECTS` says so.
"""

import contextlib

import numpy
import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports

torch = pytest.importorskip("torch")

NAMES = [name for name in SAMPLES if resolve(pullback, name) is not None]
COMPLEX = [name for name in NAMES if supports(name, "complex")]
DTYPES = [pytest.param(name, pullback.float64, id=f"{name}-float64") for name in NAMES]
DTYPES += [pytest.param(name, pullback.complex128, id=f"{name}-complex128") for name in COMPLEX]
DIFFERENTIABLE = [case for case in DTYPES if supports(case.values[0], "grad")]

in_both_dtypes = pytest.mark.parametrize(("name", "dtype"), DTYPES)

# (operator, order of the derivative) -> samples on which torch 2.13 is wrong or refuses.
DEFECTS = {
    # The gradient of the bias does not know that it depends on the output's gradient.
    ("nn.functional.layer_norm", 2): lambda sample: set(sample.kwargs) == {"bias"},
}


@contextlib.contextmanager
def naming(sample):
    """Say in a failure which sample it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"on {sample!r}")
        raise


def pairs(name, dtype, **options):
    """Each sample as tensors of both libraries."""
    ours = samples_for(name, dtype, **options)
    theirs = samples_for(name, dtype, module=torch, **options)
    for one, other in zip(ours, theirs, strict=True):
        with naming(one):
            yield one, other


def both(name):
    return resolve(pullback, name), resolve(torch, name)


def array_of(tensor):
    if isinstance(tensor, pullback.Tensor):
        return tensor._array
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def assert_alike(ours, theirs, *, zeros_for_none=False):
    """Equal shapes and dtypes, values equal but for the last digits; NaN equals NaN."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if zeros_for_none and (a is None or b is None):
            known = a if b is None else b
            assert known is None or not array_of(known).any()
            continue
        assert (a is None) == (b is None), (a, b)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape)
            assert str(a.dtype) == str(b.dtype)
            numpy.testing.assert_allclose(array_of(a), array_of(b), rtol=1e-9, atol=1e-11)


def weights_like(tensor, seed):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=tuple(tensor.shape))
    if tensor.dtype.is_complex:
        values = values + 1j * random.normal(size=tuple(tensor.shape))
    module = pullback if isinstance(tensor, pullback.Tensor) else torch
    dtype = str(tensor.dtype).removeprefix("torch.")
    return module.from_numpy(numpy.asarray(values).astype(dtype))


def gradients(outputs, inputs, **options):
    """Gradients for weighted outputs; Nones where nothing has history."""
    roots = [out for out in outputs if out is not None and out.requires_grad]
    if not roots or not inputs:
        return [None] * len(inputs)
    module = pullback if isinstance(roots[0], pullback.Tensor) else torch
    weights = [weights_like(out, number) for number, out in enumerate(roots)]
    return list(module.autograd.grad(roots, inputs, weights, allow_unused=True, **options))


@in_both_dtypes
def test_values_dtypes_and_history_are_torchs(name, dtype):
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        ours, theirs = one.call(function), other.call(reference)
        if not list(tensors_in(theirs)):
            assert ours == theirs
            continue
        ours, theirs = list(tensors_in(ours)), list(tensors_in(theirs))
        assert_alike(ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert a.requires_grad == b.requires_grad
            assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__
            assert a.output_nr == b.output_nr


def offset(tensor):
    return tensor.storage_offset()


@in_both_dtypes
def test_views_are_torchs_views(name, dtype):
    if not supports(name, "view"):
        pytest.skip("makes no views")
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        ours, theirs = list(tensors_in(one.call(function))), list(tensors_in(other.call(reference)))
        for a, b in zip(ours, theirs, strict=True):
            assert a._is_view() == b._is_view()
            if b._is_view() and b.numel() and not b.is_conj():
                assert offset(a) - offset(a._base) == offset(b) - offset(b._base)
                sides = zip(a.stride(), b.stride(), b.shape, strict=True)
                assert all(x == y for x, y, size in sides if size > 1)


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIABLE)
def test_gradients_are_torchs(name, dtype):
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        assert_alike(
            gradients(list(tensors_in(one.call(function))), one.differentiable),
            gradients(list(tensors_in(other.call(reference))), other.differentiable),
        )


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIABLE)
def test_second_gradients_are_torchs(name, dtype):
    if not supports(name, "gradgrad"):
        pytest.skip("has no second derivative")
    function, reference = both(name)
    defective = DEFECTS.get((name, 2), lambda sample: False)
    for one, other in pairs(name, dtype):
        if not one.smooth or defective(one):
            continue
        first = gradients(
            list(tensors_in(one.call(function))), one.differentiable, create_graph=True
        )
        expected = gradients(
            list(tensors_in(other.call(reference))), other.differentiable, create_graph=True
        )
        assert_alike(
            gradients(first, one.differentiable),
            gradients(expected, other.differentiable),
            zeros_for_none=True,
        )


@in_both_dtypes
def test_inplace_forms_are_torchs(name, dtype):
    write = getattr(torch.Tensor, f"{name}_", None)
    if write is None:
        pytest.skip("has no in-place form")
    assert hasattr(pullback.Tensor, f"{name}_")
    for one, other in pairs(name, dtype):
        if not isinstance(one.input, pullback.Tensor):
            continue
        ours, theirs = one.input.clone(), other.input.clone()
        try:
            write(theirs, *other.args, **other.kwargs)
        except Exception as error:
            with pytest.raises(type(error)):
                getattr(ours, f"{name}_")(*one.args, **one.kwargs)
            continue
        assert getattr(ours, f"{name}_")(*one.args, **one.kwargs) is ours
        assert_alike([ours], [theirs])
        assert ours.requires_grad == theirs.requires_grad
        assert type(ours.grad_fn).__name__ == type(theirs.grad_fn).__name__
        if supports(name, "grad"):
            assert_alike(
                gradients([ours], one.differentiable), gradients([theirs], other.differentiable)
            )
