"""Which function computes the divergence of which two classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Any], Any]:
    """A decorator: this function of `(p, q)` is the divergence of these classes.

    Subclasses use it too, unless there is one for classes nearer to them.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> class Spike(d.Normal):
    ...     pass
    >>> @d.register_kl(Spike, Spike)
    ... def _spikes(p, q):
    ...     return torch.zeros(p.batch_shape)
    >>> d.kl_divergence(Spike(0.0, 1.0), Spike(1.0, 1.0))
    tensor(0.)
    """
    for given in (type_p, type_q):
        # Not asked whether it is a Distribution: Pyro registers a base class that is not.
        if not isinstance(given, type):
            raise TypeError(f"register_kl takes classes of distributions, got {given!r}.")

    def register(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()  # what was found before may have become second best
        return function

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for these classes, or NotImplemented: that of the nearest classes registered."""
    matches = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), function)
        for (p, q), function in _KL_REGISTRY.items()
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not matches:
        return NotImplemented
    by_p = min(matches, key=lambda match: (match[0], match[1]))
    by_q = min(matches, key=lambda match: (match[1], match[0]))
    if by_p[2] is not by_q[2]:
        ours = type_p.__mro__[by_p[0]].__name__, type_q.__mro__[by_p[1]].__name__
        theirs = type_p.__mro__[by_q[0]].__name__, type_q.__mro__[by_q[1]].__name__
        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) could be that of {ours} or of "
            f"{theirs}; the first is taken. Register one for these classes.",
            RuntimeWarning,
            stacklevel=3,
        )
    return by_p[2]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """How much less likely draws of `p` are under `q`: E[log p(x) - log q(x)].

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> d.kl_divergence(d.Exponential(1.0), d.Exponential(1.0))
    tensor(0.)
    """
    key = type(p), type(q)
    function = _KL_MEMOIZE.get(key)
    if function is None:
        function = _KL_MEMOIZE[key] = _dispatch_kl(*key)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No divergence of {type(p).__name__} from {type(q).__name__} is known; register_kl "
            "adds one."
        )
    return function(p, q)
