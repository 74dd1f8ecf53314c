"""A plugin of pytest that records which lines each test function comes by.

`python -m pytest -p mutate.recording`, with MUTATE_DATA and MUTATE_SOURCES in the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import coverage


class Recorder:
    """Lines by test function: the parameters of one are not told apart."""

    def __init__(self, data: str, sources: list[str]) -> None:
        self.data = data
        self.coverage = coverage.Coverage(
            data_file=data, include=[f"{source}/*" for source in sources], config_file=False
        )
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage.start()
        self.tracer = sys.gettrace()

    def pytest_runtest_protocol(self, item: Any) -> None:
        """A test begins: what runs from here on is its own. One before may have stopped tracing."""
        if sys.gettrace() is not self.tracer:
            sys.settrace(self.tracer)
        self.coverage.switch_context(function_of(item.nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """How long it took, and whether it can be used at all."""
        name = function_of(report.nodeid)
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.failed:
            self.failed.add(name)

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        self.coverage.stop()
        self.coverage.save()
        usable = {name: took for name, took in self.seconds.items() if name not in self.failed}
        Path(self.data + ".seconds").write_text(json.dumps(usable), encoding="utf-8")


def function_of(nodeid: str) -> str:
    """A test without its parameters."""
    return nodeid.partition("[")[0]


def pytest_configure(config: Any) -> None:
    """Begin before the package is imported."""
    sources = os.environ["MUTATE_SOURCES"].split(os.pathsep)
    config.pluginmanager.register(Recorder(os.environ["MUTATE_DATA"], sources), "mutate-recorder")
