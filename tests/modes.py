"""Catches a test that leaves something behind: a mode, a level, a hook, an observer, a thread."""

import sys
import threading
from contextlib import contextmanager

import pytest

from stress.state import changed, state

# Threads that pools of ours and of the tools keep for the next to come.
KEPT = ("pullback-", "ThreadPoolExecutor", "pytest_timeout", "Thread-auto", "asyncio")


def _threads():
    alive = (one for one in threading.enumerate() if one.is_alive() and not one.daemon)
    return {one for one in alive if not one.name.startswith(KEPT)}


@contextmanager
def modes_kept():
    """Fail if something was left behind within, and set it back so that only the culprit fails."""
    before, threads = state(), _threads()
    yield
    _forget_renumbered_nodes()
    left = changed(before, state())
    left += [f"thread {one.name}" for one in _threads() - threads]
    if not left:
        return
    if before is not None:
        _put_back(before)
    pytest.fail(f"left behind: {', '.join(left)}")


def _forget_renumbered_nodes():
    """A node that a user renumbered changes how every later pass is ordered, for good."""
    sequence = sys.modules.get("pullback.core.sequence")
    if sequence is not None:
        sequence.numbering.changed = False


def _put_back(before):
    import pullback
    from pullback.core import mode
    from pullback.engine import node_observers
    from pullback.operators.dispatch import observers

    pullback.set_default_dtype(before["default dtype"])
    mode.change(
        grad=before["grad mode"],
        inference=before["inference mode"],
        dispatch=before["dispatch modes"],
        functions=before["function modes"],
        levels=before["levels"],
        saved_hooks=before["saved-tensor hooks"],
        autocast=before["autocast"],
    )
    for one in set(observers._observers) - set(before["observers"]):
        observers.stop(one)
    for one in set(node_observers._observers) - set(before["watchers"]):
        node_observers.remove(one)
