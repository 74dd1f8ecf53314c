"""Versions: of torch's interface, and of what it would be built with."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.torch_version import __version__ as _version

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = str(_version)
debug = False
cuda: str | None = None
git_version = "unknown"
hip: str | None = None
rocm: str | None = None
xpu: str | None = None

__dir__ = _only_public(globals())
