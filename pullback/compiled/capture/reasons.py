"""Why a call could not be captured, in the user's terms."""

from __future__ import annotations

import threading
from typing import Any

from pullback.core.origin import Origin, here

__all__ = ["CannotCapture", "refusals"]


class _Refusals(threading.local):
    """How many refusals a thread saw, and the last: native code may catch it, and may not go on."""

    count = 0
    last: tuple[str, Origin | None] = ("", None)


refusals = _Refusals()


class CannotCapture(RuntimeError):  # noqa: N818 (what happens is no mistake)
    """Raised inside a capture: the call runs eagerly instead, for this reason.

    `Unsupported` in torch's terms; with `fullgraph=True` the user sees it.
    """

    def __init__(self, reason: str, origin: Origin | None = None) -> None:
        super().__init__(reason)
        self.chain: list[Any] = []  # frames that wait, where another part can go on from there
        self.is_picked = False  # whether it is for a part that an index tensor names
        self.is_pass = False  # whether Python must run a backward pass of the function's
        self.is_of_frame = False  # whether Python must run the whole frame that it is raised in
        self.calls = 0  # so many calls had been written down before the instruction
        self.reason = reason
        self.locate(here(2) if origin is None else origin)
        refusals.count += 1
        refusals.last = (reason, self.origin)

    def locate(self, origin: Origin | None) -> None:
        """Name the line that the reason lies in."""
        self.origin = origin
        place = f" (at {origin})" if origin is not None else ""
        self.args = (f"{self.reason}{place}",)
