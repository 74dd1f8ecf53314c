"""`infer_schema` under torch's private path."""

from __future__ import annotations

from pullback.library.schema.infer import infer_schema

__all__ = ["infer_schema"]
