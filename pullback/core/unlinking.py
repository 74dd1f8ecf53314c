"""How a long graph is freed where the stack is short: one node after the other.

A node dies, with it what it holds, with that the next node: as deep as the graph is long. CPython
cuts this short by the size of its stack, but under WebAssembly the stack that runs out is the
browser's, which CPython cannot see: 4,000 nodes ended the interpreter. So there, and only there,
nodes have a `__del__`: the first that dies is emptied here, and those that die with it come back
to a list, each to go when its turn comes. Elsewhere nodes have none, and pay nothing.
"""

from __future__ import annotations

import functools
import sys
from types import MemberDescriptorType
from typing import Any

__all__ = ["NEEDED", "unlink"]

NEEDED = sys.platform == "emscripten"

_waiting: list[object] = []
_emptied = [False]  # whether somebody further up empties the list


def unlink(node: object) -> None:
    """The `__del__` of nodes. Python calls it once for each, so one that waited dies for good."""
    if _emptied[0]:
        _waiting.append(node)
        return
    _emptied[0] = True
    try:
        cls: Any = type(node)  # object's own types leave open whether it can be hashed
        for slot in _slots(cls):
            if hasattr(node, slot.__name__):
                slot.__delete__(node)
        if hasattr(node, "__dict__"):
            node.__dict__.clear()
        while _waiting:
            _waiting.pop()
    finally:
        _emptied[0] = False


@functools.cache
def _slots(cls: type) -> list[MemberDescriptorType]:
    members = [value for base in cls.__mro__ for value in vars(base).values()]
    return [member for member in members if isinstance(member, MemberDescriptorType)]
