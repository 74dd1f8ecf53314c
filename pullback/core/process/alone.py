"""Whether other threads of the process could meet what this one changes for a moment."""

from __future__ import annotations

import threading

__all__ = ["KERNELS", "is_alone"]

# What threads of the library's own are called, which compute on arrays and look at no tensor.
KERNELS = "pullback-kernel"


def is_alone() -> bool:
    """Whether no other thread runs Python that could see a tensor or a node.

    Threads that were not started by `threading`, and have not asked it for anything, are not known.
    """
    if threading.active_count() == 1:
        return True
    mine = threading.current_thread()
    return all(one is mine or one.name == KERNELS for one in threading.enumerate())
