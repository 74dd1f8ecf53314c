"""`torch._C._profiler`: the options of a profiler that other machines have."""

from __future__ import annotations

from typing import Any

__all__ = ["_ExperimentalConfig"]

_OPTIONS: dict[str, Any] = {
    "profiler_metrics": (),
    "profiler_measure_per_kernel": False,
    "verbose": False,
    "performance_events": (),
    "enable_cuda_sync_events": False,
    "adjust_profiler_step": False,
    "disable_external_correlation": False,
    "profile_all_threads": False,
    "capture_overload_names": False,
    "record_python_gc_info": False,
    "expose_kineto_event_metadata": False,
    "custom_profiler_config": "",
    "adjust_timestamps": False,
    "trace_only": False,
}


class _ExperimentalConfig:
    """Options of torch's profiler for hardware counters; kept, without an effect here.

    >>> from pullback._C._profiler import _ExperimentalConfig
    >>> _ExperimentalConfig(verbose=True).verbose
    True
    """

    def __init__(self, *values: Any, **options: Any) -> None:
        given = dict(zip(_OPTIONS, values, strict=False)) | options
        if unknown := sorted(given.keys() - _OPTIONS):
            raise TypeError(f"_ExperimentalConfig: there is no option {unknown[0]!r}.")
        vars(self).update({**_OPTIONS, **given})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"_ExperimentalConfig has no option {name!r}", name=name, obj=self)
