"""A profiler's findings as a table of text."""

from __future__ import annotations

from typing import Any

from pullback.autograd.profiler_util import format_time

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


class Table:
    """Chooses the columns that have something to say, and writes the rows."""

    def __init__(self, events: Any, *, widths: tuple[int, int, int], time_unit: str | None) -> None:
        if time_unit is not None and time_unit not in _UNITS:
            raise ValueError(f"time_unit must be one of {list(_UNITS)} or None, got {time_unit!r}.")
        self.events = list(events)
        self.name_width, self.source_width, self.shapes_width = widths
        self.time_unit = time_unit
        self.total = sum(event.self_cpu_time_total for event in self.events)
        self.has_memory = events.profile_memory
        self.has_flops = events.with_flops and any(event.flops for event in self.events)
        self.has_shapes = any(event.input_shapes for event in self.events)
        self.has_source = any(event.stack for event in self.events)
        self.device = events.use_device
        self.device_total = sum(event.self_device_time_total for event in self.events)

    def text(
        self, *, sort_by: str | None, row_limit: int, header: str | None, top_only: bool
    ) -> str:
        """The whole table."""
        if not self.events:
            return ""
        rows = self.events
        if sort_by is not None:
            field = sort_by.replace(self.device, "device") if self.device else sort_by
            rows = sorted(rows, key=lambda event: getattr(event, field), reverse=True)
        if top_only:
            rows = [event for event in rows if event.cpu_parent is None]
        if row_limit >= 0:
            rows = rows[:row_limit]
        cells = [self._header(), *(self._row(event) for event in rows)]
        widths = [max(12, *(len(row[i]) for row in cells)) for i in range(len(cells[0]))]
        rule = "  ".join("-" * width for width in widths)
        lines = ["  ".join(map(str.rjust, row, widths)) for row in cells]
        body = [rule, lines[0], rule, *lines[1:], rule]
        if top_only:
            body.insert(0, "Only events that are inside no other are shown.")
        if header is not None:
            body[:0] = ["=" * len(rule), header, "=" * len(rule)]
        body.append(f"Self CPU time total: {self._time(self.total)}")
        if self.device:
            told = self._time(self.device_total)
            body.append(f"Self {self.device.upper()} time total: {told}")
        return "\n".join([*body, ""])

    def _header(self) -> list[str]:
        columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if self.device:
            name = self.device.upper()
            columns += [f"Self {name}", f"Self {name} %", f"{name} total", f"{name} time avg"]
        if self.has_memory:
            columns += ["CPU Mem", "Self CPU Mem"]
        columns.append("# of Calls")
        if self.has_shapes:
            columns.append("Input Shapes")
        if self.has_source:
            columns.append("Source Location")
        if self.has_flops:
            columns.append("Total FLOPs")
        return columns

    def _row(self, event: Any) -> list[str]:
        cells = [
            shortened(event.key, self.name_width),
            self._share(event.self_cpu_time_total),
            self._time(event.self_cpu_time_total),
            self._share(event.cpu_time_total),
            self._time(event.cpu_time_total),
            self._time(event.cpu_time),
        ]
        if self.device:
            own = event.self_device_time_total
            share = 100 * own / self.device_total if self.device_total else 0.0
            cells += [self._time(own), f"{share:.2f}%"]
            cells += [self._time(event.device_time_total), self._time(event.device_time)]
        if self.has_memory:
            cells += [
                format_bytes(event.cpu_memory_usage),
                format_bytes(event.self_cpu_memory_usage),
            ]
        cells.append(str(event.count))
        if self.has_shapes:
            cells.append(shortened(str(event.input_shapes or []), self.shapes_width))
        if self.has_source:
            source = event.stack[0] if event.stack else ""
            cells.append(shortened(source, self.source_width, end=True))
        if self.has_flops:
            cells.append(f"{event.flops:,}" if event.flops else "--")
        return cells

    def _share(self, time: float) -> str:
        return f"{100 * time / self.total:.2f}%" if self.total else "0.00%"

    def _time(self, time: float) -> str:
        if self.time_unit is None:
            return format_time(time)
        return f"{time / _UNITS[self.time_unit]:.3f}{self.time_unit}"


def shortened(text: str, width: int, *, end: bool = False) -> str:
    """At most `width` characters, the first of them or the last."""
    if len(text) <= width:
        return text
    return "..." + text[-max(1, width - 3) :] if end else text[: max(1, width - 3)] + "..."


def format_bytes(count: int) -> str:
    """In the unit that suits it."""
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GB"
