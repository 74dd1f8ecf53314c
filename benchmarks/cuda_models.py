"""Training steps of whole models on a CUDA device, torch beside pullback: eager, graph, compiled.

`python -m benchmarks.cuda_models [NAME ...]`; `make bench-cuda` runs it last. The models are those
that the tests train (`tests/cuda/models.py`), with sizes at which the host's part shows. Times are
medians of milliseconds; every column is torch's time over ours.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.cuda import _replayed, _timed
from tests.cuda.models import MODELS, NOT_CAPTURED, REFUSED

__all__ = ["main"]


def main(*names: str) -> int:
    """Measure the models of these names, or all; print a line for each."""
    import torch

    import pullback

    chosen = [name for name in names or MODELS if name not in REFUSED]
    rows: dict[str, list[str]] = {name: [name] for name in chosen}
    for measure in (_eager, _graph):  # graphs last: after one, every call looks for streams
        for name, row in rows.items():
            known = measure is _eager or name not in NOT_CAPTURED
            row += _pair(measure, torch, pullback, name) if known else ["-"] * 3
    print("model | eager, torch | ours | ratio | graph, torch | ours | ratio | compiled, ours")
    for name, row in rows.items():
        print(" | ".join([*row, _number(_tried(_compiled, pullback, name))]), flush=True)
    return 0


def _eager(library: Any, name: str) -> float:
    return _timed(library, MODELS[name](library, "cuda"))


def _graph(library: Any, name: str) -> float:
    return _replayed(library, MODELS[name](library, "cuda"))


def _compiled(library: Any, name: str) -> float:
    return _timed(library, library.compile(MODELS[name](library, "cuda")))


def _pair(measure: Any, theirs: Any, ours: Any, name: str) -> list[str]:
    both = _tried(measure, theirs, name), _tried(measure, ours, name)
    first, second = both
    known = isinstance(first, float) and isinstance(second, float)
    return [*map(_number, both), f"{first / second:.2f}" if known else "-"]


def _tried(measure: Any, library: Any, name: str) -> float | str:
    """The figure, or what went wrong: one model must not hide the others."""
    try:
        found: float | str = measure(library, name)
    except Exception as error:
        found = f"{type(error).__name__}: {str(error)[:120]}"
    library.cuda.empty_cache()
    return found


def _number(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
