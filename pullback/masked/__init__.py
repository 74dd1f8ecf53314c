"""Operators: reductions of the elements that a mask selects, and tensors that have one."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.masked.maskedtensor.core import MaskedTensor as MaskedTensor
from pullback.masked.maskedtensor.core import is_masked_tensor as is_masked_tensor
from pullback.masked.maskedtensor.creation import as_masked_tensor as as_masked_tensor
from pullback.masked.maskedtensor.creation import masked_tensor as masked_tensor
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.guarding import guard_all as _guard_all

__all__ = sorted(_faces.fill(globals(), _names.FACES["masked"]))

_guard_all(globals(), __all__)

__all__ += ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_refuse_others(globals())

__dir__ = _only_public(globals())
