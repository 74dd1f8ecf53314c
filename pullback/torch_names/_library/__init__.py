"""Where torch keeps the parts of `torch.library`; programs ask here for `custom_ops` and others."""

from __future__ import annotations

from . import custom_ops, infer_schema

__all__ = ["custom_ops", "infer_schema"]
