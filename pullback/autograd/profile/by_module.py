"""A profiled pass by module: what each took in the forward and in the backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.graph.table import as_html, as_text

__all__ = ["ModuleTime", "ModuleTimes", "by_module"]

_HEADER = ("module", "forward us", "backward us", "share", "operators")
_BACKWARD = 1  # the scope of a node's event
_EVALUATE = "autograd::engine::evaluate_function"


@dataclass(slots=True)
class ModuleTime:
    """Microseconds of a module's own operators; those of modules inside it count to them."""

    label: str
    forward: float = 0.0
    backward: float = 0.0
    operators: int = 0

    @property
    def total(self) -> float:
        """Both."""
        return self.forward + self.backward


class ModuleTimes:
    """Modules, the most expensive first; prints as a table."""

    def __init__(self, entries: list[ModuleTime]) -> None:
        self.entries = sorted(entries, key=lambda one: -one.total)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ModuleTime]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> ModuleTime:
        return self.entries[index]

    def _rows(self) -> list[tuple[str, ...]]:
        whole = sum(one.total for one in self.entries) or 1.0
        return [
            (
                one.label or "(outside)",
                f"{one.forward:.1f}",
                f"{one.backward:.1f}",
                f"{one.total / whole:.0%}",
                str(one.operators),
            )
            for one in self.entries
        ]

    def __repr__(self) -> str:
        return as_text("time by module", _HEADER, self._rows())

    def _repr_html_(self) -> str:
        return as_html("time by module", _HEADER, self._rows())


def by_module(events: Any, model: Any) -> ModuleTimes:
    """Sums of a profiler's events by the module that was called inside `name_modules(model)`."""
    names = ModuleNames(model)
    if not names.watched:
        raise RuntimeError(
            "by_module() knows modules by their calls: run the program inside "
            "autograd.graph.name_modules(model) while the profiler is on."
        )
    found: dict[str, ModuleTime] = {}
    for event in events:
        if event.sequence_nr < 0 or event.name.startswith(_EVALUATE):
            continue
        label = names.label(names.path_at(event.sequence_nr))
        one = found.setdefault(label, ModuleTime(label))
        if event.scope == _BACKWARD:
            one.backward += event.self_cpu_time_total
        else:
            one.forward += event.self_cpu_time_total
            one.operators += 1
    return ModuleTimes(list(found.values()))
