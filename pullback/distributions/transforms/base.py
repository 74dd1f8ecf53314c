"""What a transform is: a call, an inverse, a log-determinant, and a cache of the last pair."""

from __future__ import annotations

import weakref
from typing import Any

from pullback.distributions import constraints

__all__ = ["Transform"]


class Transform:
    """A function from `domain` to `codomain` whose inverse and change of volume are known.

    With `cache_size=1` the last input and output are remembered, by identity: the inverse of what
    was just computed is then exact and free.

    A subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`.

    >>> import pullback as torch
    >>> t = torch.distributions.ExpTransform()
    >>> y = t(torch.tensor(0.0))
    >>> y, t.inv(y), t.log_abs_det_jacobian(t.inv(y), y)
    (tensor(1.), tensor(0.), tensor(0.))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size is 0 or 1, got {cache_size!r}.")
        self._cache_size = cache_size
        self._inv: Any = None  # a weak reference: the inverse holds this transform
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> Any:
        """How many last dimensions are transformed together."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                f"Events of {type(self).__name__} have {self.domain.event_dim} dimensions before "
                f"and {self.codomain.event_dim} after; ask its domain or codomain."
            )
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The inverse, a transform too."""
        known = self._inv() if self._inv is not None else None
        if known is None:
            known = _InverseTransform(self)
            self._inv = weakref.ref(known)
        return known

    @property
    def sign(self) -> Any:
        """1 where it rises, -1 where it falls; for transforms of single numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no sign.")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with a cache of another size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__} has no with_cache.")

    __hash__ = None  # type: ignore[assignment]  # compared by parameters, which may change

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    def __call__(self, x: Any) -> Any:
        """The transformed `x`."""
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        """What `y` was transformed from."""
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call.")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse.")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of how much volumes grow at `x`, whose transform is `y`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of what inputs of `shape` become."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of inputs whose outputs have `shape`."""
        return shape


class _InverseTransform(Transform):
    """A transform run backwards."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


def raised(constraint: Any, event_dim: int) -> Any:
    """The constraint with at least so many dimensions to an event."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint
