"""Where a chain begins: a pipe around a sequence or mapping."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """A pipe around a copy of a sequence or mapping.

    >>> from pullback.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper({"a": 1})["a"]
    1
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    f"SequenceWrapper: {type(sequence).__name__} cannot be copied, so it is read "
                    "itself.",
                    UserWarning,
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


__dir__ = _only_public(globals())
