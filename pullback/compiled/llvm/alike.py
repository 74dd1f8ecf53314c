"""Functions that several steps share: which buffers, and where in them, a table says for each call.

LLVM takes a millisecond for a loop, however short it is, and a loop that Python unrolled has the
same products and copies a hundred times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.compiled.plan.plan import Plan

__all__ = ["PARAMETERS", "Shared", "Step", "Words", "rolled"]

# Of every step's function: the program's table, its own, rows from and to, the thread's number.
PARAMETERS = "(ptr %B, ptr %S, i64 %lo, i64 %hi, i64 %tid)"


class Shared(NamedTuple):
    """A function without its name, and the words of its table for one call."""

    body: str
    words: list[int]


class Step(NamedTuple):
    """A call of a step's function, for all its rows."""

    function: str
    table: str
    rows: Any

    def __str__(self) -> str:
        given = f"ptr %B, ptr {self.table}, i64 0, i64 {self.rows}, i64 0"
        return f"  call void @{self.function}({given})"


def rolled(name: str, steps: list[Step]) -> list[str]:
    """A table of calls, and a function that goes through it: code of 60 us less for each."""
    kind, count = "{ ptr, ptr, i64 }", len(steps)
    listed = ", ".join(
        f"{kind} {{ ptr @{one.function}, ptr {one.table}, i64 {one.rows} }}" for one in steps
    )
    return [
        f"@{name}.table = private constant [{count} x {kind}] [{listed}]",
        f"define internal void @{name}(ptr %B) #0 {{", "entry:", "  br label %loop", "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
        f"  %p = getelementptr {kind}, ptr @{name}.table, i64 %k",
        "  %f = load ptr, ptr %p",
        "  %sp = getelementptr ptr, ptr %p, i64 1", "  %S = load ptr, ptr %sp",
        "  %np = getelementptr ptr, ptr %p, i64 2", "  %n = load i64, ptr %np",
        "  call void %f(ptr %B, ptr %S, i64 0, i64 %n, i64 0)",
        "  %k1 = add i64 %k, 1", f"  %m = icmp slt i64 %k1, {count}",
        "  br i1 %m, label %loop, label %end", "end:", "  ret void", "}",
    ]  # fmt: skip


class Words:
    """The table %S of a function while it is written, and the lines that read it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.words: list[int] = []
        self.lines: list[str] = []

    def _read(self, name: str, word: int) -> None:
        self.lines += [
            f"  %{name}.s = getelementptr i64, ptr %S, i64 {len(self.words)}",
            f"  %{name}.w = load i64, ptr %{name}.s",
        ]
        self.words.append(word)

    def pointer(self, name: str, slot: int) -> None:
        """%name is where the buffer of a slot begins."""
        self._read(name, slot)
        self.lines += [
            f"  %{name}.a = getelementptr ptr, ptr %B, i64 %{name}.w",
            f"  %{name} = load ptr, ptr %{name}.a",
        ]

    def offset(self, name: str, value: Any) -> str:
        """Elements from there on."""
        if not self.plan.is_fixed(value):
            return str(value)
        self._read(name, value)
        return f"%{name}.w"
