"""Writes docs/coverage-cuda.md: every sampled operator on the device at hand, against the host.

`python -m pullback.testing.cuda_page [FILE]`; `make test-cuda` calls it.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy

import pullback
from pullback.testing.on_device import NAMES, Outcome, check, unasked_by_cupy

__all__ = ["main", "page"]

_DTYPES = ("float64", "float32", "complex128")


def main(path: str = "docs/coverage-cuda.md") -> int:
    """Run all samples and write the page; the number of operators that fail."""
    if not pullback.cuda.is_available():
        print("no CUDA device holds tensors here; nothing is written")
        return 1
    cupyx = importlib.import_module("cupyx")
    watching: dict[str, Any] = {"unasked": unasked_by_cupy, "asked_error": cupyx.DeviceSynchronized}
    started = time.monotonic()
    with pullback.backends.cudnn.flags(enabled=True, allow_tf32=False):
        outcomes = {
            dtype: [check(name, getattr(pullback, dtype), **watching) for name in NAMES]
            for dtype in _DTYPES
        }
    Path(path).write_text(page(outcomes, time.monotonic() - started))
    failed = {one.name for several in outcomes.values() for one in several if one.failures}
    print(f"{len(NAMES)} operators, {len(failed)} fail; {path} is written")
    return len(failed)


def page(outcomes: dict[str, list[Outcome]], seconds: float) -> str:
    """The page."""
    lines = ["# Operators on a CUDA device", "", *_machine(seconds), ""]
    lines += ["| dtype | operators | forward | with gradients | fail | look at values |"]
    lines += ["|---|---|---|---|---|---|"]
    for dtype, several in outcomes.items():
        run = [one for one in several if one.forward or one.failures]
        counts = (
            len(run),
            sum(1 for one in run if one.forward and not one.failures),
            sum(1 for one in run if one.backward and not one.failures),
            sum(1 for one in run if one.failures),
            sum(1 for one in run if one.waits),
        )
        lines.append(f"| {dtype} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "## Failures", ""]
    failures = [
        f"- `{one.name}` ({dtype}): {one.failures[0]}"
        for dtype, several in outcomes.items()
        for one in several
        if one.failures
    ]
    lines += failures or ["None."]
    waiting = sorted({one.name for several in outcomes.values() for one in several if one.waits})
    lines += ["", "## Operators that wait for the device", ""]
    lines += [
        "They look at values: to refuse them (singular matrices), or because sizes or the number "
        "of steps follow from them. All others wait for nothing, forward and backward.",
        "",
        ", ".join(f"`{name}`" for name in waiting) + ".",
    ]
    from pullback.operators.cuda.overrides.host import THROUGH_HOST

    through = ", ".join(f"`{name.rpartition('.')[2]}`" for name in THROUGH_HOST)
    lines += ["", "Computed on the host and brought back: " + through + ".", ""]
    return "\n".join(lines)


def _machine(seconds: float) -> list[str]:
    from pullback.operators.cuda.found import found

    runtime: Any = found.cupy.cuda.runtime
    about = pullback.cuda.get_device_properties()
    return [
        f"Written by `make test-cuda` on {about.name}: CuPy {found.cupy.__version__}, CUDA runtime "
        f"{runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}, Python "
        f"{sys.version.split()[0]}, NumPy {numpy.__version__}. "
        f"{len(NAMES)} sampled operators, each of their samples forward and backward against the "
        f"host's result; {seconds:.0f} s."
    ]


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
