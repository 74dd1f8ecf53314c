"""Errors of torch's tracing compiler, for those who catch them."""

from __future__ import annotations

__all__ = ["BackendCompilerFailed", "InvalidBackend", "TorchDynamoException", "Unsupported"]


class TorchDynamoException(RuntimeError):  # noqa: N818 (torch's name)
    """The base of them."""


class InvalidBackend(TorchDynamoException):
    """A backend that is not there."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend that failed."""


class Unsupported(TorchDynamoException):
    """A part of Python that could not be compiled."""


class UserError(Unsupported):
    """A program that cannot be compiled as it is."""


class InternalTorchDynamoError(TorchDynamoException):
    """A mistake of the compiler."""
