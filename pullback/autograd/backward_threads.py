"""set_backward_threads(): how many threads one backward pass may use."""

from __future__ import annotations

from pullback.core.process.whole import Whole
from pullback.engine.threads import side_by_side

__all__ = ["get_backward_threads", "set_backward_threads"]


class set_backward_threads(Whole):
    """Let nodes of one graph that are independent run side by side: at once, or for a block.

    For the whole process; 1 at first. Results are the same to the last bit, and a user's code
    (hooks, custom Functions) runs in the calling thread, in the same order. It pays for graphs with
    large independent branches, since NumPy lets other threads run while it computes. A pass with
    hooks on leaves, create_graph or anomaly mode uses one thread.

    >>> import pullback as torch
    >>> with torch.autograd.set_backward_threads(2):
    ...     x = torch.ones(2, requires_grad=True)
    ...     (x.exp() + x.sin()).sum().backward()
    >>> torch.autograd.get_backward_threads()
    1
    """

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"set_backward_threads() needs an int, got {type(n).__name__}.")
        if n < 1:
            raise ValueError(
                f"set_backward_threads() needs at least 1 thread, the calling one; got {n}."
            )
        self._before = side_by_side.threads
        side_by_side.threads = n

    def _enter(self) -> None:
        pass

    def _leave(self) -> None:
        side_by_side.threads = self._before


def get_backward_threads() -> int:
    """How many threads one backward pass may use, the calling one included.

    >>> import pullback as torch
    >>> torch.autograd.get_backward_threads()
    1
    """
    return side_by_side.threads
