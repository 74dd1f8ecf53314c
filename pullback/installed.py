"""What the installed package says of itself: its version, how to add to it, where its files are."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

__all__ = ["compiled_with_cxx11_abi", "get_file_path", "install_command", "version"]

VERSION = "0.2.0"  # the one place: pyproject.toml reads it from here


def version() -> str:
    """The version of pullback itself; `pullback.__version__` is that of torch's interface.

    >>> from pullback import installed
    >>> installed.version().split(".")[0]
    '0'
    """
    return VERSION


def install_command(*packages: str) -> str:
    """The command that adds packages to the environment this runs in.

    It names the packages and no extra of pullback, so it works however pullback was installed:
    from an index, from a file or from a checkout.

    >>> install_command("scipy")  # doctest: +SKIP
    'python -m pip install scipy'
    """
    wanted = " ".join(packages)
    if f"{os.sep}pipx{os.sep}venvs{os.sep}" in sys.prefix + os.sep:
        return f"pipx inject pullback {wanted}"
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return f"conda install -c conda-forge {wanted}"
    if find_spec("pip") is None:  # an environment that uv made has none
        return f"uv pip install {wanted}"
    return f"python -m pip install {wanted}"


def get_file_path(*path_components: str) -> str:
    """A path beside the package's folder.

    >>> import os, pullback
    >>> os.path.exists(pullback.get_file_path("pullback", "__init__.py"))
    True
    """
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), *path_components)


def compiled_with_cxx11_abi() -> bool:
    """How a C++ library would have been compiled: there is none, and torch's answer is True.

    >>> import pullback
    >>> pullback.compiled_with_cxx11_abi()
    True
    """
    return True


def __dir__() -> list[str]:
    return [*__all__, "VERSION"]
