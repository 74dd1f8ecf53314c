"""The classes of results that have names, as `torch.return_types` lists them.

A class is made by the family that its operator belongs to, which is loaded when first asked for.

>>> import pullback as torch
>>> isinstance(torch.ones(2).max(0), torch.return_types.max)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.operators.attach import names
from pullback.operators.results import RESULTS

_FAMILY = {name: family for family, listed in names.RESULTS.items() for name in listed.split()}

__all__ = sorted(_FAMILY)


def __getattr__(name: str) -> Any:
    # In torch calls with out= give classes of their own, with the same fields.
    if name not in _FAMILY and name.removesuffix("_out") in _FAMILY:
        name = name.removesuffix("_out")
    if name not in _FAMILY:
        raise absent(__name__, name)
    import_module(f"pullback.operators.{_FAMILY[name]}")
    return RESULTS[name]


__dir__ = _only_public(globals())
