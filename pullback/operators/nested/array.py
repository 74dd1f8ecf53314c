"""A form with values: components of several sizes; `arrays/patterned.py` has what kinds share."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.explain import layout_errors as errors
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
        for one in inputs:
            if type(one) is NestedArray and one.shape != self.shape:
                raise ValueError(f"shapes {self.shape} and {one.shape} differ")
            if type(one) is not NestedArray and numpy.ndim(one):
                raise errors.not_taken_nested(ufunc.__name__, self.layout)
        inputs = _of_one_form(inputs)
        form = next(one.pattern for one in inputs if type(one) is NestedArray)
        values = [one.values if type(one) is NestedArray else one for one in inputs]
        if out is None:
            return NestedArray(form, ufunc(*values))
        (target,) = out
        if _at_same_places(target.pattern, form):
            ufunc(*values, out=target.values)
        else:
            target.become(NestedArray(form, ufunc(*values)))
        return target

    def components(self) -> list[Array]:
        """The components, as views of the values."""
        return self.pattern.components(self.values)

    def equals(self, other: Any) -> bool:
        """Whether another has components of the same shapes and elements."""
        if type(other) is not NestedArray or self.layout is not other.layout:
            return False
        sides = self.components(), other.components()
        return len(self) == len(other) and all(map(numpy.array_equal, *sides))

    def packed(self) -> NestedArray:
        """The same components one after the other; itself where they are."""
        form = self.pattern
        if not isinstance(form, Shapes) or form.strides is None:
            return self
        flat = [one.reshape(-1) for one in self.components()]
        return NestedArray(form.packed, numpy.concatenate(flat))

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
        if not _at_same_places(self.pattern, other.pattern):
            for mine, theirs in zip(self.components(), other.components(), strict=True):
                mine[...] = theirs
        elif self.values.shape == other.values.shape and self.values.flags.writeable:
            self.values[...] = other.values
        else:
            self.pattern, self.values = other.pattern, other.values


def _at_same_places(one: Jagged | Shapes, other: Jagged | Shapes) -> bool:
    """Whether values of strided forms stand for the same components as they are."""
    if not (isinstance(one, Shapes) and isinstance(other, Shapes)):
        return True
    return one.is_same(other)


def _of_one_form(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands with components at the same places: packed, where those of views differ."""
    nested = [one for one in inputs if type(one) is NestedArray]
    if all(_at_same_places(nested[0].pattern, one.pattern) for one in nested):
        return inputs
    return tuple(one.packed() if type(one) is NestedArray else one for one in inputs)


def is_nested(value: Any) -> bool:
    """Whether an array or a tensor is nested, in either layout."""
    return type(value) is NestedArray or type(getattr(value, "_raw", None)) is NestedArray


def form_of(value: Any) -> Any:
    """The form of a nested array or tensor."""
    return getattr(value, "_array", value).pattern


_NAMES = "add subtract multiply divide true_divide negative positive conjugate"
_UFUNCS = frozenset(_NAMES.split())
