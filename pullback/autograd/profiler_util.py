"""What a profiler found: events, how they nest, and their sums by name.

Times are in microseconds since the profiler was switched on, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pullback.autograd.profile import recorder
from pullback.autograd.profile.recorder import Raw
from pullback.core.listing import only_public as _only_public

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class Interval:
    """A range of time."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start:.3f}, end={self.end:.3f})"


def format_time(microseconds: float) -> str:
    """In the unit that suits it."""
    if microseconds >= 1_000_000:
        return f"{microseconds / 1_000_000:.3f}s"
    if microseconds >= 1000:
        return f"{microseconds / 1000:.3f}ms"
    return f"{microseconds:.3f}us"


_format_time = format_time  # torch's name for it


class Times:
    """What an event and a sum of events both answer."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    # Where a device was asked for its time (`use_device`).
    device_time_total: float = 0
    self_device_time_total: float = 0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0

    @property
    def cpu_time(self) -> float:
        """Of one call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Of one call, on average."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` for people."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` for people."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` for people."""
        return format_time(self.self_cpu_time_total)


# What an event may be made with by keyword, and what stands there otherwise.
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("overload_name", "fwd_thread", "input_shapes", "stack", "use_device", "flops"),
            *("device_resource_id", "trace_name", "concrete_inputs", "kwinputs", "activity_type"),
            *("metadata_json", "flow_id", "flow_type", "flow_start", "extra_meta"),
        )
    ),
    **dict.fromkeys(
        (
            *("scope", "cpu_memory_usage", "device_memory_usage", "device_index"),
            *("external_id", "linked_correlation_id"),
        ),
        0,
    ),
    **dict.fromkeys(("sequence_nr", "node_id"), -1),
    **dict.fromkeys(
        ("is_async", "is_remote", "is_legacy", "is_user_annotation", "is_python_function"), False
    ),
    "device_type": "cpu",
}


class Kernel(NamedTuple):
    """What a device did for an event, in microseconds."""

    name: str
    device: int
    duration: float


class FunctionEvent(Times):
    """One call of an operator, one turn of a node, or one `record_function`.

    >>> from pullback.autograd.profiler_util import FunctionEvent
    >>> FunctionEvent(id=0, name="mine", thread=0, start_us=1.0, end_us=3.5).cpu_time
    2.5
    """

    overload_name: str | None
    fwd_thread: int | None
    input_shapes: Any
    stack: Any
    flops: int | None
    scope: int
    node_id: int
    sequence_nr: int
    cpu_memory_usage: int
    is_user_annotation: bool
    is_async: bool
    concrete_inputs: Any
    kwinputs: Any
    use_device: str | None

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, **more: Any
    ) -> None:
        if unknown := more.keys() - _FIELDS.keys():
            raise TypeError(
                f"FunctionEvent has no field {', '.join(sorted(unknown))}; beside the first five "
                f"it has {', '.join(_FIELDS)}."
            )
        self.id = id
        self.name = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.__dict__.update(_FIELDS | more)
        self.trace_name = more.get("trace_name") or name
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.kernels: list[Kernel] = []
        self.device_range: Interval | None = None
        # Bytes that came to be in it, less those that were freed; without and with its children.
        self.self_cpu_memory_usage = self.cpu_memory_usage
        self.seq: int | None = None  # what joins a forward with its backward in all threads

    @classmethod
    def recorded(cls, number: int, raw: Raw, begin: int, threads: dict[int, int]) -> FunctionEvent:
        """The event of a range that a recorder saw."""
        event = cls(
            *(number, raw.name, threads[raw.thread]),
            *((raw.start - begin) / 1000, (raw.end - begin) / 1000),
            overload_name="",
            input_shapes=list(raw.shapes),
            concrete_inputs=list(raw.values),
            kwinputs={},
            stack=list(raw.stack),
            scope=raw.scope,
            is_user_annotation=raw.scope == recorder.USER,
            sequence_nr=recorder.sequence_number(raw.seq),
            is_async=raw.is_async,
            is_remote=raw.node >= 0,
            node_id=raw.node,
        )
        event.seq = raw.seq
        event.self_cpu_memory_usage = raw.bytes
        if raw.device is not None:
            event.on_device(raw.device, begin)
        if raw.scope == recorder.BACKWARD or raw.name.startswith(recorder.EVALUATE):
            made_in = recorder.forward_thread(raw.seq)
            event.fwd_thread = None if made_in is None else threads.get(made_in)
        elif raw.scope == recorder.FUNCTION:
            event.fwd_thread = 0  # as torch has it: of no turn of a node
        return event

    def on_device(self, span: Any, begin: int) -> None:
        """Add the time that a device had for it."""
        start = (span.start - begin) / 1000
        length = (span.end - span.start) / 1000
        self.device_time_total = length
        self.device_index, self.device_resource_id = span.device, span.stream
        self.device_range = Interval(start, start + length)
        self.kernels.append(Kernel(self.name, span.device, length))

    @property
    def key(self) -> str:
        """What `key_averages` groups by."""
        return self.name

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]  # a property over a field
        """The device's time without what the children's took."""
        inside = sum(child.device_time_total for child in self.cpu_children)
        return max(0.0, self.device_time_total - inside)

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]  # computed here, stored in a sum
        """Time from its start to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]  # a property over a field
        """The same without what its children took."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(Times):
    """The sum of the events that share a name."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.overload_name: str | None = None
        self.scope: int | None = None
        self.is_user_annotation = False
        self.is_async = self.is_remote = self.is_legacy = False
        self.use_device: str | None = None
        self.device_type = "cpu"
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.input_shapes: list[Any] | None = None
        self.stack: list[str] | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Count `other` in."""
        if self.key is None:
            for name in ("key", "node_id", "scope", "is_user_annotation", "cpu_parent"):
                setattr(self, name, getattr(other, name))
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.cpu_children = other.cpu_children
        elif other.key != self.key:
            raise AssertionError(
                f"Only events of one name can be summed up: this is {self.key}, and {other.key} "
                "was added."
            )
        self.count += other.count
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} "
            f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events, or sums of events, with ways to look at them.

    >>> import pullback as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3).exp().exp()
    >>> {sums.key: sums.count for sums in prof.key_averages()}["aten::exp"]
    2
    """

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self.use_device = use_device
        self.profile_memory = profile_memory
        self.with_flops = with_flops

    @property
    def self_cpu_time_total(self) -> float:
        """Of all events together."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One sum for each name; also apart by shapes of arguments or by the user's lines."""
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.is_user_annotation)
            if group_by_overload_name:
                key += (event.overload_name,)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n:
                key += tuple(event.stack[:group_by_stack_n])
            sums.setdefault(key, FunctionEventAvg()).add(event)
        for one in sums.values():
            one.stack = (one.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                one.input_shapes = None
        return EventList(
            sums.values(),
            use_device=self.use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )

    def _populate_cpu_children(self) -> None:
        """Tell each event which one of its thread encloses it; of several, the innermost."""
        ordered = sorted(self, key=lambda event: (event.time_range.start, -event.time_range.end))
        for event in self:
            event.cpu_parent, event.cpu_children = None, []
        _nest(ordered)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None  # the next may have another name
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """As text, one row each; `sort_by` is an attribute of the rows, largest first."""
        from pullback.autograd.profile.table import Table  # wanted by few

        return Table(
            self,
            widths=(max_name_column_width, max_src_column_width, max_shapes_column_width),
            time_unit=time_unit,
        ).text(sort_by=sort_by, row_limit=row_limit, header=header, top_only=top_level_events_only)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing and Perfetto; compressed if `path` ends in `.gz`."""
        from pullback.autograd.profile.trace import write_trace

        write_trace(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can weigh lines by."""
        return ["self_cpu_time_total", "self_device_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the user's stacks with what they cost, for flame graph tools."""
        from pullback.autograd.profile.trace import write_stacks

        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"export_stacks: metric {metric!r} is not known; use one of "
                f"{self.supported_export_stacks_metrics()}."
            )
        write_stacks(self, path, metric)


def events_of(raws: list[Raw], begin: int, freed: list[tuple[int, int, int]]) -> list[Any]:
    """Events in the order of their starts, each knowing who is inside whom."""
    threads: dict[int, int] = {}
    for raw in raws:
        threads.setdefault(raw.thread, len(threads) + 1)
    # What starts together is sorted from outside in: the longer one first, then what ended last.
    order = sorted(range(len(raws)), key=lambda i: (raws[i].start, -raws[i].end, -i))
    events = [FunctionEvent.recorded(n, raws[i], begin, threads) for n, i in enumerate(order)]
    _nest(events)
    events = _with_frees(events, begin, freed, threads)
    for event in reversed(events):  # children before their parents
        event.cpu_memory_usage += event.self_cpu_memory_usage
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
    return events


def _nest(events: list[FunctionEvent]) -> None:
    open_ones: dict[tuple[int, int], list[FunctionEvent]] = {}
    for event in events:
        if event.is_async:
            continue
        stack = open_ones.setdefault((event.thread, event.node_id), [])
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)


