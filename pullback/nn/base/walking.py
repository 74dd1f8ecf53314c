"""Walking a tree of modules: its parameters, buffers and modules, with their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pullback.core.tensor import Tensor
from pullback.nn.parameter import Parameter

if TYPE_CHECKING:
    from pullback.nn.modules.module import Module

T = TypeVar("T")


class Walking:
    """The part of `Module` that finds what is below it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  # of Modules, which are made of this class

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Names and members of this module and those below; `get_members_fn` gives one's own."""
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once; with `recurse`, those of submodules too."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names, as `layer.0.weight`."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once; with `recurse` also those of the modules below."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below, each once unless told otherwise."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below, with their names; this one's is the prefix."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, path, remove_duplicate)

    def get_submodule(self, target: str) -> Any:
        """The module at a path such as `layer.0`; "" is this one."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`.")
            module = getattr(module, name)
            if not hasattr(module, "_modules"):
                raise AttributeError(f"`{name}` of the path `{target}` is not a Module.")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a path; with `strict`, only where one is already.

        >>> import pullback as torch
        >>> model = torch.nn.Sequential(torch.nn.ReLU())
        >>> model.set_submodule("0", torch.nn.Tanh())
        >>> model
        Sequential(
          (0): Tanh()
        )
        """
        if not target:
            raise ValueError("set_submodule() needs the path of a submodule, got an empty one.")
        if not hasattr(module, "_modules"):
            raise ValueError(f"set_submodule(): a Module is needed, got {type(module).__name__}.")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`.")
        if hasattr(parent, name) and not hasattr(getattr(parent, name), "_modules"):
            raise AttributeError(f"`{name}` of the path `{target}` is not a Module.")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as `layer.0.weight`."""
        found = self._at(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target}` is not a Parameter.")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as `norm.running_mean`."""
        path, _, name = target.rpartition(".")
        found: Tensor = self._at(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{target}` is not a buffer.")
        return found

    def _at(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`.")
        return getattr(module, name)
