"""Functions that a factory makes, under names of their own."""

from __future__ import annotations

import inspect
import traceback

import pytest

import pullback as torch
from pullback.operators.variants import named


def _times(factor):
    def multiply(x, by=1):
        return factor * by * x

    return multiply


def test_variants_have_their_own_names_and_one_signature():
    double = named("double", _times(2), "Twice as much.")
    triple = named("triple", _times(3), "Three times.")
    assert (double(5), triple(5)) == (10, 15)
    assert (double.__name__, double.__qualname__, double.__doc__) == (
        "double",
        "double",
        "Twice as much.",
    )
    assert inspect.signature(double) == inspect.signature(triple)


def test_a_traceback_shows_the_variant_by_its_name():
    triple = named("triple", _times(3), "Three times.")
    with pytest.raises(TypeError) as caught:
        triple(None)
    assert traceback.extract_tb(caught.tb)[-1].name == "triple"


@pytest.mark.parametrize("name", ["conv2d", "max_pool3d", "max_unpool1d", "avg_pool2d"])
def test_a_mode_is_shown_variants_by_name(name):
    class Listing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    calls = {
        "conv2d": lambda f: f(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)),
        "max_pool3d": lambda f: f(torch.ones(1, 2, 2, 2), 2),
        "max_unpool1d": lambda f: f(torch.ones(1, 1), torch.tensor([[0]]), 2),
        "avg_pool2d": lambda f: f(torch.ones(1, 2, 2), 2),
    }
    seen: list[str] = []
    with Listing():
        calls[name](getattr(torch.nn.functional, name))
    assert name in seen
