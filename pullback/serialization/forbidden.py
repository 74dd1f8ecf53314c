"""What no file may call, whatever the user allows: functions that run programs or code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

from pullback.core.home import home_of

__all__ = ["runs_programs"]

# By the first part of their module's name. Files choose the arguments, so one of these in a file is
# a command that its author runs on the reader's machine.
_MODULES = frozenset(
    (
        *("os", "posix", "nt", "sys", "subprocess", "_posixsubprocess", "_winapi", "pty"),
        *("importlib", "_frozen_importlib", "_frozen_importlib_external", "_imp", "zipimport"),
        *("runpy", "code", "codeop", "pdb", "bdb", "timeit", "trace", "profile", "cProfile"),
        *("pickle", "_pickle", "marshal", "shelve", "ctypes", "_ctypes", "webbrowser"),
    )
)
_BUILTINS = frozenset(
    (
        *("eval", "exec", "compile", "__import__", "open", "input", "breakpoint", "exit", "quit"),
        *("globals", "locals", "vars", "setattr", "delattr", "function", "code"),
    )
)


def runs_programs(target: Callable[..., Any]) -> bool:
    """Whether a function or class is one that runs programs or code.

    >>> import os
    >>> runs_programs(os.system), runs_programs(eval), runs_programs(print)
    (True, True, False)
    """
    while isinstance(target, functools.partial):
        target = target.func
    module = home_of(target)
    if not module and isinstance(target, BuiltinMethodType):
        module = home_of(type(target.__self__))
    return is_forbidden(module, str(getattr(target, "__qualname__", "")))


def is_forbidden(module: str, name: str) -> bool:
    """Whether a name is that of a function or class that runs programs or code."""
    if module in ("builtins", "__builtin__", "io", "_io"):
        return name.partition(".")[0] in _BUILTINS
    return module.partition(".")[0] in _MODULES
