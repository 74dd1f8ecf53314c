"""`pullback.special`: special functions under torch's names."""

from __future__ import annotations

from pullback.operators.nn.activation.softmax import log_softmax, softmax
from pullback.operators.reduce.sums import logsumexp
from pullback.operators.special import functions as _special
from pullback.operators.special.functions import *  # noqa: F403 (its __all__ is the list)
from pullback.operators.watching import asking as _asking

__all__ = [*_special.__all__, "log_softmax", "logsumexp", "softmax"]

_asking.public(globals(), __all__)
