"""Training: modules, parameters, and the functions that layers are made of."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.nn import parameter
from pullback.nn.modules import FILE_OF as _FILE_OF
from pullback.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_HOME = {"DataParallel": "parallel", "factory_kwargs": "base.factory"}
_PARTS = (
    *("_reduction", "attention", "common_types", "functional", "grad", "init", "modules"),
    *("parallel", "quantized", "utils"),
)

__all__ = [
    *sorted({*_FILE_OF, *_HOME}),
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    *_PARTS,
    "parameter",
]


def __getattr__(name: str) -> Any:
    # Functions and layers load the families of operators that they are made of: when asked for.
    if name in _PARTS:
        return import_module(f"pullback.nn.{name}")
    if name in _FILE_OF:
        found = getattr(import_module(f"pullback.nn.modules.{_FILE_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in ("DataParallel", "factory_kwargs"):
        return getattr(import_module(f"pullback.nn.{_HOME[name]}"), name)
    raise absent(__name__, name)


__dir__ = _only_public(globals())
