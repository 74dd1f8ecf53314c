"""From a constraint to a transform that gives values which satisfy it.

`biject_to(constraint)` is a bijection from unconstrained numbers, for Monte Carlo methods, which
need its change of volume. `transform_to(constraint)` need not be one, for optimisers, which want it
well conditioned.

>>> import pullback as torch
>>> d = torch.distributions
>>> d.biject_to(d.constraints.simplex), d.transform_to(d.constraints.simplex)
(StickBreakingTransform(), SoftmaxTransform())
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Which function makes the transform, by the class of the constraint.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> d.biject_to(d.constraints.unit_interval)(torch.tensor(0.0))
    tensor(0.5000)
    >>> d.transform_to(d.constraints.greater_than(2.0))(torch.tensor(0.0))
    tensor(3.)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Set the factory for a class of constraints (or for that of the given one).

        Without a factory this is a decorator of one.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"A constraint or a class of them is wanted, got {constraint!r}.")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for this constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"No transform to {type(constraint).__name__} constraints is known; register one."
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _in_both(*kinds: Any) -> Callable[[Any], Any]:
    def register(factory: Any) -> Any:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_in_both(constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_in_both(constraints.positive, constraints.nonnegative)
def _to_above(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


@_in_both(constraints.less_than)
def _to_below(constraint: Any) -> Any:
    mirror = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), mirror])


@_in_both(constraints.interval, constraints.half_open_interval)
def _to_between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = isinstance(low, Number) and isinstance(high, Number)
    if numbers and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


@_in_both(constraints.corr_cholesky)
def _to_correlations(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(
    constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform()
)
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    """Constraints made of others: their transforms are made of the others' in the same way."""

    def to_independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def to_sections(constraint: Any) -> Any:
        parts = [registry(part) for part in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def to_slices(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, to_independent)
    registry.register(constraints.cat, to_sections)
    registry.register(constraints.stack, to_slices)


_register_parts(biject_to)
_register_parts(transform_to)

__dir__ = _only_public(globals())
