"""What can go wrong with a re-run, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["CheckpointError"]

_REMEDY = (
    "The function must do the same again: no branch on random numbers, time or changed state. "
    "To see the operators of both runs, pass debug=True to checkpoint(), or use "
    "set_checkpoint_debug_enabled(True)."
)


class CheckpointError(RuntimeError):
    """The re-run of a checkpointed function did not give what its first run saved.

    >>> from pullback.utils.checkpoint import CheckpointError
    >>> issubclass(CheckpointError, RuntimeError)
    True
    """


def different_count(saved: int, recomputed: int) -> CheckpointError:
    """Other numbers of saved tensors."""
    return CheckpointError(
        f"checkpoint: the forward saved {saved} tensors for backward, its re-run {recomputed}. "
        f"{_REMEDY}"
    )


def different_metadata(mismatches: Sequence[tuple[int, Any, Any]]) -> CheckpointError:
    """Saved tensors of other shape, dtype or device."""
    lines = "\n".join(
        f"  saved tensor {position}: was {saved}, recomputed {now}"
        for position, saved, now in mismatches
    )
    return CheckpointError(
        "checkpoint: the re-run of a function saved other tensors than its forward did:\n"
        f"{lines}\n{_REMEDY}"
    )


def unpacked_twice() -> CheckpointError:
    """A recomputed tensor is handed out once."""
    return CheckpointError(
        "checkpoint: a saved tensor was unpacked already in this backward pass, and a recomputed "
        "tensor is dropped once it was used. Read it once and keep it: in the backward of a "
        "Function, `x, y = ctx.saved_tensors`, not `ctx.saved_tensors` twice."
    )


def used_by_two_passes() -> CheckpointError:
    """Passes of one group that overlap."""
    return CheckpointError(
        "checkpoint: two passes of one GraphExecGroup need the same saved tensor, which is "
        "recomputed and handed out once for all of them. Their parts of the graph must not "
        "overlap; run them without the group, or in one pass."
    )


def overwritten(shape: Sequence[int], dtype: Any, made: Sequence[str]) -> RuntimeError:
    """What was saved has another value now, by a write that plain backward refuses, too."""
    by = f" by {', then '.join(made)}" if made else ""
    return RuntimeError(
        f"checkpoint: a tensor that backward needs ({dtype}, shape {tuple(shape)}) was modified by "
        f"an inplace operation{by}, after the function had used it. Clone it before the write, or "
        "write out of place (`x = x + 1` instead of `x += 1`)."
    )


def never_recomputed() -> CheckpointError:
    """A re-run that saved enough tensors, but in other places."""
    return CheckpointError(
        f"checkpoint: a tensor that backward needs was not produced by the re-run. {_REMEDY}"
    )
