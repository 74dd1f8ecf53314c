"""Makes operators methods of Tensor.

Declared ones by their declaration, plain functions of operators by the mark `@method`, special
methods and properties by the tables below. Methods of families that are not loaded yet (names.py,
which is generated) are stood in for by a descriptor that loads the family.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from pullback.core.home import home_of
from pullback.core.process.first_use import first_use
from pullback.core.tensor import Tensor
from pullback.operators.attach import dunders, names
from pullback.operators.create import exchange, legacy
from pullback.operators.declare import METHODS, OPERATORS
from pullback.operators.dispatch import asking
from pullback.operators.indexing import assignment as indexing
from pullback.operators.pointwise.complex import imag, real
from pullback.operators.running.inplace import inplace_of
from pullback.operators.shape.transposes import (
    conj_transpose,
    hermitian,
    matrix_transpose,
    reverse_dims,
)
from pullback.operators.tensor import metadata, python_numbers, subclassing

PROPERTIES: dict[str, Any] = {
    **metadata.PROPERTIES,
    **exchange.PROPERTIES,
    "T": reverse_dims,
    "mT": matrix_transpose,
    "H": hermitian,
    "mH": conj_transpose,
    "real": property(real, lambda self, value: real(self).copy_(value)),
    "imag": property(imag, lambda self, value: imag(self).copy_(value)),
}

_SPECIAL = (
    python_numbers.DUNDERS,
    exchange.DUNDERS,
    indexing.DUNDERS,
    legacy.DUNDERS,
    dunders.DUNDERS,
)
# Special methods of families that load when one is used, as their `DUNDERS` have them: most
# programs print few tensors and pickle none.
_SPECIAL_LATER = {
    "tensor.pickling": ("__copy__", "__deepcopy__", "__reduce_ex__"),
    "tensor.printing": ("__format__", "__repr__"),
}


class _Later:
    """Stands for a method whose family is not loaded; the first look at it loads the family."""

    __slots__ = ("family", "name")

    def __init__(self, family: str, name: str) -> None:
        self.family = family
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> Any:
        load(self.family)
        found = vars(Tensor)[self.name]  # not that of a subclass, which may have asked for this one
        if found is self:
            raise AttributeError(f"{self.family} has no method {self.name}.")
        return found.__get__(tensor, owner)


def load(family: str) -> ModuleType:
    """Import a family of operators and give Tensor its methods."""
    name = f"pullback.operators.{family}"
    if family in _loaded:
        return import_module(name)
    with first_use:
        module = import_module(name)
        if family not in _loaded:
            _attach(module.__name__)
            if family in _SPECIAL_LATER:
                _attach_special(module.DUNDERS)
            asking.family(module, family)
            _loaded.add(family)  # last: until then others wait, and a failure is tried again
    return module


_loaded: set[str] = set()


def attach_methods() -> None:
    """Give Tensor its methods; called once, when the package is imported."""
    for family, listed in names.METHODS.items():
        for name in listed.split():
            setattr(Tensor, name, _Later(family, name))
    _attach(None)
    for table in _SPECIAL:
        _attach_special(table)
    for family, special in _SPECIAL_LATER.items():
        for name in special:
            setattr(Tensor, name, _Later(family, name))
    for name, function in subclassing.STATIC.items():
        setattr(Tensor, name, staticmethod(function))
    for name, getter in PROPERTIES.items():
        attribute = getter if isinstance(getter, property) else property(getter)
        setattr(Tensor, name, attribute)
    asking.methods_attached()


def _attach_special(table: dict[str, Any]) -> None:
    for name, function in table.items():
        setattr(Tensor, name, function)
        if function.__name__ in (name[1:-2], "getitem", "setitem"):
            function.__name__ = name  # as who is told of calls knows it


def _attach(module: str | None) -> None:
    """Give Tensor the methods that `module` (None: any) defines, under all their names."""
    methods: dict[str, Any] = {}
    for op in list(OPERATORS.values()):
        if module in (None, home_of(op.forward)):
            if op.method:
                methods[op.name] = op.function
            if op.inplace:
                methods[f"{op.name}_"] = inplace_of(op.function)
    methods |= {
        name: f
        for name, f in list(METHODS.items())  # to which other threads may add
        if module in (None, home_of(f)) or name in methods
    }
    for name, target in names.ALIASES.items():
        for end in ("", "_"):
            if target + end in methods:
                methods[name + end] = methods[target + end]
    for name, function in methods.items():
        setattr(Tensor, name, function)
        if function.__name__ == f"_{name.strip('_')}" or function.__name__ == f"_{name}_method":
            function.__name__ = function.__qualname__ = name  # what `help` and errors say
