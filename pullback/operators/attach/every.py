"""Every operator that there is, for who wants to look at all of them.

Its own file because nothing that computes needs it: most programs load few families.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from pullback import operators
from pullback.operators.attach import names
from pullback.operators.attach.methods import load

__all__ = ["load_all"]

# Machinery, and what is for a device.
_NO_FAMILIES = ("attach", "cuda", "dispatch", "running", "writing")


def load_all() -> None:
    """Load every family, also those that no table of names lists: parts of compositions."""
    for family in {**names.FUNCTIONS, **names.METHODS}:
        load(family)
    for found in walk_packages(operators.__path__, f"{operators.__name__}."):
        room = found.name.removeprefix(f"{operators.__name__}.").partition(".")[0]
        if room not in _NO_FAMILIES:
            import_module(found.name)
