"""Modules that hold parameters: as a list or a dict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    return f"{kind} containing: [{value.dtype} of size {size}]"


class ParameterList(Module):
    """Parameters in a list; plain tensors become parameters.

    >>> import pullback as torch
    >>> len(list(torch.nn.ParameterList([torch.zeros(1), torch.ones(2)]).parameters()))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index: Any) -> str:
        number = operator.index(index)
        if not -self._size <= number < self._size:
            raise IndexError(f"index {number} is out of range for {self._size} parameters")
        return str(number % self._size)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            chosen = range(self._size)[index]
            return type(self)([getattr(self, str(number)) for number in chosen])
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(number)) for number in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add one at the end."""
        name = str(self._size)
        self._size += 1
        setattr(self, name, _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"extend(): an iterable is needed, got {type(values).__name__}.")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """What is in it."""
        return "\n".join(f"  ({number}): {_described(value)}" for number, value in enumerate(self))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class ParameterDict(Module):
    """Parameters by name; plain tensors become parameters.

    >>> import pullback as torch
    >>> parameters = torch.nn.ParameterDict({"scale": torch.ones(1)})
    >>> parameters["scale"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _check(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: a name must be a str, got {type(key).__name__}.")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._check(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._check(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._check(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        copied = self.copy()
        copied.update(other)
        return copied

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter, which is `default` from now on if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with one value for all names."""
        return ParameterDict((key, default) for key in keys)

    def clear(self) -> None:
        """Take all out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take one out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last one out."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and parameters."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add parameters from a mapping, or from pairs."""
        listed = list(pairs(parameters, "ParameterDict.update()"))
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            listed.sort(key=operator.itemgetter(0))  # as in torch, whose first dicts had no order
        for name, value in listed:
            self[name] = value

    def extra_repr(self) -> str:
        """What is in it."""
        return "\n".join(f"  ({key}): {_described(value)}" for key, value in self.items())


def pairs(given: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Names and values of a mapping, of a container by name, or of pairs."""
    if isinstance(given, Mapping) or (isinstance(given, Module) and hasattr(given, "items")):
        yield from given.items()
        return
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} needs a mapping or pairs, got {type(given).__name__}.")
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what}: element {number} is no pair, but {type(pair).__name__}.")
        listed = list(pair)
        if len(listed) != 2:
            raise ValueError(f"{what}: element {number} has {len(listed)} parts; 2 are needed.")
        yield listed[0], listed[1]
