"""Families about a place `loc`: many have their mean and mode there, some a scale beside."""

from __future__ import annotations

from typing import Any

from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.utils import broadcast_all

__all__ = ["Located", "LocationScale"]


class Located(Distribution):
    """Has its mean and its mode at `loc`."""

    loc: Any

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc


class LocationScale(Located):
    """Real numbers about `loc`, as wide as `scale`."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)
