"""Where objects of the package are at home: whose they are, and in which module by which name."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

import numpy

from pullback.compiled.export.source import source_of
from pullback.core import home
from pullback.core.arrays import OtherArray
from pullback.core.origin import GENERATED
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op

__all__ = ["Home", "home_of", "home_of_name", "is_never", "is_ours", "operator_of"]

Home = tuple[str, str]  # a module, and a name of it


def is_ours(value: Any) -> bool:
    """Whether a function or class is the package's, written by it included."""
    if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(GENERATED):
        return True
    return home.is_ours(value)


def is_never(cls: type) -> bool:
    """Whether it is a class of tensors, or of arrays of other kinds than NumPy's own."""
    return is_ours(cls) and issubclass(cls, Tensor | OtherArray | numpy.ndarray)


def operator_of(value: Any) -> Op | None:
    """The operator whose function it is."""
    op = getattr(value, "op", None) if isinstance(value, FunctionType) else None
    return op if isinstance(op, Op) and op.function is value else None


def home_of_name(module: str, name: str) -> Home | None:
    """Where a name of a module is given its value: imports followed."""
    while home.is_in_package(module) and module in sys.modules:
        source = source_of(sys.modules[module].__file__ or "")
        if source is None:
            return None
        if name not in source.imports:
            return (module, name) if name in source.bindings else None
        module, name = source.imports[name]
    return None


def home_of(value: Any) -> Home | None:
    """The module that holds an object by a name, and the name."""
    modules = [name for name in sys.modules if home.is_in_package(name)]
    for module in (home.home_of(type(value)), *modules):
        for name, one in list(vars(sys.modules[module]).items()):
            if one is value and (found := home_of_name(module, name)) is not None:
                return found
    return None
