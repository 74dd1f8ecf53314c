"""`torch.distributed.checkpoint.api`: the error that tells all ranks which of them failed."""

from __future__ import annotations

import traceback
from typing import Any, TypeAlias

from pullback.core.listing import only_public as _only_public

__all__ = ["CheckpointException"]

WRAPPED_EXCEPTION: TypeAlias = tuple[BaseException, Any]


class CheckpointException(BaseException):
    """Saving or loading failed on some ranks; `failures` says on which, and of what.

    Like torch's it is no `Exception`.

    >>> from pullback.distributed.checkpoint import CheckpointException
    >>> error = CheckpointException("load", {1: (ValueError("no room"), None)})
    >>> print(error)
    load failed on rank 1:
      rank 1: ValueError: no room
    """

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """The exception of each rank that failed, and its traceback."""
        return self._failures

    def __str__(self) -> str:
        ranks = sorted(self._failures)
        said = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
        lines = [f"{self.args[0]} failed on {said}:"]
        for rank in ranks:
            error, trace = self._failures[rank]
            if trace:
                lines.extend(line.rstrip("\n") for line in traceback.format_list(trace))
            told = "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")
            lines.append(f"  rank {rank}: {told}")
        return "\n".join(lines)


__dir__ = _only_public(globals())
