"""Modules that hold modules: as a chain, a list or a dict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pullback.nn.base.old_names import warn_of_old
from pullback.nn.layers.parameters import ParameterDict, ParameterList, pairs
from pullback.nn.modules.module import Module

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

C = TypeVar("C", bound="_Indexed")


class _Indexed(Module):
    """Modules by number, as a list."""

    def _place(self, index: Any) -> str:
        number = operator.index(index)
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"index {number} is out of range for {count} modules")
        return list(self._modules)[number]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._place(index)]

    def _part(self, items: list[tuple[str, Any]]) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._place(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._place(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self))

    def _renumber(self, modules: Iterable[Any]) -> None:
        listed = {str(number): module for number, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(listed)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self: C, module: Module) -> C:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self: C, index: int, module: Module) -> C:
        """Add a module before one that is there."""
        if not isinstance(module, Module):
            raise AssertionError(f"insert(): a Module is needed, got {type(module).__name__}.")
        listed = list(self)
        listed.insert(index, module)
        self._renumber(listed)
        return self

    def extend(self: C, modules: Iterable[Module]) -> C:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"extend(): an iterable is needed, got {type(modules).__name__}.")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module out."""
        value = self[key]
        del self[key]
        return value


class Container(Module):
    """Modules by keyword: an old name; Module does it all.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> list(torch.nn.Container(first=torch.nn.ReLU()).named_children())
    [('first', ReLU())]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn_of_old("nn.Container", "nn.Module")
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(_Indexed):
    """A chain of modules: each receives the output of the previous one.

    >>> import pullback as torch
    >>> torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def _part(self, items: list[tuple[str, Any]]) -> Sequential:
        return type(self)(OrderedDict(items))

    def forward(self, input: Any) -> Any:
        """Apply all of them."""
        for module in self:
            input = module(input)
        return input

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before one that is there, or at the end."""
        if isinstance(module, Module) and not -len(self) <= index <= len(self):
            raise IndexError(
                f"insert(): index {index} is out of range for {len(self)} modules; use "
                f"{-len(self)} to {len(self)}."
            )
        return super().insert(index, module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"A Sequential can be joined to another, not to {type(other).__name__}."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"A Sequential can be joined to another, not to {type(other).__name__}."
            )
        return self.extend(list(other))

    def __imul__(self, other: int) -> Sequential:
        repeated = list(self * other)
        return self.extend(repeated[len(self) :])

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"A Sequential is repeated by an int, not {type(other).__name__}.")
        if other <= 0:
            raise ValueError(f"A Sequential is repeated at least once, not {other} times.")
        return Sequential(*list(self) * other)

    __rmul__ = __mul__


class ModuleList(_Indexed):
    """A list of modules, all of them registered; write your own `forward` around it.

    >>> import pullback as torch
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self, items: list[tuple[str, Any]]) -> ModuleList:
        return type(self)([module for _, module in items])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs: list[tuple[int, int, str]] = []  # equal neighbours are shown once
        for number, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], number, text)
            else:
                runs.append((number, number, text))
        lines = []
        for first, last, text in runs:
            shown = text.replace("\n", "\n  ")
            count = last - first + 1
            lines.append(
                f"({first}): {shown}" if count == 1 else f"({first}-{last}): {count} x {shown}"
            )
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name.

    >>> import pullback as torch
    >>> parts = torch.nn.ModuleDict({"a": torch.nn.ReLU()})
    >>> list(parts.keys())
    ['a']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take one out."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping, or from pairs."""
        for name, module in pairs(modules, "ModuleDict.update()"):
            self[name] = module
