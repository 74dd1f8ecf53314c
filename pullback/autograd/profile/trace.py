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
    rows += _device_rows(events)
    for number, (forward, backward) in enumerate(linked(events), start=1):
        arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": process}
        start, end = forward.time_range.start, backward.time_range.start
        rows.append({"ph": "s", **arrow, "tid": forward.thread, "ts": start})
        rows.append({"ph": "f", "bp": "e", **arrow, "tid": backward.thread, "ts": end})
    whole = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": rows}
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(whole, file, default=str)


def _device_rows(events: Any) -> list[dict[str, Any]]:
    """A process for each device, a thread for each of its streams; what has nothing inside it."""
    rows: list[dict[str, Any]] = []
    known: dict[tuple[int, int], int] = {}
    for event in events:
        if event.device_range is None or any(child.device_range for child in event.cpu_children):
            continue
        place = event.device_index, event.device_resource_id
        # Numbers that no process has.
        process = -1 - event.device_index
        if place not in known:
            known[place] = len(known)
            for kind, name in (
                ("process_name", f"cuda:{event.device_index}"),
                ("thread_name", f"stream {event.device_resource_id:#x}"),
            ):
                named = {"ph": "M", "name": kind, "pid": process, "tid": known[place]}
                rows.append({**named, "args": {"name": name}})
        rows.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": event.name,
                "pid": process,
                "tid": known[place],
                "ts": event.device_range.start,
                "dur": event.device_range.elapsed_us(),
                "args": {"External id": event.id + 1, "stream": event.device_resource_id},
            }
        )
    return rows


def _row(event: Any, process: int) -> dict[str, Any]:
    place = {"name": event.name, "pid": process, "tid": event.thread, "ts": event.time_range.start}
    if event.name == "[memory]":
        about = {"Bytes": event.self_cpu_memory_usage}
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", **place, "args": about}
    arguments: dict[str, Any] = {"External id": event.id + 1}
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
    if event.fwd_thread:
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
