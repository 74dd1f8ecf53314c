"""A pattern with values, in the place where other tensors have a NumPy array: what all kinds share.

It is no ndarray: it has a shape and a dtype, adds, scales and copies, which is what the engine does
with gradients, and says of everything else that it cannot. Kinds are sparse and nested arrays.
"""

from __future__ import annotations

from typing import Any, Self

from numpy.lib.mixins import NDArrayOperatorsMixin

from pullback.core.arrays import Array, OtherArray
from pullback.core.device import CPU, device
from pullback.core.layout import layout

__all__ = ["Patterned"]


class Patterned(NDArrayOperatorsMixin, OtherArray):
    """Values, and where they belong."""

    __slots__ = ("__weakref__", "pattern", "values")

    strides = ()
    pattern: Any
    values: Array

    def __init__(self, pattern: Any, values: Array) -> None:
        self.pattern = pattern
        self.values = values

    @property
    def _device(self) -> device:
        """Where the values are: on the host, or on device "meta" and nowhere."""
        place: device = getattr(self.values, "_device", CPU)
        return place

    @property
    def base(self) -> Array:
        """Whose memory it stands on, for the engine: a gradient on another's memory is not new."""
        return self.values

    @property
    def layout(self) -> layout:
        """How elements are stored."""
        kept: layout = self.pattern.layout
        return kept

    @property
    def dtype(self) -> Any:
        """NumPy's dtype of the values."""
        return self.values.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.values.itemsize)

    def copy(self, order: str = "K") -> Self:
        """The same pattern with values of its own."""
        return type(self)(self.pattern, self.values.copy())

    def astype(self, dtype: Any) -> Self:
        """The same pattern, values in another dtype."""
        return type(self)(self.pattern, self.values.astype(dtype))

    def equals(self, other: Any) -> bool:
        """Whether another array has the same elements at the same places."""
        return bool((self == other).all())

    @property
    def real(self) -> Self:
        """The real parts."""
        return type(self)(self.pattern, self.values.real)

    def conj(self) -> Self:
        """The complex conjugates."""
        return type(self)(self.pattern, self.values.conj())
