"""What marks functions for TorchScript, under torch's private names; here marks change nothing."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Final",
    "FunctionModifiers",
    "boolean_dispatch",
    "export",
    "get_torchscript_modifier",
    "ignore",
    "is_ignored_fn",
    "is_scripting",
    "unused",
]

F = TypeVar("F", bound=Callable[..., Any])

List, Dict, Tuple = list, dict, tuple
Optional, Union = typing.Optional, typing.Union


class FunctionModifiers:
    """What may be said of a function."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


class _BroadcastingList:
    """`BroadcastingList2[int]` is a type: a number, or a list of that many."""

    def __getitem__(self, kind: Any) -> Any:
        return list[kind]


BroadcastingListCls = _BroadcastingList
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


def is_scripting() -> bool:
    """Whether the program runs compiled: never, it runs as Python.

    >>> import pullback as torch
    >>> torch.jit.is_scripting()
    False
    """
    return False


def _marked(fn: F, mark: str) -> F:
    fn._torchscript_modifier = mark  # type: ignore[attr-defined]  # where torch keeps it
    return fn


def export(fn: F) -> F:
    """Mark a method to be compiled even if forward does not call it.

    >>> import pullback as torch
    >>> class Net(torch.nn.Module):
    ...     @torch.jit.export
    ...     def half(self, x):
    ...         return x / 2
    >>> torch.jit.script(Net()).half(torch.ones(2))
    tensor([0.5000, 0.5000])
    """
    return _marked(fn, FunctionModifiers.EXPORT)


def unused(fn: F) -> F:
    """Mark a method as not to be compiled."""
    if isinstance(fn, property):
        if fn.fget is not None:
            _marked(fn.fget, FunctionModifiers.UNUSED)
        return fn
    return _marked(fn, FunctionModifiers.UNUSED)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method to stay Python; with or without parentheses."""
    if callable(drop):
        return _marked(drop, FunctionModifiers.IGNORE)
    mark = FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE
    return lambda fn: _marked(fn, mark)


def _drop(fn: F) -> F:
    return _marked(fn, FunctionModifiers._DROP)


def _copy_to_script_wrapper(fn: F) -> F:
    return _marked(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def get_torchscript_modifier(fn: Any) -> str | None:
    """What a function was marked as; None for what is no function."""
    if not callable(fn):
        return None
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def is_ignored_fn(fn: Any) -> bool:
    """Whether a function was marked not to be compiled."""
    ignored = (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)
    return get_torchscript_modifier(fn) in ignored


def should_drop(fn: Any) -> bool:
    """Whether calls of a function are errors in a compiled program."""
    return get_torchscript_modifier(fn) == FunctionModifiers.UNUSED


def copy_torchscript_modifier(orig: Any, new: Any) -> None:
    """Mark `new` as `orig` is."""
    mark = get_torchscript_modifier(orig)
    if mark is not None:
        _marked(new, mark)


def module_has_exports(mod: Any) -> bool:
    """Whether a method of a module is marked by `export`."""
    return any(
        get_torchscript_modifier(value) == FunctionModifiers.EXPORT
        for _, value in inspect.getmembers(type(mod), callable)
    )


def _overload(func: F) -> F:
    return func


def _overload_method(func: F) -> F:
    return func


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two others, by a flag among its arguments."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    chosen.__module__, chosen.__name__ = module_name, func_name
    return chosen


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    return f"{obj.__module__}.{obj.__qualname__}"


def is_list(ann: Any) -> bool:
    """Whether an annotation is that of a list."""
    return typing.get_origin(ann) is list or ann is list


def is_dict(ann: Any) -> bool:
    """Whether an annotation is that of a dict."""
    return typing.get_origin(ann) is dict or ann is dict


def is_tuple(ann: Any) -> bool:
    """Whether an annotation is that of a tuple."""
    return typing.get_origin(ann) is tuple or ann is tuple


def is_optional(ann: Any) -> bool:
    """Whether an annotation allows None beside one other type."""
    return type(None) in typing.get_args(ann)
