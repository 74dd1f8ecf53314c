"""What neither CuPy nor a kernel of ours computes: it goes through the host, and is counted there.

The coverage table names these operators.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU
from pullback.core.ports import ports
from pullback.core.tensor import device_of
from pullback.operators.cuda.kernel_overrides import replace

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
    from pullback.operators.special import bessel

    declared: tuple[Any, ...] = (bessel.airy_ai,)
    assert [one.op.name for one in declared] == [one.rpartition(".")[2] for one in THROUGH_HOST]
    replace({one: through_host(one.op.meaning) for one in declared})
