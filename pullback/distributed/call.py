"""One collective call: what it says of itself, so that ranks can find out whether they agree."""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b
from typing import Any

__all__ = ["Call", "checking", "describe"]

# Seconds after which a wait says what it waits for.
SPEAK_AFTER = 10.0

_ODD = 0x9E3779B97F4A7C15  # spreads the numbers of calls over all bits
_MASK = (1 << 62) - 1


def checking() -> bool:
    """Whether ranks compare calls; `PULLBACK_DISTRIBUTED_DEBUG=OFF` says no."""
    return os.environ.get("PULLBACK_DISTRIBUTED_DEBUG", "INFO").upper() != "OFF"


def describe(array: Any) -> str:
    """Dtype and shape of an array."""
    return _described(array.dtype, array.shape)


@lru_cache(4096)
def _described(dtype: Any, shape: tuple[int, ...]) -> str:
    return f"{dtype.name}{list(shape)}"


@lru_cache(4096)
def _hash(name: str, detail: str) -> int:
    """The same on every rank, as Python's own is not."""
    return int.from_bytes(blake2b(f"{name}|{detail}".encode(), digest_size=8).digest(), "little")


class Call:
    """A collective's name, what must agree on all ranks, and how long it may take."""

    __slots__ = ("detail", "name", "number", "timeout")

    def __init__(self, name: str, detail: str, timeout: float) -> None:
        self.name = name
        self.detail = detail
        self.timeout = timeout
        self.number = 0  # in its group, counted by the communicator

    def __str__(self) -> str:
        return (
            f"{self.name} #{self.number} ({self.detail})"
            if self.detail
            else (f"{self.name} #{self.number}")
        )

    def fingerprint(self) -> int:
        """A number that differs, but for one case in 2**62, where the calls do."""
        return (_hash(self.name, self.detail) + self.number * _ODD) & _MASK


def mismatch_text(rank: int, group: str, texts: list[str]) -> str:
    """Which ranks called what; of many ranks that agree, some are named."""
    by_text: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        by_text.setdefault(text, []).append(number)
    lines = []
    for text, ranks in by_text.items():
        more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
        lines.append(f"  rank {', '.join(map(str, ranks[:8]))}{more}: {text}")
    return (
        f"rank {rank}: the ranks of {group} do not make the same call; each must call the same "
        "collectives in the same order, with the same shapes and dtypes:\n" + "\n".join(lines)
    )


class LateText(str):
    """What an error says of ranks that did not come in time: so is it told from others."""

    __slots__ = ()


def late_text(rank: int, group: str, call: Call, missing: list[int], seconds: float) -> str:
    """Who did not come to a call in time."""
    named = ", ".join(map(str, missing[:16])) + (" ..." if len(missing) > 16 else "")
    who = f"rank {named}" if missing else "a rank"
    return LateText(
        f"rank {rank}: {call} of {group} waited {seconds:.1f} s for {who}, which did not come. "
        "It died, hangs, or made another call; a larger timeout= gives it longer."
    )


def gave_up_text(rank: int, group: str, call: Call, others: list[int]) -> str:
    """Who waited for a call in vain, told to the one that comes late."""
    named = ", ".join(map(str, others[:16])) + (" ..." if len(others) > 16 else "")
    return (
        f"rank {rank}: {call} of {group} comes too late: rank {named} waited for it, and gave up. "
        "A larger timeout= gives it longer."
    )


def left_text(rank: int, group: str, call: Call, left: list[int]) -> str:
    """Who has ended, though a call needs it."""
    named = ", ".join(map(str, left[:16])) + (" ..." if len(left) > 16 else "")
    return (
        f"rank {rank}: {call} of {group} cannot finish: rank {named} has ended, or left by "
        "destroy_process_group(). All ranks must make the same calls; for inputs of different "
        "lengths there is distributed.algorithms.Join."
    )
