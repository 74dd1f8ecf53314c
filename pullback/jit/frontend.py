"""Names of TorchScript's front end, for those who catch its errors; nothing is parsed here."""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.core.listing import only_public as _only_public

__all__ = ["FrontendError", "NotSupportedError", "UnsupportedNodeError", "get_jit_def"]


class FrontendError(Exception):
    """Source that TorchScript does not take."""


class NotSupportedError(FrontendError):
    """A part of Python that TorchScript does not have."""


class UnsupportedNodeError(NotSupportedError):
    """A part of Python that TorchScript does not have."""


def get_jit_def(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there: programs run as Python."""
    raise NotImplementedError("TorchScript is not parsed here: scripted programs run as Python.")


__dir__ = _only_public(globals())
