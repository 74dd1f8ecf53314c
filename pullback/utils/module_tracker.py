"""ModuleTracker: which modules are running now, in the forward pass and in the backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pullback.autograd.graph import register_multi_grad_hook
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.engine.task import task_id
from pullback.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]

_GLOBAL = "Global"


class ModuleTracker:
    """A context in which `parents` names the modules that are running; "Global" is always there.

    A module's name is the class of the outermost module and the way from there, as
    "Sequential.0". In the backward pass a module runs from the gradient of its outputs to the
    gradients of its inputs; one whose inputs need none runs to the end of the pass.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.module_tracker import ModuleTracker
        >>> tracker = ModuleTracker()
        >>> with tracker:
        ...     sorted(tracker.parents)
        ['Global']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {_GLOBAL}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running in this thread."""
        return task_id() != -1

    def __enter__(self) -> ModuleTracker:
        module: Any = import_module("pullback.nn.modules.module")  # a layer above this one
        if hasattr(module, "register_module_forward_pre_hook"):
            self._handles = [
                module.register_module_forward_pre_hook(self._before),
                module.register_module_forward_hook(self._after, always_call=True),
            ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.parents = {_GLOBAL}

    def _name(self, module: Any) -> str:
        if module not in self._names:
            self._name_all(module, type(module).__name__)
        return self._names[module]

    def _name_all(self, module: Any, name: str) -> None:
        for path, inner in module.named_modules():
            self._names.setdefault(inner, f"{name}.{path}" if path else name)

    def _before(self, module: Any, args: Any) -> None:
        name = self._name(module)
        if not self.is_bw:
            self.parents.add(name)
        inputs = _with_gradients(args)
        if inputs:
            register_multi_grad_hook(inputs, self._call(self.parents_without, name))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        name = self._name(module)
        if not self.is_bw:
            self.parents.discard(name)
        for tensor in _with_gradients(output):
            tensor.register_hook(self._call(self.parents_with, name))

    def parents_with(self, name: str) -> None:
        """A module's backward begins."""
        self.parents.add(name)

    def parents_without(self, name: str) -> None:
        """A module's backward has ended."""
        self.parents.discard(name)

    def _call(self, change: Callable[[str], None], name: str) -> Callable[[Any], None]:
        def hook(_: Any) -> None:
            if self._handles:  # graphs outlive the block that they were made in
                change(name)

        return hook


def _with_gradients(value: Any) -> list[Any]:
    return [one for one in tree_leaves(value) if isinstance(one, Tensor) and one.requires_grad]


__dir__ = _only_public(globals())
