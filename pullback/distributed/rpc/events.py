"""Calls in the profiler: each is a range from its start to its answer, and what ran there follows.

A range is named as torch names it, `rpc_sync#f(worker0 -> worker1)`; the operators that the call
has run on the other worker come back with the answer, under that name and `#remote_op: `. Where
workers are threads one profiler sees all of them as it is, and nothing comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

from pullback.autograd.profile import recorder as recording
from pullback.autograd.profile.names import torch_name

__all__ = ["call", "served", "wanted"]

_sharing = threading.Lock()
_shared: list[Any] = []  # the recorder of the calls that are recorded now, once for each


def wanted() -> bool:
    """Whether a profiler is on here."""
    return bool(recording.active())


def _nothing(remote: list[Any]) -> None:
    """What there is to do at the end of a call that nobody records."""


def call(kind: str, function: str, source: str, target: str) -> Callable[[list[Any]], None]:
    """A call begins; the function that ends it takes what was recorded on the other side."""
    active = recording.active()
    if not active:
        return _nothing
    recorder, start, thread = active[0], now(), threading.get_ident()
    name = f"{kind}#{function}({source} -> {target})"

    def done(remote: list[Any]) -> None:
        end = now()
        add = recorder.raw.append
        add(recording.Raw(name, start, end, thread, recording.USER, is_async=True))
        if not remote:
            return
        # Clocks of two machines differ: what ran there is put in the middle of the call.
        began = min(one[2] for one in remote)
        took = max(one[3] for one in remote) - began
        shift = start + max(0, (end - start - took) // 2) - began
        for worker, operator, first, last in remote:
            add(
                recording.Raw(
                    f"{name}#remote_op: {operator}",
                    first + shift,
                    last + shift,
                    thread,
                    recording.FUNCTION,
                    is_async=True,
                    node=worker,
                )
            )

    return done


def served(act: Callable[[], Any], worker: int) -> tuple[Any, list[Any]]:
    """Do what a call asks for; its result, and the operators that it ran with their times."""
    with _sharing:
        if recording.active() and not _shared:
            recorder = None  # the profiler of this process sees it
        else:
            if not _shared:
                recording.switch_on(
                    made := recording.Recorder(shapes=False, memory=False, stack=False)
                )
                _shared.append(made)
            else:
                _shared.append(_shared[0])
            recorder = _shared[0]
    start, thread = now(), threading.get_ident()
    try:
        value = act()
    finally:
        if recorder is not None:
            with _sharing:
                _shared.remove(recorder)
                if not _shared:
                    recording.switch_off(recorder)
    if recorder is None:
        return value, []
    return value, [
        (worker, torch_name(called), first, last)
        for called, first, last, ran_in, _ in list(recorder.operators)
        if ran_in == thread and first >= start
    ]
