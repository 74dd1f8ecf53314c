"""Timing small programs: `Timer` measures, `Compare` puts measurements into a table.

>>> from pullback.utils.benchmark import Timer
>>> measurement = Timer("x * 2", globals={"x": 21}, label="double").timeit(100)
>>> measurement.median > 0
True
"""

from __future__ import annotations

from typing import Any

from pullback.core.process.refused import refused
from pullback.utils.benchmark.utils.common import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)
from pullback.utils.benchmark.utils.compare import Colorize, Compare
from pullback.utils.benchmark.utils.timer import Language, Timer, timer

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]

_FUZZERS = ("FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias")
_CALLGRIND = ("CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts")


def __getattr__(name: str) -> Any:
    if name in _CALLGRIND:
        refused(__name__, "instructions are counted in C++ programs", "Use Timer.timeit.")(name)
    if name in _FUZZERS:
        refused(__name__, "inputs are not drawn here", "Use torch.testing.make_tensor.")(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
