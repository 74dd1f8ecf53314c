"""Several dimensions into one, and back."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn.base.fields import Layer

__all__ = ["Flatten", "Unflatten"]


class Flatten(Layer):
    """Flatten several dimensions into one, by default all but the first.

    >>> import pullback as torch
    >>> torch.nn.Flatten()(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Layer):
    """Unflatten one dimension into several.

    >>> import pullback as torch
    >>> torch.nn.Unflatten(1, (2, 3))(torch.zeros(4, 6)).shape
    torch.Size([4, 2, 3])
    """

    dim: int
    unflattened_size: Any

    def __post_init__(self) -> None:
        """Sizes are ints, in a tuple or list."""
        sizes = self.unflattened_size
        if isinstance(self.dim, str) or not isinstance(sizes, tuple | list):
            raise TypeError(
                f"Unflatten: a number of a dimension and a tuple of sizes are needed, got "
                f"{self.dim!r} and {sizes!r}."
            )
        if not all(isinstance(size, int) for size in sizes):
            raise TypeError(f"Unflatten: all sizes must be ints, got {sizes}.")

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return input.unflatten(self.dim, self.unflattened_size)
