"""Streams and events of CUDA devices: their names, for annotations; making one needs a device."""

from __future__ import annotations

from typing import Any

from pullback.accelerator.found import Kind
from pullback.core.listing import only_public as _only_public

__all__ = ["Event", "ExternalStream", "Stream"]

_kind = Kind("cuda")
Stream: Any = _kind.refusing_class("Stream", __name__, RuntimeError)
Event: Any = _kind.refusing_class("Event", __name__, RuntimeError)
ExternalStream: Any = _kind.refusing_class("ExternalStream", __name__, RuntimeError)

__dir__ = _only_public(globals())
