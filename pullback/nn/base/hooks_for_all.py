"""Hooks that see every module: their calls, and what is registered on them.

They are for debugging and profiling: they come before a module's own. All calls of modules ask
`IN_USE` once; it is empty unless somebody registered one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pullback.core.hooks import RemovableHandle

Table = OrderedDict[int, Any]
Hook = Callable[..., Any]

IN_USE: Table = OrderedDict()  # handle ids of all hooks that calls must look for

forward_pre_hooks: Table = OrderedDict()
forward_hooks: Table = OrderedDict()
forward_hooks_with_kwargs: Table = OrderedDict()
forward_hooks_always_called: Table = OrderedDict()
backward_pre_hooks: Table = OrderedDict()
backward_hooks: Table = OrderedDict()

parameter_registration_hooks: Table = OrderedDict()
buffer_registration_hooks: Table = OrderedDict()
module_registration_hooks: Table = OrderedDict()


class _Kind:
    """Which kind of backward hooks there are: full ones, those of the old kind, or none."""

    full: bool | None = None


backward_kind = _Kind()


def _entered(table: Table, hook: Hook, *more: Table) -> RemovableHandle:
    handle = RemovableHandle(table, extra_dict=[IN_USE, *more])
    table[handle.id] = hook
    IN_USE[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module.

    >>> import pullback as torch
    >>> from pullback.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     _ = torch.nn.ReLU()(torch.ones(1))
    ReLU()
    """
    return _entered(forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module.

    >>> import pullback as torch
    >>> from pullback.nn.modules.module import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, output: print(module)):
    ...     _ = torch.nn.ReLU()(torch.ones(2))
    ReLU()
    """
    handle = _entered(forward_hooks, hook, forward_hooks_with_kwargs, forward_hooks_always_called)
    if with_kwargs:
        forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        forward_hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module.

    >>> import pullback as torch
    >>> from pullback.nn.modules.module import register_module_full_backward_pre_hook
    >>> with register_module_full_backward_pre_hook(lambda module, grads: print(grads)):
    ...     torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum().backward()
    (tensor([[1.]]),)
    """
    return _entered(backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of every module.

    >>> import pullback as torch
    >>> from pullback.nn.modules.module import register_module_full_backward_hook
    >>> with register_module_full_backward_hook(lambda module, before, after: print(after)):
    ...     torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum().backward()
    (tensor([[1.]]),)
    """
    _choose(full=True)
    return _entered(backward_hooks, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """The old kind, which sees the last node of each forward only; use the full one."""
    _choose(full=False)
    return _entered(backward_hooks, hook)


def _choose(*, full: bool) -> None:
    if backward_kind.full is (not full) and backward_hooks:
        raise RuntimeError(
            "Full backward hooks and those of the old kind cannot both be registered for all "
            "modules; use register_module_full_backward_hook for all of them."
        )
    backward_kind.full = full


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when one is registered; it may return another.

    >>> import pullback as torch
    >>> from pullback.nn.modules import module
    >>> def shown(owner, name, parameter):
    ...     print(name)
    >>> with module.register_module_parameter_registration_hook(shown):
    ...     _ = torch.nn.Linear(1, 1)
    weight
    bias
    """
    return RemovableHandle.add(parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when one is registered; it may return another.

    >>> import pullback as torch
    >>> from pullback.nn.modules import module
    >>> with module.register_module_buffer_registration_hook(lambda owner, name, one: print(name)):
    ...     torch.nn.Module().register_buffer("mean", torch.zeros(2))
    mean
    """
    return RemovableHandle.add(buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when one is registered; it may return another.

    >>> import pullback as torch
    >>> from pullback.nn.modules import module
    >>> def shown(owner, name, child):
    ...     print(name, child)
    >>> with module.register_module_module_registration_hook(shown):
    ...     _ = torch.nn.Sequential(torch.nn.ReLU())
    0 ReLU()
    """
    return RemovableHandle.add(module_registration_hooks, hook)


def asked(table: Table, module: Any, name: str, value: Any) -> Any:
    """The value, or what hooks on its registration put in its place."""
    for hook in list(table.values()):
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value
