"""What became of a function: its programs, with the user's lines, and every refusal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.profiling import step_names

__all__ = ["Explanation", "explain", "program_text", "step_lines"]


@dataclass
class Explanation:
    """What `explain(function)(*args)` found; printed, it reads as a report."""

    name: str
    programs: list[str] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    op_count: int = 0
    seconds: float = 0.0
    # Calls, or parts of calls, that were captured; one has two programs where backward is apart.
    graph_count: int = 0
    breaks: list[str] = field(default_factory=list)  # between two parts, Python does an instruction
    tree: list[str] = field(default_factory=list)  # parts and breaks, indented

    @property
    def graph_break_count(self) -> int:
        """Number of breaks, and of refusals: each of those means that a call ran eagerly."""
        return len(self.break_reasons)

    @property
    def break_reasons(self) -> list[str]:
        """Why calls ran in parts, or eagerly."""
        return self.breaks + self.reasons

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.programs)} programs of {self.op_count} captured calls, "
                 f"made in {self.seconds:.2f} s"]  # fmt: skip
        lines += self.tree if self.breaks else []
        lines += [f"runs eagerly: {reason}" for reason in self.reasons]
        lines += [f"guard: {guard}" for guard in self.guards]
        return "\n".join([*lines, *self.programs])


def explain(function: Any, **options: Any) -> Any:
    """A function of the arguments that captures one call and tells what became of it.

    >>> import pullback as torch
    >>> from pullback.compiled.explain import explain
    >>> found = explain(lambda x: (x.sin() * 2).sum(), backend="python")(torch.ones(3))
    >>> found.graph_count, found.op_count, found.graph_break_count
    (1, 3, 0)
    """
    from pullback.compiled.frontend import CompiledFunction, compile

    compiled = function if isinstance(function, CompiledFunction) else compile(function, **options)
    compiled = vars(compiled).get("_compiled", compiled)  # of a module

    def call(*args: Any, **kwargs: Any) -> Explanation:
        start = time.perf_counter()
        known = len(compiled.reasons)
        compiled(*args, **kwargs)
        seconds = time.perf_counter() - start
        found = Explanation(compiled._name, reasons=compiled.reasons[known:], seconds=seconds)
        _add(found, compiled.entries, 1)
        return found

    return call


def _add(found: Explanation, entries: list[Any], depth: int) -> None:
    """Tell of these entries, and of the parts behind each."""
    for entry in entries:
        captured = entry.captured
        found.graph_count += 1
        found.op_count += len(captured.calls)
        found.guards += _guards_of(entry)
        found.programs += [program_text(program) for program in entry.programs()]
        shape = "  " * depth
        found.tree.append(f"{shape}program of {len(captured.calls)} captured calls")
        broken = getattr(captured.tree, "at", None)
        if broken is None:
            continue
        place = f" (at {broken.origin})" if broken.origin is not None else ""
        found.breaks.append(f"{broken.why}{place}")
        found.tree.append(f"{shape}Python: {broken.name.lower()}{place}: {broken.why}")
        for part in broken.parts.values():
            found.reasons += part.reasons
            _add(found, part.entries, depth + 1)


def _guards_of(entry: Any) -> list[str]:
    guards = entry.guards
    made = [f"argument {n}: {_shown(wanted)}" for n, wanted in enumerate(guards.leaves)]
    made += [f"held tensor: {_shown(wanted)}" for _, wanted in guards.held]
    count = len(guards.world)
    if count:
        made.append(f"{count} values in closures, globals and objects that the function read")
    return made


def _shown(wanted: Any) -> str:
    if len(wanted) == 2 and wanted[0] is not None:
        return "an object that is looked at" if wanted[1] is None else f"any {wanted[1].__name__}"
    if wanted[0] is None:
        return f"equal to {wanted[1]!r}"
    kind, dtype, shape, strides, requires_grad, _ = wanted
    ends = ", requires grad" if requires_grad else ""
    return f"{kind.__name__} {dtype}{list(shape)}, strides {strides}{ends}"


def program_text(program: Any) -> str:
    """A program as readable text, one value a line, with the line of the user's code."""
    if program.backend == "python":
        return str(program.source)
    plan = program.plan
    lines = [f"program: {len(plan.steps)} steps, {plan.arena} bytes of temporary memory"]
    for number, step in enumerate(plan.steps):
        nodes = step.nodes
        if hasattr(step, "domain"):
            read, written = _traffic(plan, step)
            lines.append(f"  step {number}: loop over {step.domain}, {len(nodes)} values, "
                         f"{read} bytes read, {written} written")  # fmt: skip
        else:
            nodes = [step.product, *nodes] if hasattr(step, "product") else nodes
            lines.append(f"  step {number}: {_name(plan, nodes[0])}")
        lines += [f"    {_line(one)}" for one in nodes]
    return "\n".join(lines)


def step_lines(program: Any) -> list[str]:
    """A line for each step of a program: what it joins, over which sizes, from which lines."""
    if program.backend != "llvm":
        return [
            f"{call.name} {call.origin or ''}".rstrip() for call in getattr(program, "calls", ())
        ]
    lines = []
    for step, name in zip(program.plan.steps, step_names(program.plan), strict=True):
        places = dict.fromkeys(str(v.origin) for v in step.nodes if v.origin is not None)
        lines.append(f"{name.removeprefix('compiled::')}  {', '.join(places)}".rstrip())
    return lines


def _name(plan: Any, v: Val) -> str:
    return f"eager kernel {plan.builder.calls[v.attr].name}" if v.op == "call" else v.op


def _line(v: Val) -> str:
    read = ", ".join(_operand(one) for one in v.ins)
    text = f"v{v.id} = {v.op}({read})"
    return f"{text:44s} # {v.dtype}{list(v.shape)} {v.origin or ''}".rstrip()


def _operand(one: Val) -> str:
    while one.op == "expand":
        one = one.ins[0]
    if one.op == "const":
        return repr(one.attr[0])
    return f"v{one.id}" if not one.is_view else f"v{one.base.id}[view]"


def _traffic(plan: Any, group: Any) -> tuple[int, int]:
    """Bytes that a group reads from memory and writes to it."""
    read: dict[int, int] = {}
    for v in group.nodes:
        for one in map(plan.builder.strip, v.ins):
            if one.op not in ("const", "iota") and not group.is_local(one):
                read[one.id] = one.size * one.itemsize
    written = sum(v.size * v.itemsize for v in group.nodes if v.id in plan.stored)
    return sum(read.values()), written
