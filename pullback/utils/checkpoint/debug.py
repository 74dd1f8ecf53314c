"""debug=True: which operators the forward and the re-run called, from where, with which values."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

from pullback.core.origin import internal
from pullback.core.tensor import Tensor
from pullback.utils._python_dispatch import TorchDispatchMode
from pullback.utils.checkpoint.errors import CheckpointError


class OperatorLog:
    """What both runs called."""

    def __init__(self) -> None:
        self.forward = Recording()
        self.rerun = Recording()

    def contexts(self) -> tuple[Recording, Recording]:
        """For `context_fn`."""
        return self.forward, self.rerun

    def explaining(self, unpack: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        """`unpack`, its errors told with the operators of both runs, and values compared."""

        def explained(holder: Any) -> Tensor:
            self.rerun.calls.clear()
            try:
                value = unpack(holder)
            except CheckpointError as error:
                raise CheckpointError(self.text()) from error
            if self.rerun.calls:  # this was the unpack that ran the function again
                self.compare()
            return value

        return explained

    def compare(self) -> None:
        """Raise if the re-run computed other values; it may end before the forward did."""
        pairs = zip(self.forward.calls, self.rerun.calls, strict=False)
        for number, (before, now) in enumerate(pairs):
            if before.text != now.text:
                raise CheckpointError(_other_operator(number, before, now))
            if before.results != now.results:
                raise CheckpointError(_other_values(number, before, now))

    def text(self) -> str:
        """Both lists, with the lines that called each operator."""
        return (
            "checkpoint: the re-run of a function differs from its forward (the error above says "
            "how). These operators ran; the first line that differs is where to look.\n"
            f"In the forward:\n{self.forward.text()}\nIn the re-run:\n{self.rerun.text()}"
        )


class Call(NamedTuple):
    """One call of an operator."""

    text: str  # its name, with shapes and dtypes
    stack: list[traceback.FrameSummary]  # the user's lines, innermost last
    given: tuple[Any, ...]  # checksums of its arguments before it ran
    results: tuple[Any, ...]  # and of what it returned

    def place(self) -> str:
        """The user's line."""
        if not self.stack:
            return ""
        last = self.stack[-1]
        return f" at {os.path.basename(last.filename)}:{last.lineno} (`{last.line}`)"


class Recording(TorchDispatchMode):
    """Notes every operator that is called inside; may be entered again."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operator and note it, with its arguments' shapes and the user's lines."""
        given = tuple(map(_checksum, args))
        out = func(*args, **(kwargs or {}))
        shown = ", ".join(_described(arg) for arg in args)
        stack = [line for line in traceback.extract_stack() if not internal[line.filename]]
        # Of an uninitialised tensor the values say nothing.
        known = () if "empty" in str(func) else (_checksum(out),)
        text = f"{func}({shown}) -> {_described(out)}"
        self.calls.append(Call(text, stack[-3:], given, known))
        return out

    def text(self) -> str:
        """One paragraph per operator."""
        lines = []
        for number, call in enumerate(self.calls):
            lines.append(f"  {number}: {call.text}")
            lines.extend(f"      {at.filename}:{at.lineno} in {at.name}" for at in call.stack)
        return "\n".join(lines) or "  (none)"


def _checksum(value: Any) -> Any:
    """A number that values of a tensor give and others almost surely do not."""
    if isinstance(value, Tensor):
        try:
            return crc32(value._array.tobytes())
        except (AttributeError, TypeError, RuntimeError, NotImplementedError):
            return None  # no values to be had: on meta, or of a class of the user's
    if isinstance(value, tuple | list):
        return tuple(map(_checksum, value))
    return None


def _other_operator(number: int, before: Call, now: Call) -> str:
    return (
        "checkpoint: the re-run of a function does not call the same operators. The first that "
        f"differs is number {number}: the forward called {before.text}{before.place()}, the re-run "
        f"{now.text}{now.place()}. Gradients would be wrong. {_SAME_AGAIN}"
    )


def _other_values(number: int, before: Call, now: Call) -> str:
    pairs = enumerate(zip(before.given, now.given, strict=False))
    changed = [str(at) for at, (one, other) in pairs if one != other]
    if changed:
        why = f"Argument {' and '.join(changed)} came with other values: state that was changed"
    else:
        why = "Its tensors were the same: a number, random or of changed state, was another"
    return (
        "checkpoint: the re-run of a function computes other values. The first operator that "
        f"differs is number {number}, {now.text}{now.place()}. {why} since the forward. Gradients "
        f"would be wrong. {_SAME_AGAIN}"
    )


_SAME_AGAIN = (
    "The function must do the same again: pass what changes as an argument, keep random numbers "
    "under preserve_rng_state=True, and write to nothing that outlives the call."
)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_described, value))}]"
    # Which number it is shows in the values that come out; the text is for the kind of call.
    return "number" if type(value) is float else repr(value)
