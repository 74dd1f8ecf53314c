"""Tensors and modules inside a module by their dotted names: looked at, exchanged and taken out.

Libraries that make modules functional import these by torch's private name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn.modules.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()  # where no tensor was; put in a tensor's place, it takes that out


def _check(module: Any, name: str, tensor: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{type(module).__name__} is no Module.")
    if not (tensor is _MISSING or tensor is None or isinstance(tensor, Tensor)):
        raise TypeError(f"{name!r} must become a Tensor, got {type(tensor).__name__}.")
    if not name or "." in name:
        raise KeyError(f"{name!r} names no tensor of a module itself: it is empty, or has a dot.")


def _put(held: dict[str, Any], name: str, value: Any) -> None:
    if value is _MISSING:
        held.pop(name, None)
    else:
        held[name] = value


def _held(module: Module, name: str) -> dict[str, Any]:
    """Where a module keeps what it has by a name: among parameters, buffers or attributes."""
    for held in (module._parameters, module._buffers):
        if name in held:
            return held
    return module.__dict__


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor in the place of another, and give that one back."""
    _check(module, name, tensor)
    held = _held(module, name)
    if held is not module.__dict__:
        before = held[name]
        _put(held, name, tensor)
        return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no tensor {name!r}.")
    if before is not _MISSING and not isinstance(before, Tensor):
        raise TypeError(f"{name!r} is a {type(before).__name__}, no Tensor.")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def set_tensor(module: Any, name: str, tensor: Tensor) -> None:
    """Put a tensor where the module has this name, or make it an attribute."""
    _check(module, name, tensor)
    held = _held(module, name)
    if held is module.__dict__:
        setattr(module, name, tensor)
    else:
        held[name] = tensor


def swap_submodule(module: Any, name: str, submodule: Module) -> Module:
    """Put a module in the place of another, and give that one back."""
    for one in (module, submodule):
        if not isinstance(one, Module):
            raise TypeError(f"{type(one).__name__} is no Module.")
    if name not in module._modules:
        raise KeyError(f"{type(module).__name__} has no module {name!r}.")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name!r} is a {type(before).__name__}, no Module.")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """The members of a module by their dotted names.

    >>> import pullback as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    >>> inside = NamedMemberAccessor(net)
    >>> before = inside.swap_tensor("0.bias", torch.ones(1))
    >>> net[0].bias, before is not net[0].bias
    (tensor([1.]), True)
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def _split(self, path: str) -> tuple[Module, str]:
        owner, _, name = path.rpartition(".")
        return self.get_submodule(owner), name

    def get_submodule(self, name: str) -> Module:
        """The module of this name; of an empty one the whole."""
        found: Module = self.module.get_submodule(name)
        return found

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module in the place of another, and give that one back."""
        return swap_submodule(*self._split(path), value)

    def get_tensor(self, name: str) -> Tensor:
        """The tensor of this name."""
        owner, own = self._split(name)
        found = getattr(owner, own)
        if not isinstance(found, Tensor):
            raise TypeError(f"{name!r} is a {type(found).__name__}, no Tensor.")
        return found

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor there."""
        set_tensor(*self._split(name), value)

    def del_tensor(self, name: str) -> None:
        """Take the tensor of this name out."""
        swap_tensor(*self._split(name), _MISSING)

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Any:
        """Put a tensor there, and give back what was there."""
        return swap_tensor(*self._split(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """The tensors of these names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put a tensor at each name."""
        for name, value in _paired(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """The same of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take the tensors of these names out."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Tensor], allow_missing: bool = False
    ) -> list[Any]:
        """Put a tensor at each name, and give back what was there."""
        return [self.swap_tensor(*pair, allow_missing) for pair in _paired(names, values)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """The same of a dict, and the names where nothing was; all or nothing is exchanged."""
        before: dict[str, Any] = {}
        absent: list[str] = []
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
            absent = [name for name, one in before.items() if one is _MISSING]
        finally:
            done = len(before) == len(named_tensors) and (allow_missing or not absent)
            for name, one in () if done else before.items():
                self.swap_tensor(name, one, allow_missing=True)
        if not done:
            raise RuntimeError(f"The module has no tensors {', '.join(map(repr, absent))}.")
        return before, absent

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names of tensors that are not among `keys`, and keys that are none, both sorted."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The parameters, each with its name."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers, each with its name."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The modules, each with its name."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _paired(names: Iterable[str], values: Iterable[Tensor]) -> Iterator[tuple[str, Tensor]]:
    names, values = list(names), list(values)
    assert len(names) == len(values), "as many tensors as names are needed"
    return zip(names, values, strict=True)
