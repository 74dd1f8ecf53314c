"""Transforms made of other transforms: one after another, side by side, or on larger events."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.package import torch
from pullback.distributions.transforms.base import Transform, raised
from pullback.distributions.utils import _sum_rightmost, lazy_property

__all__ = [
    *("CatTransform", "ComposeTransform", "IndependentTransform", "ReshapeTransform"),
    *("StackTransform", "identity_transform"),
]


class ComposeTransform(Transform):
    """Transforms, each applied to the result of the one before.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> t = d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)])
    >>> t(torch.tensor(0.0)), t.inv(torch.tensor(3.0))
    (tensor(3.), tensor(0.))
    """

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = list(parts)

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        # An event must be large enough for every part that it comes to.
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        return raised(self.parts[0].domain, event_dim)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        return raised(self.parts[-1].codomain, event_dim)

    @lazy_property
    def bijective(self) -> Any:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Any:
        known = self._inv() if self._inv is not None else None
        if known is None:
            known = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(known)
            known._inv = weakref.ref(self)
        return known

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return torch.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        total: Any = 0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            growth = part.log_abs_det_jacobian(before, after)
            total = total + _sum_rightmost(growth, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, with more last dimensions counted to its events.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> d.IndependentTransform(d.ExpTransform(), 1).log_abs_det_jacobian(torch.ones(3), None)
    tensor(3.)
    """

    def __init__(
        self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        self._check(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        self._check(y, self.codomain)
        return self.base_transform.inv(y)

    @staticmethod
    def _check(value: Any, side: Any) -> None:
        if value.dim() < side.event_dim:
            raise ValueError(
                f"An event has {side.event_dim} dimensions, but the value has shape "
                f"{tuple(value.shape)}."
            )

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        growth = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(growth, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events of one shape in another, element by element the same.

    >>> import pullback as torch
    >>> torch.distributions.ReshapeTransform((4,), (2, 2))(torch.zeros(3, 4)).shape
    torch.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"Shapes {tuple(in_shape)} and {tuple(out_shape)} hold different numbers of "
                "elements."
            )
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(_replaced(x.shape, self.in_shape, self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(_replaced(y.shape, self.out_shape, self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Any, new: Any) -> Any:
    """`shape` with its ending `old` replaced by `new`."""
    start = len(shape) - len(old)
    if start < 0 or tuple(shape[start:]) != tuple(old):
        raise ValueError(f"Shape {tuple(shape)} does not end in {tuple(old)}.")
    return Size((*shape[:start], *new))


class _SideBySide(Transform):
    """Transforms for parts along `dim`."""

    transforms: list[Any]
    dim: int

    @property
    def bijective(self) -> Any:
        return all(part.bijective for part in self.transforms)

    def _check_dim(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} does not exist in a value of {value.dim()} dimensions."
            )


class CatTransform(_SideBySide):
    """Transforms for sections of given lengths along `dim`, as `torch.cat` joins them.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> t = d.CatTransform([d.ExpTransform(), d.identity_transform], lengths=[1, 2])
    >>> t(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Any = None, cache_size: int = 0
    ) -> None:
        if not all(isinstance(part, Transform) for part in tseq):
            raise AssertionError(f"Transforms are wanted, got {list(tseq)!r}.")
        super().__init__(cache_size=cache_size)
        self.transforms = [part.with_cache(cache_size) if cache_size else part for part in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.lengths)} lengths, {len(self.transforms)} transforms.")
        self.dim = dim

    @lazy_property
    def event_dim(self) -> Any:
        return max(part.event_dim for part in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The length of all sections together."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _sections(self, value: Any) -> Any:
        self._check_dim(value)
        if value.shape[self.dim] != self.length:
            raise AssertionError(
                f"Dimension {self.dim} has {value.shape[self.dim]} elements; the sections "
                f"{self.length}."
            )
        return value.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._sections(x), strict=True)
        return torch.cat([part(section) for part, section in pairs], self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._sections(y), strict=True)
        return torch.cat([part.inv(section) for part, section in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        growths = []
        for part, before, after in zip(
            self.transforms, self._sections(x), self._sections(y), strict=True
        ):
            growth = part.log_abs_det_jacobian(before, after)
            growths.append(_sum_rightmost(growth, self.event_dim - part.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        # Sections within an event add up; sections of the batch stay side by side.
        return torch.cat(growths, dim) if dim < 0 else sum(growths)


class StackTransform(_SideBySide):
    """One transform for each slice along `dim`, as `torch.stack` joins them.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> d.StackTransform([d.ExpTransform(), d.identity_transform])(torch.zeros(2))
    tensor([1., 0.])
    """

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(part, Transform) for part in tseq):
            raise AssertionError(f"Transforms are wanted, got {list(tseq)!r}.")
        super().__init__(cache_size=cache_size)
        self.transforms = [part.with_cache(cache_size) if cache_size else part for part in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _slices(self, value: Any) -> Any:
        self._check_dim(value)
        if value.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"Dimension {self.dim} has {value.shape[self.dim]} slices for "
                f"{len(self.transforms)} transforms."
            )
        return value.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._slices(x), strict=True)
        return torch.stack([part(one) for part, one in pairs], self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._slices(y), strict=True)
        return torch.stack([part.inv(one) for part, one in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        growths = [part.log_abs_det_jacobian(before, after) for part, before, after in parts]
        return torch.stack(growths, self.dim)
