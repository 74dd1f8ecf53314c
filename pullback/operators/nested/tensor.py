"""The class of nested tensors: a tensor whose array is a `NestedArray`, of either layout.

It takes the calls of public functions above autograd (`__torch_function__`) and answers them from
the table of `calls.py`; fast paths do not get its array. So dense tensors pay nothing for it.
"""

from __future__ import annotations

from typing import Any

from pullback.core import overriding
from pullback.core.layout import jagged, layout, nested_strided, strided
from pullback.core.tensor import Tensor
from pullback.operators.nested.array import NestedArray

__all__ = ["NestedTensor"]

_slot: Any = Tensor.__dict__["_array"]


class NestedTensor(Tensor):
    """A batch of tensors that differ in size."""

    __slots__ = ()

    _asks_for_attributes = False

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What `func` is of nested tensors; NotImplementedError where it is nothing."""
        from pullback.operators.nested.calls import answer

        return answer(func, args, kwargs or {})

    @property
    def _layout(self) -> layout:
        kind: layout = _slot.__get__(self).pattern.layout
        return kind

    @property
    def layout(self) -> layout:
        """How components are stored: torch.jagged or torch.strided."""
        return strided if self._layout is nested_strided else jagged

    @property
    def is_nested(self) -> bool:
        """True."""
        return True


def _bail_out(self: NestedTensor) -> NestedArray:
    """What fast paths read: they leave, and the interpreter asks the class."""
    raise overriding.Overridden


NestedTensor._plain = property(_bail_out)  # see core/overriding.py
NestedArray.tensor_class = NestedTensor
