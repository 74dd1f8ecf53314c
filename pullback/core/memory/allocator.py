"""Tells the C allocator to keep what is freed, since the next operator wants it at once.

By default glibc gives every block above 128 kB back to the system and gets fresh, zeroed pages for
the next one: a chain of products over 100 kB arrays then takes 70 us per operator where 7 us do.
"""

from __future__ import annotations

import os
import sys

# Names and numbers from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT_BLOCK = 32 << 20  # glibc accepts no more
_KEPT_IN_ALL = 256 << 20


def keep_freed_memory() -> bool:
    """Raise the allocator's thresholds, on Linux with glibc.

    `PULLBACK_KEEP_MEMORY=0` leaves them.
    """
    if not sys.platform.startswith("linux") or os.environ.get("PULLBACK_KEEP_MEMORY") == "0":
        return False
    import ctypes  # NumPy has loaded it already

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BLOCK) and mallopt(_TRIM_THRESHOLD, _KEPT_IN_ALL)
    )
