"""Tensors with a mask of their own, at torch's paths."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.masked.maskedtensor import binary, unary
from pullback.masked.maskedtensor.core import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "binary", "is_masked_tensor", "unary"]

_refuse_others(globals())

__dir__ = _only_public(globals())
