"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from pullback.distributions import constraints
from pullback.distributions.continuous.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """Sums of the squares of `df` standard normal numbers.

    >>> import pullback as torch
    >>> torch.distributions.Chi2(3.0).variance
    tensor(6.)
    """

    arg_constraints: Any = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new.concentration = self.concentration.expand(batch_shape)
        new.rate = self.rate.expand(batch_shape)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2
