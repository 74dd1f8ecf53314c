"""What the installed package says of itself: its version, and where its files are."""

from __future__ import annotations

import os

__all__ = ["compiled_with_cxx11_abi", "get_file_path", "version"]


def version() -> str:
    """The version of pullback itself, from the package's metadata."""
    from importlib import metadata

    try:
        return metadata.version("pullback")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"


def get_file_path(*path_components: str) -> str:
    """A path beside the package's folder."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), *path_components)


def compiled_with_cxx11_abi() -> bool:
    """How a C++ library would have been compiled: there is none, and torch's answer is True."""
    return True
