"""What neither CuPy nor a kernel of ours computes: it goes through the host, and is counted there.

The coverage table names these operators.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU
from pullback.core.home import path_of
from pullback.core.ports import ports
from pullback.core.tensor import device_of
from pullback.operators.cuda.retarget import INSTEAD

__all__ = ["THROUGH_HOST", "enter"]

# Forwards of operators, by the full names of their functions.
THROUGH_HOST = ("special.bessel.airy_ai",)


def through_host(function: Any) -> Any:
    """The kernel on the host: arguments brought there, results back."""

    def call(xp: Any, *args: Any, **kwargs: Any) -> Any:
        import numpy

        given = [*args, *kwargs.values()]
        place = next(device_of(one) for one in given if type(one) in LIBRARIES)
        brought = [_brought(one) for one in args]
        made = function(numpy, *brought, **{name: _brought(one) for name, one in kwargs.items()})
        if isinstance(made, tuple):
            return tuple(ports.placed(numpy.asarray(one), place) for one in made)
        return ports.placed(numpy.asarray(made), place)

    call.__name__ = function.__name__
    return call


def _brought(value: Any) -> Any:
    return ports.placed(value, CPU) if type(value) in LIBRARIES else value


def enter() -> None:
    """Into the table."""
    from importlib import import_module

    for name in THROUGH_HOST:
        module, _, function = f"pullback.operators.{name}".rpartition(".")
        forward = getattr(import_module(module), function).op.forward
        INSTEAD[path_of(forward)] = through_host(forward)
