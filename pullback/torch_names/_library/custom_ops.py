"""`custom_op` and `CustomOpDef` under torch's private path."""

from __future__ import annotations

from pullback.library.definition import CustomOpDef, custom_op

__all__ = ["CustomOpDef", "custom_op"]
