"""The whole program as one module of CUDA kernels, and the steps that run it."""

from __future__ import annotations

from typing import Any

from pullback.compiled.cuda.group import GroupKernels
from pullback.compiled.cuda.launch import HEAD, Launch
from pullback.compiled.cuda.moves import cat_kernels, pad_kernels, padsum_kernels, reduce_kernels
from pullback.compiled.plan.plan import Group, Plan

__all__ = ["Kernels"]

_MOVES: dict[str, Any] = {"cat": cat_kernels, "pad": pad_kernels, "padsum": padsum_kernels,
                          "sum": reduce_kernels, "max": reduce_kernels}  # fmt: skip


class Kernels:
    """Text of a program's kernels; `steps` are lists of launches, products and eager calls.

    `steps` has a ("launch", Launch), ("dot", value) or ("call", value) for each piece of work;
    `step_of` tells which step of the plan it belongs to.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scratch = plan.slots  # the slot after the buffers
        self.scratch_bytes = 0
        self.steps: list[tuple[str, Any]] = []
        self.step_of: list[int] = []
        self._names: dict[str, str] = {}  # text without its name -> name
        self._texts: list[str] = []
        for number, step in enumerate(plan.steps):
            self._step(f"g{number}", step)
            self.step_of += [number] * (len(self.steps) - len(self.step_of))

    @property
    def text(self) -> str:
        """The module."""
        return "\n".join([HEAD, *self._texts]) if self._texts else ""

    def _step(self, name: str, step: Any) -> None:
        if isinstance(step, Group):
            written = GroupKernels(self.plan, step, name, self.scratch)
            self.scratch_bytes = max(self.scratch_bytes, written.scratch_bytes)
            for launch in written.launches:
                self._enter(written.texts[launch.kernel], launch)
            return
        v = step.value
        if v.op in ("call", "dot"):
            self.steps.append((v.op, v))
            return
        for text, launch in _MOVES[v.op](self.plan, name, v):
            self._enter(text, launch)

    def _enter(self, text: str, launch: Launch) -> None:
        """A kernel, written once however often it is launched."""
        body = text.replace(f" {launch.kernel}(", " (", 1)
        known = self._names.get(body)
        if known is None:
            known = self._names[body] = launch.kernel
            self._texts.append(text)
        made = Launch(known, launch.grid, launch.block, launch.slots, launch.numbers)
        self.steps.append(("launch", made))
