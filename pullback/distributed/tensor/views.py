"""Views of tensors that lie over a mesh: on the same memory, or on a copy that says so.

A view may need rows that other ranks have; then it is made on what was gathered. Reading it is
right until its base is written to, writing to it would be lost: both are errors.
"""

from __future__ import annotations

import numpy

from pullback.core import passes
from pullback.core.version import own_cell
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.sharding import Call

__all__ = ["check_current", "keep_apart"]


def keep_apart(call: Call, made: DTensor, *, moved: bool) -> DTensor:
    """Note of a view that it lies on other memory than what it is a view of.

    `moved` says that its base had to be sent about; a rank with an empty part cannot see that.
    """
    argument = call.func._schema.arguments[0] if call.func._schema.arguments else None
    if argument is None or argument.alias_info is None or argument.alias_info.is_write:
        return made
    if passes.running.get() is not None:
        return made  # of gradients on their way nobody has the base
    base = call.tensors[0]
    if not isinstance(base, DTensor):
        return made
    if base._copied_from is not None:
        made._copied_from = base._copied_from
        return made
    first, second = base._local_tensor, made._local_tensor
    if first.device.type != "cpu" or second.device.type != "cpu":
        return made
    if second.numel() and first.numel() and numpy.may_share_memory(first._array, second._array):
        return made
    if not first.numel() and not moved:
        return made
    made._copied_from = (base, own_cell(base._local_tensor)[0])
    return made


def check_current(one: DTensor, call: Call) -> None:
    """Whether a view that is a copy is still what its base has, and is not written to."""
    if one._copied_from is None:
        return
    base, version = one._copied_from
    if call.func._schema.is_mutable and call.tensors[0] is one:
        raise RuntimeError(
            f"{call.name} writes to a view of a tensor that lies over a mesh, but the view was "
            "gathered from several ranks: the tensor would not change. Write to the tensor itself, "
            "or redistribute it first so that the dimension is whole on each rank."
        )
    if own_cell(base._local_tensor)[0] != version:
        raise RuntimeError(
            f"{call.name} reads a view of a tensor that lies over a mesh; it was gathered from "
            "several ranks before the tensor was written to. Take the view again."
        )
