"""gelu, exact or by tanh."""

from __future__ import annotations

import math

from pullback.operators.declare import Array, Namespace
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.special import normal_cdf

_SCALE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _check_approximate(approximate: str) -> None:
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")


@pointwise(
    check=_check_approximate,
    choices={"approximate": ("none", "tanh")},
    casts_out=False,
    space="nn.functional",
)
def gelu(xp: Namespace, input: Array, *, approximate: str = "none") -> Array:
    """`x` times the probability that a normal variable is below `x`; or a tanh close to that.

    >>> import pullback as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate == "tanh":
        inside = input * (_SCALE + _SCALE * _CUBIC * (input * input))
        return 0.5 * (input * (1 + xp.tanh(inside)))
    return input * normal_cdf(xp, input)
