"""Waiting for others: quick at first, then gently, and not in silence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["speak", "wait_until"]

_SPIN = 0.0002  # seconds of looking without sleeping: most peers come within them
_LONGEST_SLEEP = 0.002


def speak(text: str) -> None:
    """Say what a long wait is for."""
    logging.getLogger("pullback.distributed").warning("%s", text)


def wait_until(
    done: Callable[[], bool], timeout: float, after: float, text: Callable[[], str]
) -> bool:
    """Ask `done` until it says yes; False when time is up. After `after` seconds `text` is said."""
    if done():
        return True
    started = time.monotonic()
    sleep = 0.0
    spoken = False
    while not done():
        waited = time.monotonic() - started
        if waited > timeout:
            return False
        if waited > after and not spoken:
            spoken = True
            speak(text())
        if waited > _SPIN:
            time.sleep(sleep)
            sleep = min(_LONGEST_SLEEP, sleep * 2 or 0.00002)
    return True
