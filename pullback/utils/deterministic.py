"""`torch.utils.deterministic`: whether memory that nobody wrote is filled with a known value.

It is while deterministic algorithms are asked for, unless this flag says otherwise.

>>> from pullback.utils import deterministic
>>> deterministic.fill_uninitialized_memory
True
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.process.determinism import wish

fill_uninitialized_memory: bool  # a property of the module


class _Deterministic(ModuleType):
    """A module whose one attribute is a flag."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether fresh memory is filled while deterministic algorithms are asked for."""
        return wish.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: Any) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(
                f"fill_uninitialized_memory must be True or False, got {type(mode).__name__}."
            )
        wish.set(fill=mode)


sys.modules[__name__].__class__ = _Deterministic

__all__: list[str] = []
__dir__ = _only_public(globals(), "fill_uninitialized_memory")