def _with_frees(
    events: list[FunctionEvent],
    begin: int,
    freed: list[tuple[int, int, int]],
    threads: dict[int, int],
) -> list[FunctionEvent]:
    """Charge freed memory to the innermost event that was open, or to an event of its own."""
    alone: list[FunctionEvent] = []
    for time, in_thread, size in freed:
        threads.setdefault(in_thread, len(threads) + 1)
        at = (time - begin) / 1000
        holder = _innermost(events, at, threads[in_thread])
        if holder is not None:
            holder.self_cpu_memory_usage += size
            continue
        raw = Raw("[memory]", time, time, in_thread, recorder.FUNCTION, None, size)
        alone.append(FunctionEvent.recorded(len(events) + len(alone), raw, begin, threads))
    return events + alone


def _innermost(events: list[FunctionEvent], at: float, thread: int) -> FunctionEvent | None:
    from bisect import bisect_right

    index = bisect_right(events, at, key=lambda event: event.time_range.start) - 1
    while index >= 0 and events[index].thread != thread:
        index -= 1
    event: FunctionEvent | None = events[index] if index >= 0 else None
    while event is not None and event.time_range.end < at:
        event = event.cpu_parent
    return event


def linked(events: Iterable[FunctionEvent]) -> Iterator[tuple[FunctionEvent, FunctionEvent]]:
    """Pairs of a forward event and the event of the node that it made."""
    made: dict[int, FunctionEvent] = {}
    backward = []
    for event in events:
        if event.seq is None:
            continue
        if event.scope == recorder.BACKWARD:
            backward.append(event)
        elif not event.name.startswith(recorder.EVALUATE):
            made.setdefault(event.seq, event)
    for event in backward:
        if event.seq in made:
            yield made[event.seq], event


__dir__ = _only_public(globals())
