"""The newer face of the profiler: `start`, `step` and `stop`, and a schedule of what to record."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from pullback.autograd import profiler as _profiler
from pullback.autograd.profiler import record_function
from pullback.autograd.profiler_util import EventList
from pullback.core.device import holder_of
from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """Where the work is done that a profile records.

    >>> import pullback as torch
    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does in one step.

    >>> import pullback as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=1)
    >>> [plan(step).name for step in range(3)]
    ['NONE', 'WARMUP', 'RECORD_AND_SAVE']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded here.

    >>> import pullback as torch
    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """
    here = {ProfilerActivity.CPU}
    return here if holder_of("cuda") is None else here | {ProfilerActivity.CUDA}


def kineto_available() -> bool:
    """Whether torch's own recording library is there: never, nothing here needs it.

    >>> import pullback as torch
    >>> isinstance(torch.profiler.kineto_available(), bool)
    True
    """
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Steps in rounds: `wait` without recording, `warmup` thrown away, `active` recorded.

    >>> import pullback as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            "schedule: active must be at least 1 and the others at least 0, got "
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}."
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Steps count from 0, got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:  # the first round does not wait
            step += wait
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each window as a trace file into a folder.

    >>> import os, tempfile
    >>> import pullback as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ready = torch.profiler.tensorboard_trace_handler(folder, "worker0")
    ...     with torch.profiler.profile(on_trace_ready=ready):
    ...         _ = torch.ones(3).exp()
    ...     [name.split(".")[0] for name in os.listdir(folder)]
    ['worker0']
    """

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}"))

    return write


class profile:  # noqa: N801 (torch's name)
    """Records what a program does, all of it or the steps that a schedule names.

    >>> import pullback as torch
    >>> x = torch.ones(3)
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     y = x.exp()
    >>> prof.events()[0].name, prof.events()[0].input_shapes
    ('aten::exp', [[3]])
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        if execution_trace_observer is not None:
            raise NotImplementedError(
                "profile(execution_trace_observer=...) is torch's own file format; use "
                "export_chrome_trace()."
            )
        wanted = set(activities) if activities is not None else supported_activities()
        if not wanted:
            raise AssertionError("profile: activities is empty; name ProfilerActivity.CPU.")
        self.activities = wanted
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: _profiler.profile | None = None
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
        }
        # Of others than the CPU: the one that is there, or one that is not, which is told.
        there = supported_activities()
        others = sorted((a for a in wanted if a.name != "CPU"), key=lambda a: a not in there)
        self._device = others[0].name.lower() if others else "cuda" if use_cuda else ""
        self._keeps = acc_events
        self._kept: list[Any] = []
        self._step: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        try:
            self.start()
            return self  # noqa: TRY300 (what comes after it is taken back too)
        except BaseException:
            if self.profiler is not None:
                self.profiler.__exit__(None, None, None)
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self.stop()
        except BaseException:
            if self.profiler is not None:
                self.profiler.__exit__(None, None, None)
            raise

    def start(self) -> None:
        """Begin with step 0."""
        self._change(ProfilerAction.NONE, self.current_action)
        self._start_step()

    def stop(self) -> None:
        """End; a window that is open is closed and handed to `on_trace_ready`."""
        self._end_step()
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._change(self.current_action, ProfilerAction.NONE)
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The program's next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._change(before, ProfilerAction.NONE)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
            before = ProfilerAction.NONE
        self._change(before, self.current_action)
        self._start_step()

    def _change(self, before: ProfilerAction, after: ProfilerAction) -> None:
        was_on, is_on = (a is not ProfilerAction.NONE for a in (before, after))
        thrown_away = before is ProfilerAction.WARMUP and after is not ProfilerAction.WARMUP
        if was_on and (not is_on or thrown_away):
            assert self.profiler is not None
            self.profiler.__exit__(None, None, None)
            if self._keeps and not thrown_away:
                self._kept += self.profiler.function_events
            was_on = False
        if is_on and not was_on:
            device = self._device or None
            self.profiler = _profiler.profile(use_device=device, **self._options)
            self.profiler.__enter__()

    def _start_step(self) -> None:
        if self.record_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def events(self) -> EventList:
        """What the last window holds; with `acc_events=True`, what all of them hold."""
        if self.profiler is None:
            raise AssertionError("The profile has not run: nothing to read yet.")
        events = self.profiler.function_events
        if not self._keeps:
            return events
        memory = events.profile_memory
        return EventList(self._kept, profile_memory=memory, with_flops=events.with_flops)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums by name."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def by_module(self, model: Any) -> Any:
        """Times by module, of what ran inside `autograd.graph.name_modules(model)`."""
        from pullback.autograd.profile.by_module import by_module

        return by_module(self.events(), model)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing and Perfetto; compressed if `path` ends in `.gz`."""
        from pullback.autograd.profile.trace import write_trace

        write_trace(self.events(), path, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the user's stacks with what they cost; needs `with_stack=True`."""
        if not self._options["with_stack"]:
            raise RuntimeError("export_stacks() needs profile(with_stack=True).")
        self.events().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Any = None) -> None:
        """Pause or go on while recording."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def add_metadata(self, key: str, value: str) -> None:
        """A note that goes into the trace file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same, of JSON."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


_refuse_others(globals())

__dir__ = _only_public(globals())
