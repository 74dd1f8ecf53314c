"""Weak references to tensors, and dicts whose keys are objects and not their values.

A tensor cannot be a key of an ordinary weak dict, since `==` of tensors compares their elements.
Here objects count as equal only if they are the same one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor

__all__ = [
    *("TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"),
    "WeakTensorRefKey",
]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]  # of anything
    """A weak reference that is hashed and compared by identity, also when its object is gone.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.weak import WeakIdRef
        >>> x = torch.ones(2)
        >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(x.clone())
        (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]  # typeshed has it in __new__
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is None or theirs is None:
            return self is other
        return mine is theirs

    def __ne__(self, other: object) -> bool:  # a weak reference has one, which compares values
        return not self == other


class _WeakHashRef(weakref.ref):  # type: ignore[type-arg]  # of anything
    """A weak reference hashed as its object is, and compared by `==`."""

    __slots__ = ("_hash",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]  # typeshed has it in __new__
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is None or theirs is None:
            return self is other
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other


WeakTensorRefKey = WeakIdRef


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose entries go with their keys; keys are compared by identity.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.weak import WeakIdKeyDictionary
        >>> names = WeakIdKeyDictionary()
        >>> x = torch.ones(2)
        >>> names[x] = "weight"
        >>> names[x], len(names)
        ('weight', 1)
        >>> del x
        >>> len(names)
        0
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: dict[Any, Any] = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def forget(key: Any) -> None:
            mapping = own()
            if mapping is not None:
                mapping.data.pop(key, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            place = self.ref_type(key)
        except TypeError:  # no weak reference to it, so it cannot be a key
            return False
        return place in self.data

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):  # a copy: entries may go while one looks
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys; some may be dead by now."""
        return list(self.data)

    def popitem(self) -> tuple[Any, Any]:
        """Take out some entry."""
        while True:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value

    def copy(self) -> WeakIdKeyDictionary:
        """Another dict with the same entries."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        from copy import deepcopy

        return type(self)({key: deepcopy(value, memo) for key, value in self.items()})

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        result = type(self)(other)
        result.update(self)
        return result

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]  # as every dict


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    >>> import pullback as torch
    >>> from pullback.utils.weak import TensorWeakRef
    >>> x = torch.ones(2)
    >>> weak = TensorWeakRef(x)
    >>> weak() is x
    True
    >>> del x
    >>> weak() is None
    True
    """

    ref: WeakRef[Tensor]

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"TensorWeakRef: expected a Tensor, got {type(tensor).__name__}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


__dir__ = _only_public(globals())
