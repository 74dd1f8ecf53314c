"""`torch.jit.annotations`: types with which libraries annotate lists that may be one number."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 (old names)

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]


class _BroadcastingList:
    """`BroadcastingList2[int]`: two ints, or one for both; nobody reads the annotation here."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (_BroadcastingList() for _ in range(3))

refuse_others(globals())
__dir__ = _only_public(globals())
