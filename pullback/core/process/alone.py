"""Whether other threads of the process could meet what this one changes for a moment."""

from __future__ import annotations

import threading

__all__ = ["PASSES", "Servant", "is_alone"]

# What threads of pools are called that run parts of passes: for threads that wait for them.
PASSES = ("pullback-backward", "pullback-nested")


class Servant(threading.Thread):
    """A thread of the library's own: it computes on arrays, carries bytes or keeps watch.

    No code of the user's runs in it, and none that looks at tensors or nodes.
    """


def is_alone() -> bool:
    """Whether no other thread runs Python that could see a tensor or a node.

    Threads that were not started by `threading`, and have not asked it for anything, are not known.
    """
    if threading.active_count() == 1:
        return True
    mine = threading.current_thread()
    return all(
        one is mine or isinstance(one, Servant) or one.name.startswith(PASSES)
        for one in threading.enumerate()
    )
