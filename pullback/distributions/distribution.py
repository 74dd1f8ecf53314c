"""What every distribution is: shapes, validation, expansion, and the methods a family may have."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from pullback.core.home import is_ours
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.distributions import constraints
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true, lazy_property
from pullback.transforms.batched import base_of

__all__ = ["Distribution"]


def _missing(name: str) -> Any:
    """A property that a family without `name` answers with an error."""

    def ask(self: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}.")

    return property(ask)


class Distribution:
    """A batch of distributions; draws have shape sample_shape + batch_shape + event_shape.

    A family names its parameters and their constraints in `arg_constraints`; from that follow
    validation, the printed form and `expand`.

    >>> import pullback as torch
    >>> d = torch.distributions.Normal(torch.zeros(3), 1.0)
    >>> d.batch_shape, d.sample((2,)).shape
    (torch.Size([3]), torch.Size([2, 3]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__

    arg_constraints: Any = _missing("arg_constraints")
    support: Any = _missing("support")

    # Attributes besides parameters that an expanded instance takes over as they are.
    _kept: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked unless `validate_args` says; not so in `python -O`."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() takes True or False, got {value!r}.")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = Size(),
        event_shape: Any = Size(),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    # Shapes ------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one event."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = Size()) -> Any:
        """The shape of draws."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, repeated without copies to a larger batch.

        >>> import pullback as torch
        >>> torch.distributions.Normal(0.0, 1.0).expand((2, 3)).batch_shape
        torch.Size([2, 3])
        """
        owner = next(cls for cls in type(self).__mro__ if "__init__" in vars(cls))
        if _instance is None and not is_ours(vars(owner)["__init__"], "distributions"):
            raise NotImplementedError(
                f"{owner.__name__} defines __init__, so it must define expand too."
            )
        new = self._get_checked_instance(owner, _instance)
        batch_shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            if name in vars(self):
                value = vars(self)[name]
                event = value.shape[value.dim() - constraint.event_dim :]
                setattr(new, name, value.expand((*batch_shape, *event)))
        for name in self._kept:
            setattr(new, name, vars(self)[name])
        self._expand_parts(new, batch_shape)
        new._batch_shape, new._event_shape = batch_shape, self._event_shape
        new._validate_args = self._validate_args
        return new

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        """Give `new` the distributions that this one is made of, expanded."""

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """An instance without attributes, for `expand` of `cls`; `_instance` if that is given."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"{type(self).__name__} defines __init__, so it must define expand too."
            )
        return type(self).__new__(type(self))

    # Validation --------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no arg_constraints, so its parameters are not checked; "
                "define them, or pass validate_args=False.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(_on_class(self, name), lazy_property):
                continue  # asking for it would compute it
            value = getattr(self, name)
            if not all_true(constraint.check(value)):
                raise ValueError(
                    f"{self!r}: parameter {name} (shape {tuple(value.shape)}) must satisfy "
                    f"{constraint!r}, but has the value\n{base_of(value)}"
                )

    def _validate_sample(self, value: Any) -> None:
        """Refuse values that are no tensor, do not fit the shapes, or lie outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError(f"A value must be a tensor, got {type(value).__name__}.")
        event_start = value.dim() - len(self._event_shape)
        if value.shape[event_start:] != self._event_shape:
            raise ValueError(
                f"A value of shape {tuple(value.shape)} must end in the event shape "
                f"{tuple(self._event_shape)}."
            )
        expected = self._batch_shape + self._event_shape
        for ours, theirs in zip(reversed(value.shape), reversed(expected), strict=False):
            if 1 not in (ours, theirs) and ours != theirs:
                raise ValueError(
                    f"A value of shape {tuple(value.shape)} does not broadcast with batch and "
                    f"event shape {tuple(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no support, so values are not checked; define it, or "
                "pass validate_args=False.",
                stacklevel=3,
            )
            return
        if not all_true(support.check(value)):
            raise ValueError(
                f"{self!r}: a value (shape {tuple(value.shape)}) must satisfy {support!r}, but is\n"
                f"{base_of(value)}"
            )

    # What families define ------------------------------------------------------------------------

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean.")

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode.")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance.")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Any:
        """Draws without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:
        """Draws that move with the parameters, so that gradients flow through them."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample.")

    def sample_n(self, n: int) -> Any:
        """Like `sample((n,))`, an older name for it."""
        warnings.warn("sample_n(n) is an old name: use sample((n,)).", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob.")

    def cdf(self, value: Any) -> Any:
        """The probability of values up to `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf.")

    def icdf(self, value: Any) -> Any:
        """The quantile: where the cdf is `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf.")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support.")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy.")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return torch.exp(self.entropy())

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in vars(self):
                value = vars(self)[name]
                one = value.numel() == 1 and base_of(value) is value  # not one for each example
                shown.append(f"{name}: {value if one else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _on_class(instance: Any, name: str) -> Any:
    return getattr(type(instance), name, None)
