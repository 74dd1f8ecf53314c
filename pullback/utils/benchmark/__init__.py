"""Timing small programs: `Timer` measures, `Compare` puts measurements into a table.

>>> from pullback.utils.benchmark import Timer
>>> measurement = Timer("x * 2", globals={"x": 21}, label="double").timeit(100)
>>> measurement.median > 0
True
"""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.utils.benchmark import utils as utils
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

refuse_others(globals())

__dir__ = _only_public(globals(), "utils")
