"""A form with values: components of several sizes; `arrays/patterned.py` has what kinds share."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.explain import kind_errors as errors
from pullback.operators.arrays.patterned import Patterned
from pullback.operators.nested.form import Jagged, Shapes

__all__ = ["NestedArray", "form_of", "is_nested"]


class NestedArray(Patterned):
    """Values, and how they belong to components."""

    __slots__ = ()
    pattern: Jagged | Shapes

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the dimensions, a symbol where they differ."""
        return self.pattern.shape(self.values)

    @property
    def ndim(self) -> int:
        """Number of dimensions, the batch among them."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements components have together."""
        return self.pattern.elements(self.values)

    def __len__(self) -> int:
        return self.pattern.count

    def __getattr__(self, name: str) -> Any:
        raise errors.has_no(name, "torch.jagged (nested)", "to_padded_tensor()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "A nested tensor cannot become an array; take its values(), or to_padded_tensor()."
        )

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise errors.not_taken_nested(func.__name__, self.layout)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        if ufunc.__name__ not in _UFUNCS or method != "__call__" or kwargs:
            raise errors.not_taken_nested(ufunc.__name__, self.layout)
        values = [one.values if type(one) is NestedArray else one for one in inputs]
        for one in inputs:
            if type(one) is NestedArray and one.shape != self.shape:
                raise ValueError(f"shapes {self.shape} and {one.shape} differ")
            if type(one) is not NestedArray and numpy.ndim(one):
                raise errors.not_taken_nested(ufunc.__name__, self.layout)
        if out is not None:
            ufunc(*values, out=out[0].values)
            return out[0]
        return NestedArray(self.pattern, ufunc(*values))

    def reshape(self, shape: Any) -> NestedArray:
        """Itself: other shapes are refused."""
        if tuple(shape) != self.shape:
            raise errors.not_taken_nested("reshape", self.layout)
        return self

    def zeros(self) -> NestedArray:
        """Zeros of the same form."""
        return NestedArray(self.pattern, numpy.zeros_like(self.values))

    def become(self, other: NestedArray) -> None:
        """Take over another's values: what a write in place does. Its memory stays."""
        if self.values.shape == other.values.shape and self.values.flags.writeable:
            self.values[...] = other.values
        else:
            self.pattern, self.values = other.pattern, other.values


def is_nested(value: Any) -> bool:
    """Whether an array or a tensor is nested, in either layout."""
    return type(value) is NestedArray or type(getattr(value, "_raw", None)) is NestedArray


def form_of(value: Any) -> Any:
    """The form of a nested array or tensor."""
    return getattr(value, "_array", value).pattern


_NAMES = "add subtract multiply divide true_divide negative positive conjugate"
_UFUNCS = frozenset(_NAMES.split())
