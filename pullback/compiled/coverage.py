"""What becomes of each operator in a compiled program; writes that column of docs/coverage.md.

`python -m pullback.compiled.coverage` writes the page, a test keeps it current.
"""

from __future__ import annotations

import warnings
from typing import Any

import pullback
from pullback.compiled.capture.capture import Captured, capture
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.ir.values import EW, REDUCTIONS, live_values
from pullback.compiled.lower.kernels import NeedsMemory
from pullback.compiled.lower.program import Lowered
from pullback.testing.coverage import COVERAGE
from pullback.testing.coverage_page import PAGE, page
from pullback.testing.samples import SAMPLES, resolve, samples_for

__all__ = ["main", "word_of", "words"]

_MOST_SAMPLES = 4
_FREE = frozenset({"input", "const", "iota", "view", "expand", "result"})
_ORDER = ("eager", "opaque", "lowered", "fused")  # worst first


def words() -> dict[str, str]:
    """The word of every operator that has samples."""
    return {name: word_of(name) for name in COVERAGE if name in SAMPLES}


def word_of(name: str) -> str:
    """`fused`, `lowered`, `opaque` or `eager`: the best that a real sample of it comes to.

    Complex numbers and half precision pass through programs as eager kernels, whatever the
    operator, so samples of them tell nothing.
    """
    function: Any = resolve(pullback, name)
    found = {"eager"}
    for number, sample in enumerate(samples_for(name)):
        if number >= _MOST_SAMPLES:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                captured = capture(lambda: sample.call(function), (), {})  # noqa: B023 (called here)
        except CannotCapture:
            continue
        except Exception:  # what eager refuses is tested elsewhere
            continue
        if not _is_empty(captured):  # those run on NumPy, whatever the operator
            found.add(_word(captured))
    return max(found, key=_ORDER.index)


def _is_empty(captured: Captured) -> bool:
    values = [one.value for one in captured.inputs]
    values += [value for call in captured.calls for value in call.results]
    return any(0 in value.shape for value in values)


def _word(captured: Captured) -> str:
    """What the forward of a call is made of."""
    results: Any = [one.value for one in captured.outputs if one.kind == "value"]
    results += [value for _, value in captured.writes]
    calls = captured.calls[: captured.forward]
    inputs = [one.value for one in captured.inputs]
    try:
        lowered = Lowered(calls, inputs, results, {}, stores=True)
    except NeedsMemory:
        return "opaque"
    kinds = {one.op for one in live_values(lowered.b.values, lowered.outputs)} - _FREE
    if "call" in kinds:
        return "opaque"
    return "fused" if kinds <= EW | REDUCTIONS | {"copy"} else "lowered"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(words()), encoding="utf-8")


if __name__ == "__main__":
    main()
