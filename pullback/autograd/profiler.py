"""The profiler: what each operator and each backward step costs.

`pullback.profiler` has the newer face, with schedules; both find the same things.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any, TypeVar

from pullback.autograd.profile import recorder as recording
from pullback.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    events_of,
)
from pullback.core import origin
from pullback.core.device import holder_of
from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "emit_nvtx",
    "profile",
    "record_function",
]

Called = TypeVar("Called", bound=Callable[..., Any])

# Of the last profile that ended: see `Recorder.costs`.
last_costs: dict[Any, tuple[int, int]] = {}


class profile:
    """Inside, every operator, custom Function and backward step is timed.

    Costs nothing while it is off, and about a microsecond for each operator while it is on.

    >>> import pullback as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> with torch.autograd.profiler.profile() as prof:
    ...     (x * 2).sum().backward()
    >>> [event.name for event in prof.function_events if event.name.startswith("aten::")]
    ['aten::mul', 'aten::sum']
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))  # doctest: +SKIP
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        # `with_modules` tells only of compiled modules, in torch too; `use_kineto` and
        # `experimental_config` choose how torch records, the rest how it keeps and names files.
        if not use_cpu:
            raise RuntimeError("profile(use_cpu=False) has nothing to record: all runs on the CPU.")
        wanted = use_device or ("cuda" if use_cuda else None)
        self.use_device: str | None = None if wanted == "cpu" else wanted
        if self.use_device is not None and holder_of(self.use_device) is None:
            self.use_device = None
            warnings.warn(
                f"profile: no {wanted} device is here; only the CPU is recorded.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.entered = False
        self._recorder: recording.Recorder | None = None
        self._begin = 0
        self._events: EventList | None = None if enabled else EventList()

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("This profile was entered before: make a new one for each `with`.")
        recorder = self._recorder_class()(
            shapes=self.record_shapes or self.with_flops,
            memory=self.profile_memory,
            stack=self.with_stack,
        )
        try:
            self.entered, self._recorder, self._begin = True, recorder, now()
            recording.switch_on(recorder)
            return self  # noqa: TRY300 (what comes after it is taken back too)
        except BaseException:
            self._stop()
            self.entered, self._recorder = False, None
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._stop()
        except BaseException:
            self._stop()
            raise
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self._sort_out(recorder)

    def _recorder_class(self) -> type[recording.Recorder]:
        if self.use_device is None:
            return recording.Recorder
        from pullback.autograd.profile.on_device import DeviceRecorder

        return DeviceRecorder

    def _stop(self) -> None:
        """Record no more, unless it was toggled off already."""
        if self._recorder is not None and self._recorder in recording.active():
            recording.switch_off(self._recorder)

    def _sort_out(self, recorder: recording.Recorder) -> None:
        """Make events of what was recorded."""
        costs = recorder.costs()
        events = events_of(recorder.close(), self._begin, recorder.freed)
        if self.with_flops:
            _count_flops(events)
        if not self.record_shapes:
            for event in events:
                event.input_shapes = []
        self._events = EventList(
            events,
            use_device=self.use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )
        last_costs.clear()
        last_costs.update(costs)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any = None) -> None:
        """Pause or go on, inside the `with`."""
        if self._recorder is None:
            raise RuntimeError("The profile is not running: toggle it inside its `with`.")
        on = self._recorder in recording.active()
        if enabled and not on:
            recording.switch_on(self._recorder)
        elif on and not enabled:
            recording.switch_off(self._recorder)

    @property
    def function_events(self) -> EventList:
        """Everything that happened, in order; after the `with`."""
        if self._events is None:
            raise RuntimeError("The profile has not finished: read its results after the `with`.")
        return self._events

    def events(self) -> EventList:
        """The same as `function_events`."""
        return self.function_events

    def __repr__(self) -> str:
        return "<unfinished profile>" if self._events is None else self._events.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all events together."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums by name; see `EventList.key_averages`."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def by_module(self, model: Any) -> Any:
        """Times by module, of what ran inside `autograd.graph.name_modules(model)`.

        >>> import pullback as torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
        >>> with torch.autograd.profiler.profile() as prof:
        ...     with torch.autograd.graph.name_modules(model):
        ...         model(torch.ones(1, 2)).sum().backward()
        >>> sorted(one.label for one in prof.by_module(model))
        ['', '0: Linear(2, 3)', '1: Tanh()']
        """
        from pullback.autograd.profile.by_module import by_module

        return by_module(self.function_events, model)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        return self.function_events.total_average()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """One row for each event; `key_averages().table()` has one for each name."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing and Perfetto; compressed if `path` ends in `.gz`."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the user's stacks with what they cost; needs `with_stack=True`."""
        if not self.with_stack:
            raise RuntimeError("export_stacks() needs profile(with_stack=True).")
        self.function_events.export_stacks(path, metric)


class record_function:
    """Names a part of the program in a profile: a `with` block, or a function as decorator.

    >>> import pullback as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     with torch.autograd.profiler.record_function("forward"):
    ...         y = torch.ones(3).exp()
    >>> [event.name for event in prof.function_events]
    ['forward', 'aten::ones', 'aten::exp']
    """

    __slots__ = ("_start", "args", "name")

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._start: int | None = None

    def __enter__(self) -> record_function:
        self._start = now() if recording.active() else None
        return self

    def __exit__(self, *raised: object) -> None:
        if self._start is None:
            return
        end = now()
        for recorder in recording.active():
            recorder.range(self.name, self._start, end, self.args)

    def __call__(self, function: Called) -> Called:
        """As a decorator."""

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named  # type: ignore[return-value]  # the same signature, by wraps


def kineto_available() -> bool:
    """Whether `profile(use_kineto=True)` can be used; it records the same as without."""
    return True


def _profiler_enabled() -> bool:
    """Whether a profiler is on."""
    return bool(recording.active())


class emit_nvtx:
    """Marks for NVIDIA's own profiler, which needs a CUDA device."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise RuntimeError(
                "emit_nvtx() needs a CUDA device; there is none here. Use profile() and "
                "export_chrome_trace() to see operators over time."
            )
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was started."""


def _count_flops(events: list[FunctionEvent]) -> None:
    """Multiplications and additions, for the operators that most of the work is in."""
    for event in events:
        shapes = event.input_shapes
        name = event.name.removeprefix("aten::")
        if name in ("mul", "add", "mul_", "add_") and shapes:
            event.flops = _product(shapes[0])
        elif name in ("mm", "bmm", "matmul", "addmm", "baddbmm"):
            pair = shapes[-2:]
            if len(pair) == 2 and all(pair):
                rows = _product(pair[0])
                event.flops = 2 * rows * (pair[1][-1] if len(pair[1]) > 1 else 1)


def _product(shape: Any) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


_refuse_others(globals())

__dir__ = _only_public(globals(), "kineto_available")
