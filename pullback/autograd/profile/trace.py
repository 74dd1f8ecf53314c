"""Findings of a profiler as files: Chrome's trace format, and stacks for flame graphs."""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

from pullback.autograd.profile.recorder import BACKWARD
from pullback.autograd.profiler_util import linked


def write_trace(events: Any, path: str, metadata: dict[str, Any] | None = None) -> None:
    """Complete events with microseconds, arrows from each forward to its backward."""
    process = os.getpid()
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "python"}}
    ]
    for thread in sorted({event.thread for event in events}):
        name = {"name": f"thread {thread}"}
        rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": name})
    rows += [_row(event, process) for event in events]
    for number, (forward, backward) in enumerate(linked(events), start=1):
        arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": process}
        start, end = forward.time_range.start, backward.time_range.start
        rows.append({"ph": "s", **arrow, "tid": forward.thread, "ts": start})
        rows.append({"ph": "f", "bp": "e", **arrow, "tid": backward.thread, "ts": end})
    whole = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": rows}
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(whole, file, default=str)


def _row(event: Any, process: int) -> dict[str, Any]:
    place = {"name": event.name, "pid": process, "tid": event.thread, "ts": event.time_range.start}
    if event.name == "[memory]":
        about = {"Bytes": event.self_cpu_memory_usage}
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", **place, "args": about}
    arguments: dict[str, Any] = {"External id": event.id + 1}
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
    if event.fwd_thread is not None:
        arguments["Fwd thread id"] = event.fwd_thread
    if event.input_shapes:
        arguments["Input Dims"] = event.input_shapes
    if any(value is not None for value in event.concrete_inputs):
        arguments["Concrete Inputs"] = [
            "" if value is None else str(value) for value in event.concrete_inputs
        ]
    if event.cpu_memory_usage:
        arguments["Bytes"] = event.cpu_memory_usage
    if event.stack:
        arguments["Call stack"] = event.stack
    category = "user_annotation" if event.is_user_annotation else "cpu_op"
    if event.scope == BACKWARD:
        category = "backward"
    length = event.time_range.elapsed_us()
    return {"ph": "X", "cat": category, **place, "dur": length, "args": arguments}


def write_stacks(events: Any, path: str, metric: str) -> None:
    """One line for each event that has a stack: its frames from outside in, then its cost."""
    with open(path, "w", encoding="utf-8") as file:
        for event in events:
            value = int(getattr(event, metric))
            if event.stack and value > 0:
                frames = [frame.translate(_SAFE) for frame in reversed(event.stack)]
                file.write(";".join(frames) + f" {value}\n")


_SAFE = str.maketrans(";\t\n ", "____")
