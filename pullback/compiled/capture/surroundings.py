"""What a captured program depends on besides its arguments: guards on all that was read.

The interpreter collects them, each with the place where it was read. Asked before each call, by one
written function.
"""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["Surroundings"]


class Surroundings:
    """The guards of one capture, and the tensors that the function found."""

    def __init__(self, inner: Any) -> None:
        """`inner` is the interpreter that ran the function."""
        self.tensors: dict[int, Tensor] = inner.tensors
        self.identities: bool = inner.identities
        self.guards = inner.guards
        self.check = inner.guards.write()

    def change(self, leaves: list[Any]) -> str | None:
        """What is no longer as it was; None if all is."""
        number = self.check(leaves)
        return None if number is None else str(self.guards.told(number))

    def other_numbers(self, leaves: list[Any]) -> list[tuple[Any, Any, Any]]:
        """Numbers that are others now: where they stand, what they were, and what they are."""
        known = self.guards.numbers()
        if not known:
            return []
        try:
            now = self.guards.fetching([source for source, _ in known])(leaves)
        except Exception:  # something on the way there is gone
            return []
        pairs = zip(known, now, strict=True)
        return [(source, then, one) for (source, then), one in pairs if type(one) is type(then)
                and one != then]  # fmt: skip

    def names(self) -> dict[int, str]:
        """By id, what the tensors that were found are called where they were."""
        found: dict[int, str] = {}
        for kind, source, answer in self.guards.all.values():
            if kind == "is" and isinstance(answer, Tensor) and source.kind in ("value", "attr"):
                found.setdefault(id(answer), str(source.what))
        return found

    def __len__(self) -> int:
        return len(self.guards)
