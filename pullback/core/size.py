"""Size: the shape of a tensor, a tuple of ints that can count its elements."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from operator import index
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints with `numel`, whose slices, sums and multiples are Sizes.

    Equal to the plain tuple of the same numbers, and hashed like it. Whatever has `__index__`
    becomes an int; TypeError for anything else.

    Example:
        >>> import pullback as torch
        >>> size = torch.Size([2, 3])
        >>> size, size.numel(), size[1:], size + (4,)
        (torch.Size([2, 3]), 6, torch.Size([3]), torch.Size([2, 3, 4]))
        >>> size == (2, 3)
        True
    """

    __slots__ = ()

    def __new__(cls, iterable: Iterable[SupportsIndex] = (), /) -> Size:
        """Check every element; `size_of` does not, for what is known to be a shape."""
        try:
            elements = tuple(iterable)
        except TypeError:
            if isinstance(iterable, Iterable):
                raise
            raise TypeError(
                f"Size needs an iterable of ints, got {iterable!r}; write Size([{iterable!r}])"
            ) from None
        try:
            return super().__new__(cls, map(index, elements))
        except TypeError:
            raise _not_an_int(elements) from None

    def numel(self) -> int:
        """The number of elements in a tensor of this shape; 1 for no dimensions.

        Example:
            >>> import pullback as torch
            >>> torch.Size([2, 3, 4]).numel(), torch.Size([]).numel()
            (24, 1)
        """
        return prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return size_of(found) if type(found) is tuple else found

    # A Size of what may not be ints: tuple allows any elements, so its signature is wider.
    def __add__(self, other: tuple[SupportsIndex, ...]) -> Size:  # type: ignore[override]  # narrower than tuple
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple(self) + other)

    def __radd__(self, other: tuple[SupportsIndex, ...]) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(other + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return size_of(tuple.__mul__(self, times))

    __rmul__ = __mul__


# For hot code: a Size of a tuple that is known to hold ints, such as an array's shape; unchecked.
size_of: partial[Size] = partial(tuple.__new__, Size)


class _Sizes(dict[tuple[int, ...], Size]):
    """Shape of an array -> the Size: a look-up takes a third of making one."""

    __slots__ = ()

    def __missing__(self, shape: tuple[int, ...]) -> Size:
        if len(self) >= _MOST_SIZES:
            self.clear()
        made = self[shape] = size_of(shape)
        return made


_MOST_SIZES = 1000
SIZES = _Sizes()


def _not_an_int(elements: tuple[object, ...]) -> TypeError:
    """The error for the first element that is not an int."""
    for position, element in enumerate(elements):
        try:
            index(element)  # type: ignore[arg-type]  # whether it can is the question
        except TypeError:
            return TypeError(
                f"Size needs ints, got {element!r} of type {type(element).__name__} at position "
                f"{position}"
            )
    return TypeError(f"Size needs ints, got {elements!r}")
