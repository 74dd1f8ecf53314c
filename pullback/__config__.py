"""What pullback computes with, in words."""

from __future__ import annotations

import sys

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of Python, NumPy and the libraries beside them.

    >>> import pullback as torch
    >>> print(torch.__config__.show().splitlines()[0])
    pullback computes with:
    """
    import numpy

    from pullback.installed import version

    lines = [
        "pullback computes with:",
        f"  - pullback {version()}",
        f"  - Python {sys.version.split()[0]}",
        f"  - NumPy {numpy.__version__}",
        f"  - BLAS: {_blas()}",
    ]
    return "\n".join(lines) + "\n"


def _blas() -> str:
    import contextlib
    import io

    import numpy

    with contextlib.redirect_stdout(io.StringIO()):
        config = numpy.show_config(mode="dicts") or {}
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def parallel_info() -> str:
    """How many threads there are."""
    from pullback.backends.threads import get_num_interop_threads, get_num_threads

    return f"threads: {get_num_threads()}\nthreads between operators: {get_num_interop_threads()}\n"
