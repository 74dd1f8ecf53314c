"""Insight: `assert_close`, and samples of each operator for testing what is built of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.testing.comparison import assert_allclose, assert_close

if TYPE_CHECKING:
    from pullback.testing.making import make_tensor
    from pullback.testing.samples import SAMPLES, SampleInput, resolve, samples_for, tensors_in

__all__ = [
    "SAMPLES",
    "SampleInput",
    "assert_allclose",
    "assert_close",
    "make_tensor",
    "resolve",
    "samples_for",
    "tensors_in",
]


def __getattr__(name: str) -> Any:
    """The samples load every family of operators: not before somebody asks for them."""
    if name == "make_tensor":
        from pullback.testing import making

        return making.make_tensor
    if name not in __all__:
        raise absent(__name__, name)
    from pullback.testing import samples

    return getattr(samples, name)


__dir__ = _only_public(globals())
