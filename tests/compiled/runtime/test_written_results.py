"""A result that is written to before backward: the right gradients, or an error, never others."""

import pytest

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

NAMES = sorted(name for name in SAMPLES if "." not in name or name.startswith(("nn.", "linalg.")))


def results(out):
    listed = tensors_in(out if isinstance(out, tuple | list) else [out])
    return [one for one in listed if one.requires_grad and one.dtype.is_floating_point]


def gradients(out, inputs, write):
    for one in out:
        write(one)
    roots = [one for one in out if not one.is_leaf]
    return torch.autograd.grad(roots, inputs, [torch.ones_like(one) for one in roots],
                               allow_unused=True)  # fmt: skip


def doubled(sample, function):
    """The gradients through results that are doubled in place; None where that is refused."""
    torch.manual_seed(1)
    out = results(sample.call(function))
    try:
        return gradients(out, sample.differentiable, lambda one: one.mul_(2))
    except RuntimeError:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_results_doubled_in_place(name, backend):
    function = resolve(torch, name)
    for sample in list(samples_for(name))[:2]:
        try:
            torch.manual_seed(1)
            out = [one * 2 for one in results(sample.call(function)) if not one.is_leaf]
            if not out or not sample.differentiable:
                continue
            expected = gradients(out, sample.differentiable, lambda one: None)
        except Exception:
            continue  # what eager refuses is tested elsewhere
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        try:
            found = doubled(sample, compiled)
        except CannotCapture:
            continue
        if found is None:
            assert doubled(sample, function) is None  # eager refuses that, too
            continue
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def test_a_view_of_a_result_that_is_written_counts(backend):
    def function(x):
        y = x.exp()
        return y, y.sum(0) * 2

    compiled = torch.compile(function, backend=backend, options={"never_slower": False})
    x = torch.ones(2, 3, requires_grad=True)
    y, _ = compiled(x)
    y.detach()[0].add_(1)
    try:
        (grad,) = torch.autograd.grad(y.sum(), x)
    except RuntimeError:
        return
    torch.testing.assert_close(grad, x.detach().exp())


def test_a_result_that_is_not_written_is_read_as_it_is(backend):
    compiled = torch.compile(torch.exp, backend=backend, fullgraph=True)
    x = torch.ones(2, 3, requires_grad=True)
    y = compiled(x)
    y.sum().backward(retain_graph=True)
    torch.testing.assert_close(x.grad, y.detach())
    y.detach().mul_(1)
    before = x.grad.clone()
    try:
        y.sum().backward()
    except RuntimeError:
        return
    torch.testing.assert_close(x.grad, before * 2)


def test_a_part_of_an_input_that_is_kept_and_written_counts(backend):
    compiled = torch.compile(lambda x, w: (x @ w.t()).tanh(), backend=backend, fullgraph=True)
    x, w = torch.full((2, 3), 0.1, requires_grad=True), torch.full((4, 3), 0.2)
    (expected,) = torch.autograd.grad(compiled(x, w).sum(), x)
    y = compiled(x, w)
    w.add_(1)
    try:
        (grad,) = torch.autograd.grad(y.sum(), x)
    except RuntimeError:
        return
    torch.testing.assert_close(grad, expected)


def test_data_that_was_exchanged_is_not_taken_for_that_of_the_call(backend):
    def function(x, w):
        return (x * w).exp(), w * 2

    gradients = []
    for one in (function, torch.compile(function, backend=backend, fullgraph=True)):
        x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        y, _ = one(x, w)
        w.data = torch.full((3,), 5.0)
        try:
            gradients.append(torch.autograd.grad(y.sum(), x)[0])
        except RuntimeError:
            return
    torch.testing.assert_close(*gradients)
