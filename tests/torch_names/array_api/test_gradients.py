"""Gradients flow through the functions of the namespace; transforms work through them."""

import re

import pullback.array_api as xp
import pytest

import pullback
from pullback.autograd import gradcheck
from tests.torch_names.array_api.calls import calls, operands

# What has no slope, or is made from nothing.
FLAT = """
    ones_like zeros_like full_like empty_like ceil floor round sign trunc nextafter floor_divide
    matrix_rank fftfreq rfftfreq from_dlpack finfo
"""
NAMES = ["f", "g", "h", "v", "t", "s", "c"]
NAMED = {name: re.compile(rf"(?<![\w.]){name}(?!\w)") for name in NAMES}


def differentiable():
    for call in dict.fromkeys(calls()):
        name = re.match(r"\*?(?:\w+\.)?(\w+)", call)[1]
        inputs = [one for one in NAMES if NAMED[one].search(call.partition("(")[2])]
        if name not in FLAT.split() and inputs and "32" not in call and "x64" not in call:
            yield pytest.param(call.removeprefix("*"), inputs, id=call)


def floats_of(result):
    several = isinstance(result, tuple | list) and not isinstance(result, pullback.Size)
    parts = result if several else [result]
    return tuple(
        one
        for one in parts
        if isinstance(one, pullback.Tensor) and (one.is_floating_point() or one.is_complex())
    )


@pytest.mark.parametrize(("call", "inputs"), [*differentiable()])
def test_gradients_of_a_call_are_its_slopes(call, inputs):
    given = operands(xp)

    def run(*tensors):
        scope = {"xp": xp, **given, **dict(zip(inputs, tensors, strict=True))}
        scope["s"] = (scope["s"] + scope["s"].mT) / 2  # what asks for symmetry looks at one half
        return floats_of(eval(f"xp.{call}", scope))

    leaves = tuple(given[name].clone().requires_grad_() for name in inputs)
    outputs = run(*leaves)
    if not outputs or not all(one.numel() for one in outputs):
        return
    assert all(one.requires_grad for one in outputs if "where(b,2" not in call)
    if "pinv" not in call or "rtol" not in call:
        assert gradcheck(run, leaves)


def test_a_mapped_function_finds_its_namespace():
    def norm(x):
        namespace = x.__array_namespace__()
        return namespace.linalg.vector_norm(x, axis=-1)

    x = pullback.arange(6.0).reshape(2, 3)
    assert pullback.allclose(pullback.vmap(norm)(x), norm(x))
    slopes = pullback.vmap(pullback.func.grad(norm))(x)
    assert pullback.allclose(slopes, x / norm(x)[:, None])
    assert pullback.func.jvp(norm, (x,), (pullback.ones_like(x),))[1].shape == (2,)


def test_sequences_of_tensors_keep_their_history():
    x = pullback.tensor(2.0, requires_grad=True)
    made = xp.asarray([[x, 1], [x * x, x]])
    made.sum().backward()
    assert made.tolist() == [[2.0, 1.0], [4.0, 2.0]]
    assert x.grad == 6


def test_values_that_are_there_twice_have_their_gradient_at_the_first():
    x = pullback.tensor([3.0, 1.0, 3.0], requires_grad=True)
    (xp.unique_values(x) * pullback.tensor([10.0, 20.0])).sum().backward()
    assert x.grad.tolist() == [20.0, 10.0, 0.0]


@pytest.mark.parametrize(
    "call",
    [
        "add(1, 2)",
        "sin(1.0)",
        "squeeze(xp.ones((2, 2)), 0)",
        "nonzero(xp.asarray(1))",
        "take(xp.ones((2, 2)), xp.asarray([0]))",
        "cumulative_sum(xp.ones((2, 2)))",
        "asarray([1.0], copy=False)",
        "reshape(xp.ones((2, 3)).T, (6,), copy=False)",
        "astype(xp.asarray([1j]), xp.float32)",
        "isdtype(xp.int8, 'whole')",
        "result_type(1, 2)",
        "add(xp.ones(2), [1, 2])",
        "sum(xp.ones((2, 2)), axis=(0, 0))",
        "concat([xp.ones((2, 2)), xp.ones(0)])",
        "linalg.qr(xp.ones((2, 2)), mode='raw')",
        "searchsorted(xp.ones(2), xp.ones(2), side='middle')",
        "expand_dims(xp.ones(2), axis=4)",
    ],
)
def test_what_the_standard_does_not_have_is_refused(call):
    with pytest.raises((TypeError, ValueError, IndexError), match=r"\w+: |expected|needs"):
        eval(f"xp.{call}", {"xp": xp})
