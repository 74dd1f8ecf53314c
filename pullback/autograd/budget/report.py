"""What a budget did, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.autograd.graph.memory import shown_bytes

__all__ = ["Step"]


@dataclass(slots=True, frozen=True)
class Step:
    """One step: all from the first saved value to the last that was given back.

    `peak` bytes of saved values were in memory at once, of `saved` in all; `recomputed` bytes were
    computed again by `calls` operators, `spilled` were put out, and both took `seconds`. `plan`
    says how it was decided.
    """

    bound: int
    saved: int
    peak: int
    recomputed: int
    spilled: int
    calls: int
    seconds: float
    plan: str

    def __str__(self) -> str:
        return (
            f"saved {shown_bytes(self.saved)}, at most {shown_bytes(self.peak)} at once (budget "
            f"{shown_bytes(self.bound)}): {shown_bytes(self.recomputed)} computed again by "
            f"{self.calls} operators, {shown_bytes(self.spilled)} put out, "
            f"{self.seconds:.3g} s; {self.plan}"
        )
