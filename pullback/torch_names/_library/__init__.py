"""Where torch keeps the parts of `torch.library`; programs ask here for `custom_ops` and others."""

from __future__ import annotations

from . import autograd, custom_ops, infer_schema, simple_registry, utils

__all__ = ["autograd", "custom_ops", "infer_schema", "simple_registry", "utils"]
