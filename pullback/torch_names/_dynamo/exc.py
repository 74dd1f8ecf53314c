"""Errors of torch's tracing compiler, at torch's path; compiled/errors.py has them."""

from __future__ import annotations

from pullback.compiled.errors import (
    BackendCompilerFailed,
    InternalTorchDynamoError,
    InvalidBackend,
    TorchDynamoException,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "TorchDynamoException",
    "Unsupported",
    "UserError",
]
