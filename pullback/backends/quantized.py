"""Engines of quantised operators: there are none, so only "none" can be chosen."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pullback.core.listing import only_public as _only_public

supported_engines = ["none"]
engine: str  # a property of the module


class _Engines(ModuleType):
    """This module, with an engine that can be set."""

    @property
    def engine(self) -> str:
        """The engine in use."""
        return "none"

    @engine.setter
    def engine(self, name: Any) -> None:
        if name not in supported_engines:
            raise RuntimeError(
                f"backends.quantized.engine: {name!r} is not here; there are no quantised "
                "operators."
            )


sys.modules[__name__].__class__ = _Engines

__all__: list[str] = ["supported_engines"]
__dir__ = _only_public(globals(), "engine")
