"""Modes that write down what they are told."""

from pullback.overrides import TorchFunctionMode
from pullback.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    """Remembers what it was told and lets the operator run."""

    def __init__(self, seen=None, name=None):
        self.calls = []
        self.seen = [] if seen is None else seen
        self.name = name

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, types, args, kwargs))
        self.seen.append(str(func) if self.name is None else self.name)
        return func(*args, **(kwargs or {}))


class Names(TorchFunctionMode):
    """Remembers the public functions that were called."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
