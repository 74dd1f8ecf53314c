"""Waiting for others: quick at first, then gently, and not in silence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["said_after", "speak", "wait_until"]

_SPIN = 0.0002  # seconds of looking without sleeping: most peers come within them
_LONGEST_SLEEP = 0.002
_LOOK_AFTER = 0.1  # seconds, and as many between two looks at who is still there


def speak(text: str) -> None:
    """Say what a long wait is for."""
    logging.getLogger("pullback.distributed").warning("%s", text)


def wait_until(
    done: Callable[[], bool], timeout: float, look: Callable[[float], None] = lambda waited: None
) -> bool:
    """Ask `done` until it says yes; False when time is up.

    `look` is called now and then with the seconds that it has been, and may raise.
    """
    if done():
        return True
    started = time.monotonic()
    sleep, next_look = 0.0, _LOOK_AFTER
    while not done():
        waited = time.monotonic() - started
        if waited > timeout:
            return False
        if waited > next_look:
            next_look = waited + _LOOK_AFTER
            look(waited)
        if waited > _SPIN:
            time.sleep(sleep)
            sleep = min(_LONGEST_SLEEP, sleep * 2 or 0.00002)
    return True


def said_after(seconds: float, text: str) -> Callable[[float], None]:
    """A look that says, once and after so many seconds, what is waited for."""
    left = [text]

    def look(waited: float) -> None:
        if waited > seconds and left:
            speak(left.pop())

    return look
