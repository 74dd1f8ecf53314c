"""What a rank does while it waits for others: tell where it is, and find out who has left."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.distributed.call import SPEAK_AFTER, Call, left_text
from pullback.distributed.engines.waiting import speak
from pullback.distributed.errors import DistBackendError
from pullback.distributed.meeting import watch

__all__ = ["Patience"]

# Seconds for which what a rank has sent before it left may still be under way.
_STILL_UNDER_WAY = 1.0


class Patience:
    """One wait at a call, for some of the job's ranks."""

    def __init__(self, rank: int, group: str, call: Call, ranks: Sequence[int]) -> None:
        self._rank, self._group, self._call, self._ranks = rank, group, call, ranks
        self._told = self._spoken = False
        self._left_since: float | None = None

    def __call__(self, waited: float) -> None:
        """Look at who is still there; raise if one who is needed has left."""
        known = watch.current()
        if known is None:
            return self._speak(waited, "")
        if not self._told:
            self._told = True
            known.waits(self._call.number, self._group)
        left = [rank for rank in self._ranks if rank in known.left]
        if left:
            self._left_since = waited if self._left_since is None else self._left_since
            if waited - self._left_since > _STILL_UNDER_WAY:
                raise DistBackendError(left_text(self._rank, self._group, self._call, left))
        if waited > SPEAK_AFTER and not self._spoken:
            missing = known.missing(self._call.number, self._group, self._ranks)
            self._speak(waited, f" for rank {missing}")
        return None

    def _speak(self, waited: float, whom: str) -> None:
        if waited > SPEAK_AFTER and not self._spoken:
            self._spoken = True
            speak(f"rank {self._rank}: {self._call} waits{whom}")
