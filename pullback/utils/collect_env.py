"""What a bug report should say of the machine: `python -m pullback.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import NamedTuple

from pullback.core.listing import only_public as _only_public

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_PACKAGES = ("pullback", "numpy", "scipy", "ml_dtypes", "cupy", "numba", "llvmlite", "mkl", "torch")


class SystemEnv(NamedTuple):
    """The facts, one each."""

    pullback_version: str
    python_version: str
    python_platform: str
    os: str
    cpu: str
    cpu_count: int | None
    blas: str
    start_method: str
    packages: dict[str, str]


def get_env_info() -> SystemEnv:
    """The facts about this machine and what is installed on it.

    >>> get_env_info().python_version.startswith("3.")
    True
    """
    import multiprocessing

    return SystemEnv(
        pullback_version=_version("pullback") or "not installed",
        python_version=sys.version.replace("\n", ""),
        python_platform=platform.platform(),
        os=platform.system(),
        cpu=platform.processor() or platform.machine(),
        cpu_count=os.cpu_count(),
        blas=_blas(),
        start_method=multiprocessing.get_start_method(),
        packages={name: found for name in _PACKAGES if (found := _version(name)) is not None},
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas() -> str:
    """The library behind NumPy's matrix products."""
    import numpy

    found = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()


def get_pretty_env_info() -> str:
    """The same as text, a line each."""
    facts = get_env_info()
    lines = [
        f"{name.replace('_', ' ')}: {getattr(facts, name)}"
        for name in facts._fields
        if name != "packages"
    ]
    return "\n".join([*lines, "", *(f"{name}=={v}" for name, v in facts.packages.items())])


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()

__dir__ = _only_public(globals())
