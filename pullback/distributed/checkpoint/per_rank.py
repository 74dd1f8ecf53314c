"""Values that every rank has for itself: one pickle for each rank, under the rank's number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["PerRank"]


class PerRank:
    """Marks a value that every rank has for itself, such as its random state or its loader's place.

    >>> from pullback.distributed.checkpoint import PerRank
    >>> PerRank([1, 2]).value
    [1, 2]
    """

    def __init__(self, value: Any) -> None:
        self.value = value


class Own:
    """This rank's value among those of all."""

    def __init__(self, mark: PerRank, rank: int, ranks: int) -> None:
        self.mark, self.rank, self.ranks = mark, rank, ranks

    def check(self, name: str, known: Mapping[str, Any]) -> None:
        """As many ranks as there are now must have written theirs."""
        start = f"{name.rpartition('.')[0]}.rank_"
        written = sum(key.startswith(start) for key in known)
        if written and written != self.ranks:
            raise ValueError(
                f"{start.removesuffix('.rank_')} was written by {written} ranks, this job has "
                f"{self.ranks}: what each rank had for itself cannot be shared out anew. What can "
                "is what checkpoint.state_dict.get_state_dict() gives."
            )


def numbered(value: Any, rank: int, ranks: int) -> Any:
    """The same nested dicts, with this rank's values under its number."""
    if isinstance(value, PerRank):
        return {f"rank_{rank}": Own(value, rank, ranks)}
    if isinstance(value, Mapping):
        return {key: numbered(inner, rank, ranks) for key, inner in value.items()}
    return value


def taken(given: Any, loaded: Any, rank: int) -> Any:
    """What was loaded, put where it was asked for: in the dicts that were given."""
    if isinstance(given, PerRank):
        found = loaded[f"rank_{rank}"]
        if not isinstance(found, Own):  # it is left as it is where a load is to be partial
            given.value = found
        return given
    if isinstance(given, dict):
        for key, value in loaded.items():
            given[key] = taken(given.get(key), value, rank)
        return given
    return loaded
