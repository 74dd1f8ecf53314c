"""Kullback-Leibler divergences, by the classes of the two distributions.

>>> import pullback as torch
>>> d = torch.distributions
>>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
tensor(0.5000)
"""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.distributions.kl import across, composed, same  # noqa: F401 (they register theirs)
from pullback.distributions.kl.registry import _KL_MEMOIZE as _KL_MEMOIZE
from pullback.distributions.kl.registry import _KL_REGISTRY as _KL_REGISTRY
from pullback.distributions.kl.registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]

__dir__ = _only_public(globals())
