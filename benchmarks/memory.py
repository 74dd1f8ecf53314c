"""How much memory a process has held."""

from __future__ import annotations

import sys


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    import resource  # not on Windows, where only the probes of memory fail

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
