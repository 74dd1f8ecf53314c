"""Timer: runs a statement many times and measures how long that takes."""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from pullback.core.listing import only_public as _only_public
from pullback.utils.benchmark.utils.common import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]

timer = timeit.default_timer
_LONGEST_BLOCK = 0.1  # seconds; shorter ones show how much times vary
_OVERHEAD = 1e-4  # of a block's time may be reading the clock


class Language(enum.Enum):
    """What statements are written in; here only Python."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement; `globals` are the names that it sees.

    `num_threads` is a label for tables: how many threads a matrix product uses is the choice of
    NumPy's BLAS library, and is made when it is loaded (OMP_NUM_THREADS).

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.benchmark import Timer
        >>> timer = Timer("x + 1", globals={"x": torch.ones(3)}, label="add")
        >>> timer.blocked_autorange(min_run_time=0.001).title
        'add'
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise TypeError(f"Timer: stmt must be a str, got {type(stmt).__name__}.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: statements are in Python here, not in {language}.")
        if global_setup:
            raise ValueError("Timer: global_setup is for C++; put it into setup.")
        stmt, setup = (textwrap.dedent(text).strip("\n") for text in (stmt, setup))
        self._clock = timer
        self._timer = timeit.Timer(stmt, setup, timer, {} if globals is None else dict(globals))
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs, after some to warm up."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs, long enough to be measured well, for `min_run_time` seconds."""
        number = self._block_size(min_run_time)
        return self._measured(number, lambda times: sum(times) >= min_run_time, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until their middle half is within `threshold` of the median."""
        number = self._block_size(min_run_time)

        def enough(times: list[float]) -> bool:
            spent = sum(times)
            if spent >= max_run_time:
                return True
            measured = Measurement(number, times, self._task_spec)
            return spent >= min_run_time and len(times) > 3 and measured.meets_confidence(threshold)

        return self._measured(number, enough, callback)

    def _measured(
        self,
        number: int,
        enough: Callable[[list[float]], bool],
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        times: list[float] = []
        while not times or not enough(times):
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def _block_size(self, min_run_time: float) -> int:
        """How many runs make a block that the clock's own time does not disturb."""
        reading = min(self._empty() for _ in range(5))
        wanted = min(_LONGEST_BLOCK, max(reading / _OVERHEAD, min_run_time / 1000))
        number = 1
        self._timer.timeit(2)
        while (taken := self._timer.timeit(number)) < wanted:
            number *= 10 if taken < wanted / 10 else 2
        return number

    def _empty(self) -> float:
        start = self._clock()
        return self._clock() - start

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refused, as in torch: `blocked_autorange` chooses both numbers."""
        raise NotImplementedError("Timer.repeat: use blocked_autorange.")

    def autorange(self, callback: Any = None) -> NoReturn:
        """Refused, as in torch: `blocked_autorange` repeats and keeps each time."""
        raise NotImplementedError("Timer.autorange: use blocked_autorange.")

    def collect_callgrind(self, number: int = 100, **options: Any) -> NoReturn:
        """Refused: instructions of Python programs say little."""
        raise RuntimeError(
            "Timer.collect_callgrind: instructions are counted in C++ programs; use timeit."
        )


__dir__ = _only_public(globals())
