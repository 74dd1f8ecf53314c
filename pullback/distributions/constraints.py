"""Constraints: which values a parameter may have, and which a distribution gives.

`constraint.check(value)` answers one boolean per event. `is_discrete` says whether values are whole
numbers of some kind, `event_dim` how many last dimensions make one event.

>>> import pullback as torch
>>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 2.0]))
tensor([False,  True])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true

__all__ = [
    *("Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent"),
    *("dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent"),
    *("integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky"),
    *("lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot"),
    *("positive", "positive_definite", "positive_integer", "positive_semidefinite", "real"),
    *("real_vector", "simplex", "square", "stack", "symmetric", "unit_interval"),
]


class Constraint:
    """A region of values; subclasses say in `check` which values lie in it.

    >>> import pullback as torch
    >>> from pullback.distributions import constraints
    >>> constraints.positive.check(torch.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether each event of `value` satisfies the constraint, as a tensor of bools."""
        raise NotImplementedError(f"{type(self).__name__} has no check().")

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


# Known only once the parameters are ------------------------------------------------------------


class _Dependent(Constraint):
    """Stands where a constraint depends on other parameters, and so on the instance."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> Any:
        return self._known("is_discrete", self._is_discrete)

    @property
    def event_dim(self) -> Any:
        return self._known("event_dim", self._event_dim)

    @staticmethod
    def _known(name: str, value: Any) -> Any:
        if value is NotImplemented:
            raise NotImplementedError(f"{name} depends on the instance; ask that.")
        return value

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Any:
        """The same with more of it known: `constraints.dependent(event_dim=1)`."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("A dependent constraint is known on instances only; check with theirs.")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint can be known on instances only.

    >>> from pullback.distributions import constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; on the class, a dependent constraint.

    >>> import pullback as torch
    >>> constraints = torch.distributions.constraints
    >>> class Below:
    ...     def __init__(self, top):
    ...         self.top = top
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.less_than(self.top)
    >>> Below.support.event_dim, Below(3).support
    (0, LessThan(upper_bound=3))
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]  # a decorator here
        """Decorate the function that tells the constraint."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# One number at a time --------------------------------------------------------------------------


class _Bounded(Constraint):
    """Between bounds, whose names make up the printed form.

    >>> import pullback as torch
    >>> from pullback.distributions import constraints
    >>> constraints.greater_than(1).check(torch.tensor([1.0, 2.0]))
    tensor([False,  True])
    >>> constraints.interval(0, 1).check(torch.tensor([1.0, 2.0]))
    tensor([ True, False])
    """

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _GreaterThan(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # NaN is no real number


# Vectors ---------------------------------------------------------------------------------------


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# Matrices --------------------------------------------------------------------------------------


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    def check(self, value: Any) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_Matrix):
    def check(self, value: Any) -> Any:
        positive_diagonal = (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)
        return lower_triangular.check(value) & positive_diagonal


class _CorrCholesky(_Matrix):
    def check(self, value: Any) -> Any:
        rounding = torch.finfo(value.dtype).eps * value.shape[-1] * 10
        unit_rows = ((torch.linalg.norm(value.detach(), dim=-1) - 1).abs() <= rounding).all(-1)
        return lower_cholesky.check(value) & unit_rows


class _Square(_Matrix):
    def check(self, value: Any) -> Any:
        is_square = value.shape[-2] == value.shape[-1]
        return torch.full(value.shape[:-2], is_square, dtype=torch.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        is_square = super().check(value)
        if not all_true(is_square):
            return is_square
        return torch.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        if not all_true(is_symmetric):
            return is_symmetric
        return (torch.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        if not all_true(is_symmetric):
            return is_symmetric
        return torch.linalg.cholesky_ex(value).info == 0


# Made of other constraints ---------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """Another constraint, with some more last dimensions making up an event.

    >>> import pullback as torch
    >>> from pullback.distributions import constraints
    >>> rows = torch.tensor([[1.0, 2.0], [1.0, -1.0]])
    >>> constraints.independent(constraints.positive, 1).check(rows)
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"independent() takes a constraint, got {base_constraint!r}.")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"independent() takes a number of dimensions, got {reinterpreted_batch_ndims!r}."
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        more = self.reinterpreted_batch_ndims
        if result.dim() < more:
            raise ValueError(
                f"An event has {self.event_dim} dimensions, but the value {value.dim()} (shape "
                f"{tuple(value.shape)})."
            )
        return result.flatten(-more).all(-1) if more else result

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"
        )


class MixtureSameFamilyConstraint(Constraint):
    """Values that every component of a mixture could give.

    >>> import pullback as torch
    >>> from pullback.distributions import constraints
    >>> values = constraints.MixtureSameFamilyConstraint(constraints.positive)
    >>> values.check(torch.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"A constraint of components is wanted, got {base_constraint!r}.")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        if value.dim() < self.event_dim:
            raise ValueError(
                f"An event has {self.event_dim} dimensions, but the value {value.dim()} (shape "
                f"{tuple(value.shape)})."
            )
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return result.flatten(value.dim() - self.event_dim).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Joined(Constraint):
    """Constraints for parts along `dim`."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError(f"Constraints are wanted, got {list(cseq)!r}.")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> Any:
        return any(part.is_discrete for part in self.cseq)

    def _check_dim(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} does not exist in a value of {value.dim()} dimensions."
            )


class _Cat(_Joined):
    """Constraints for sections of given lengths along `dim`, as `torch.cat` joins them.

    >>> import pullback as torch
    >>> from pullback.distributions import constraints
    >>> both = constraints.cat([constraints.positive, constraints.real], lengths=[1, 1])
    >>> both.check(torch.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints.")

    @property
    def event_dim(self) -> Any:
        return max(part.event_dim for part in self.cseq)

    def check(self, value: Any) -> Any:
        self._check_dim(value)
        sections = value.split(self.lengths, self.dim)
        pairs = zip(self.cseq, sections, strict=True)
        return torch.cat([part.check(section) for part, section in pairs], self.dim)


class _Stack(_Joined):
    """One constraint for each slice along `dim`, as `torch.stack` joins them."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> Any:
        dim = max(part.event_dim for part in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        self._check_dim(value)
        pairs = zip(self.cseq, value.unbind(self.dim), strict=False)
        return torch.stack([part.check(v) for part, v in pairs], self.dim)


dependent: Constraint = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval: Constraint = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat = _Cat
stack = _Stack

__dir__ = _only_public(globals())
