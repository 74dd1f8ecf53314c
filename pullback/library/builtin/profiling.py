"""`torch.ops.profiler`: named ranges in a profile, begun and ended by calls instead of `with`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from pullback.autograd.profiler import record_function
from pullback.core.tensor import Tensor, wrap
from pullback.library.overload import OpNamespace, OpOverload, OpOverloadPacket
from pullback.library.schema import parse_schema

__all__ = ["namespace"]

_numbers = itertools.count()
_open: dict[int, record_function] = {}


def _enter(name: str, args: str | None = None) -> Tensor:
    number = next(_numbers)
    _open[number] = record_function(name, args)
    _open[number].__enter__()
    return wrap(numpy.asarray(number))


def _exit(handle: Any) -> None:
    begun = _open.pop(int(handle._array), None) if isinstance(handle, Tensor) else None
    if begun is None:
        raise RuntimeError("_record_function_exit: this handle belongs to no range that is open.")
    begun.__exit__(None, None, None)


def _packet(name: str, schema: str, run: Callable[..., Any]) -> OpOverloadPacket:
    packet = OpOverloadPacket("profiler", name, run.__doc__)
    packet._add(OpOverload(packet, parse_schema(f"profiler::{name}{schema}"), run))
    return packet


_PACKETS = {
    name: _packet(name, schema, run)
    for name, schema, run in (
        ("_record_function_enter", "(str name, str? args=None) -> Tensor", _enter),
        ("_record_function_exit", "(Tensor handle) -> ()", _exit),
    )
}


def namespace() -> OpNamespace:
    """The namespace `profiler`, to which users may add operators.

    >>> import pullback as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     handle = torch.ops.profiler._record_function_enter("mine")
    ...     torch.ops.profiler._record_function_exit(handle)
    >>> [event.name for event in prof.function_events]
    ['mine']
    """
    from pullback.library.registry import _packets

    return OpNamespace(
        "profiler", lambda name: _PACKETS.get(name) or _packets.get(f"profiler::{name}")
    )
