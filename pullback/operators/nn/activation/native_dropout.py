"""Dropout as the top level has it: `train` must be said, and in-place forms have an underscore.

`nn.functional` has the same under other signatures, in dropout.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core.dtype import bool_
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.sizes import ones_like
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.nn.activation import dropout as functional
from pullback.operators.random.generator import drawn

FOUND_IN = {
    "torch": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout
        feature_alpha_dropout_ feature_dropout feature_dropout_ native_dropout
    """
}


def dropout(input: Any, p: float, train: bool) -> Any:
    """Zero elements with probability `p`, and scale the others to keep the expected value.

    >>> import pullback as torch
    >>> torch.dropout(torch.ones(2), 0.9, train=False)
    tensor([1., 1.])
    """
    return _checked(functional.dropout, "dropout", input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """`dropout`, written into `input`."""
    return _checked(functional.dropout, "dropout_", input, p, train, inplace=True)


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Set elements to selu's lower limit, then shift and scale so that mean and variance stay.

    >>> import pullback as torch
    >>> torch.alpha_dropout(torch.tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return _checked(functional.alpha_dropout, "alpha_dropout", input, p, train)


def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`alpha_dropout`, written into `input`."""
    return _checked(functional.alpha_dropout, "alpha_dropout_", input, p, train, inplace=True)


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """`dropout` of whole channels: of the first two dimensions, all elements or none.

    >>> import pullback as torch
    >>> torch.feature_dropout(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return _checked(functional.drop_channels, "feature_dropout", input, p, train)


def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """`feature_dropout`, written into `input`."""
    return _checked(functional.drop_channels, "feature_dropout_", input, p, train, inplace=True)


def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """`alpha_dropout` of whole channels.

    >>> import pullback as torch
    >>> torch.feature_alpha_dropout(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return _checked(functional.feature_alpha_dropout, "feature_alpha_dropout", input, p, train)


def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`feature_alpha_dropout`, written into `input`."""
    return _checked(
        functional.feature_alpha_dropout, "feature_alpha_dropout_", input, p, train, inplace=True
    )


def _checked(
    drop: Any, op: str, input: Any, p: float, train: bool, *, inplace: bool = False
) -> Any:
    if not 0 <= p <= 1:  # here torch raises another type than in nn.functional
        raise RuntimeError(f"{op}: p is a probability, between 0 and 1, got {p}.")
    return drop(input, p, train, inplace)


@elementwise(
    input=lambda g, mask, scale: _native_dropout(g, mask, scale),
    promote=None,
    node="NativeDropoutBackward0",
)
def _native_dropout(xp: Namespace, input: Array, mask: Array, scale: float) -> Array:
    return input * (mask * input.dtype.type(scale))


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`dropout`, and the mask of the elements that were kept.

    >>> import pullback as torch
    >>> torch.native_dropout(torch.ones(2), 0.0, True)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"native_dropout: p is a probability, between 0 and 1, got {p}.")
    if train is False:
        mask = ones_like(input, dtype=bool_)
        return _native_dropout(input, mask, 1.0), mask
    if get_mode().dispatch:
        mask = functional.mask_by_operators(input, p, channels=False) > 0
    else:
        mask = drawn("native_dropout", lambda: wrap(functional.kept(input, p, channels=False)))
    return _native_dropout(input, mask, 0.0 if p == 1 else 1 / (1 - p)), mask
