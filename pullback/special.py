"""`pullback.special`: special functions under torch's names."""

from __future__ import annotations

from pullback.operators import special as _special
from pullback.operators.reduction import logsumexp
from pullback.operators.softmax import log_softmax, softmax
from pullback.operators.special import *  # noqa: F403 (its __all__ is the list)

__all__ = [*_special.__all__, "log_softmax", "logsumexp", "softmax"]
