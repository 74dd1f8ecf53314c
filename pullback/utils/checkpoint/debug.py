"""debug=True: which operators the forward and the re-run called, and from where."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

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
        """`unpack`, its errors told with the operators of both runs."""

        def explained(holder: Any) -> Tensor:
            self.rerun.calls.clear()
            try:
                return unpack(holder)
            except CheckpointError as error:
                raise CheckpointError(self.text()) from error

        return explained

    def text(self) -> str:
        """Both lists, with the lines that called each operator."""
        return (
            "checkpoint: the re-run of a function differs from its forward (the error above says "
            "how). These operators ran; the first line that differs is where to look.\n"
            f"In the forward:\n{self.forward.text()}\nIn the re-run:\n{self.rerun.text()}"
        )


class Recording(TorchDispatchMode):
    """Notes every operator that is called inside; may be entered again."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[traceback.FrameSummary]]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator and note it, with its arguments' shapes and the user's lines."""
        out = func(*args, **(kwargs or {}))
        shown = ", ".join(_described(arg) for arg in args)
        stack = [line for line in traceback.extract_stack() if not internal[line.filename]]
        self.calls.append((f"{func}({shown}) -> {_described(out)}", stack[-3:]))
        return out

    def text(self) -> str:
        """One paragraph per operator."""
        lines = []
        for number, (call, stack) in enumerate(self.calls):
            lines.append(f"  {number}: {call}")
            lines.extend(f"      {line.filename}:{line.lineno} in {line.name}" for line in stack)
        return "\n".join(lines) or "  (none)"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_described, value))}]"
    return repr(value)
