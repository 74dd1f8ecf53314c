"""Every program in every form: those listed do what they do to each component; others refuse."""

import pytest

import pullback as torch
from pullback.autograd import gradcheck, gradgradcheck
from pullback.testing.nested_samples import FORMS, PROGRAMS, TAKEN, batch, run, run_component

CASES = [(name, form) for name in PROGRAMS for form in FORMS]


def parts(made):
    """A result, component by component."""
    return made.unbind() if made.is_nested else made.unbind(0)


def reference(name, x):
    return [run_component(torch, name, c, i) for i, c in enumerate(x.unbind())]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_what_is_listed_does_it_to_each_component_and_the_rest_refuses(name, form):
    """B-72, B-75, B-77"""
    x = batch(torch, form)
    if form not in TAKEN[name]:
        with pytest.raises((NotImplementedError, RuntimeError, ValueError, IndexError)):
            run(torch, name, x)
        return
    made = run(torch, name, x)
    for ours, wanted in zip(parts(made), reference(name, x), strict=True):
        assert ours.shape == wanted.shape
        assert ours.dtype is wanted.dtype
        assert torch.allclose(ours, wanted, rtol=1e-10, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[1] in TAKEN[case[0]]])
def test_gradients_are_those_of_components(name, form):
    """B-71, B-72: and holes get none"""
    x = batch(torch, form, requires_grad=True)
    made = run(torch, name, x)
    if not made.requires_grad:
        return
    weights = [torch.randn(c.shape, dtype=c.dtype) for c in parts(made.detach())]

    def total(components):
        return sum((c * w).real.sum() for c, w in zip(components, weights, strict=True))

    total(parts(made)).backward()
    assert x.grad.is_nested
    assert x.grad.shape == x.shape
    plain = [c.detach().requires_grad_() for c in x.unbind()]
    total([run_component(torch, name, c, i) for i, c in enumerate(plain)]).backward()
    for ours, c in zip(x.grad.unbind(), plain, strict=True):
        wanted = torch.zeros_like(c) if c.grad is None else c.grad
        assert torch.allclose(ours, wanted, rtol=1e-9, atol=1e-12)


TWICE = ["x * each", "x.sum(1)", "x.amax(1)", "x.softmax(1)", "x.mean((1, 2), keepdim=True)"]
TWICE += ["x @ mats", "F.layer_norm(x, x.shape[1:])", "x.var(1, correction=0)"]


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("form", ["jagged", "holes"])
def test_second_derivatives_and_forward_mode_agree_with_differences(name, form):
    """B-76: gradcheck through values"""
    x = batch(torch, form)
    offsets, lengths = x.offsets(), x.lengths()

    def of_values(values):
        made = torch.nested.nested_tensor_from_jagged(values, offsets, lengths)
        return tuple(parts(run(torch, name, made)))

    values = x.values().detach().requires_grad_()
    assert gradcheck(of_values, values, check_forward_ad=True)
    assert gradgradcheck(of_values, values)


def test_a_refusal_names_function_layout_and_what_to_do():
    """B-75"""
    x = batch(torch, "jagged")
    with pytest.raises(NotImplementedError, match=r"cumsum: .*torch.jagged.*to_padded_tensor"):
        x.cumsum(1)
    with pytest.raises(NotImplementedError, match=r"flip: .*torch.strided.*unbind\(\)"):
        torch.flip(batch(torch, "strided"), (1,))
    with pytest.raises(NotImplementedError, match=r"conv1d: .*torch.jagged"):
        torch.nn.functional.conv1d(x, torch.ones(2, 4, 1, dtype=torch.float64))
