"""`torch.distributed.fsdp.wrap`: which parts of a model are sharded by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.container import ModuleDict, ModuleList
from pullback.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "chosen",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


class ModuleWrapPolicy:
    """Modules of these classes.

    >>> import pullback as torch
    >>> from pullback.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> policy = ModuleWrapPolicy({torch.nn.Linear})
    >>> policy(torch.nn.Linear(1, 1), recurse=False)
    True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to look inside, and whether this one is meant."""
        return recurse or isinstance(module, self._classes)


class CustomPolicy:
    """Modules for which a function says so: True, or a dict of options of their own."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._meant = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to look inside, and whether this one is meant."""
        return recurse or bool(self._meant(module))


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules for which a function says so."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Modules of these classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:
    """Modules with so many elements that no part of them has taken."""
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(force_leaf_modules or ()))
    return large and not isinstance(module, tuple(exclude_wrap_modules or (ModuleList, ModuleDict)))


def chosen(module: Module, policy: Any, ignored: set[Module]) -> list[Module]:
    """The parts of a module that a policy means, the innermost first; not the module itself."""
    found: list[Module] = []
    by_classes = isinstance(policy, (ModuleWrapPolicy, CustomPolicy))
    meant = partial(policy, nonwrapped_numel=0) if by_classes else policy

    def walk(one: Module) -> int:
        """How many elements its chosen parts have taken."""
        if one in ignored:
            return 0
        size = sum(p.numel() for p in one.parameters())
        taken = 0
        if by_classes or meant(module=one, recurse=True, nonwrapped_numel=size):
            taken = sum(walk(child) for child in one.children())
        said = (
            meant(one, False)
            if by_classes
            else meant(module=one, recurse=False, nonwrapped_numel=size - taken)
        )
        if said and one is not module and one not in found:
            found.append(one)
            return size
        return taken

    walk(module)
    return found


_options: list[dict[str, Any]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap` wraps."""
    _options.append({"wrapper_cls": wrapper_cls, **wrapper_kwargs})
    try:
        yield
    finally:
        _options.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped inside `enable_wrap`, or as it is.

    >>> import pullback as torch
    >>> from pullback.distributed.fsdp.wrap import wrap
    >>> wrap(torch.nn.Linear(1, 1))
    Linear(in_features=1, out_features=1, bias=True)
    """
    if not _options:
        return module
    options = {**_options[-1], **wrap_overrides}
    made: Module = options.pop("wrapper_cls")(module, **options)
    return made


__dir__ = _only_public(globals())
