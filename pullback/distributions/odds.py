"""Families with one probability, given as such or as log-odds."""

from __future__ import annotations

from typing import Any

from pullback.distributions import constraints
from pullback.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["OneProbability", "check_one_given"]


def check_one_given(family: Any, probs: Any, logits: Any) -> None:
    """Refuse both of `probs` and `logits`, and neither."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{type(family).__name__} takes either probs or logits, and one of them.")


class OneProbability:
    """Computes `probs` from `logits`, or the other way round, when first asked for."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    @lazy_property
    def logits(self) -> Any:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Any:
        """The one that was given."""
        own = vars(self)
        return own["probs"] if self._given_probs else own["logits"]

    _given_probs: bool

    def _take(self, probs: Any, logits: Any, *others: Any) -> Any:
        """Keep the one that is given; it and `others` are broadcast, and these are returned."""
        check_one_given(self, probs, logits)
        self._given_probs = probs is not None
        given = probs if self._given_probs else logits
        *rest, own = broadcast_all(*others, given)
        vars(self)["probs" if self._given_probs else "logits"] = own
        return rest

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()
