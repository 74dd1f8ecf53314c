"""The engine's order of a pass, part by part: what a compiler's graph has as nodes of its own.

Hooks, a node's formula, accumulation each are a step with a name. One subclass writes the steps
down (`whole.py`), another does those that were not done yet (`compiled_pass.py`); so both agree.
"""

from __future__ import annotations

from typing import Any

from pullback.core.node import AccumulateGrad, node_and_number
from pullback.core.view import NOWHERE
from pullback.engine import ordered

__all__ = ["Walk"]


class Walk:
    """Goes through a pass; gradients are whatever the subclass makes them."""

    def __init__(self, task: ordered.Task, place_of: dict[int, int]) -> None:
        self.task, self.place_of = task, place_of
        self.plan = ordered.Plan(task)
        self.visits = ordered.visits_of(task)
        self.inbox: dict[Any, list[Any]] = {}

    def run(self) -> None:
        """Take the gradients of the roots to leaves and captures."""
        for edge, g in self.task.roots:
            node, number = node_and_number(edge)
            if node is not None and node in self.plan.reached:
                ordered.add(self.task, self.inbox, node, number, g)
        for node, is_run in self.visits:
            self.visit(node, is_run)

    def visit(self, node: Any, is_run: bool) -> None:
        """One node's turn, as `ordered.visit` has it."""
        task = self.task
        gradients = tuple(self.inbox.pop(node, [None]))
        numbers = self.plan.wanted.get(node, ()) if not task.accumulates else ()
        if is_run:
            for number in numbers:
                task.captured[node, number] = gradients[number]
        gradients = self._tensor_hooks(node, gradients)
        if not is_run:
            for number in numbers:
                task.captured[node, number] = gradients[number]
            return
        if isinstance(node, AccumulateGrad):
            self._leaf(node, gradients)
            return
        edges = self.plan.edges(task, node)
        gradients = self._all(node, "pre", gradients)
        results = self.formula(node, gradients, edges)
        results = self._all(node, "post", results, gradients)
        self.deliver(node, edges, results)

    def step(self, node: Any, sort: Any, number: int = 0) -> str:
        """The name of a part of a node's turn."""
        name = sort if isinstance(sort, str) else ".".join(map(str, sort))
        return f"{self.place_of[id(node)]}:{name}:{number}"

    def _tensor_hooks(self, node: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(gradients)
        for sort in self.tensor_sorts(node):
            number = sort[1]
            for place, hook in enumerate(self.hooks_of(node, sort)):
                step = self.step(node, sort, place)
                changed[number] = self.hook(step, "tensor_pre_hook", hook, changed[number])
        for number in self.hooks_of(node, "retained"):
            if changed[number] is not None:
                self.retain(self.step(node, "retained", number), node, number, changed[number])
        return tuple(changed)

    def _all(self, node: Any, sort: str, values: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
        """Hooks that see all gradients before a node, or all results after it."""
        for place, hook in enumerate(self.hooks_of(node, sort)):
            values = self.hook(self.step(node, sort, place), f"{sort}_hook", hook, values, *more)
        return values

    def _leaf(self, node: Any, gradients: tuple[Any, ...]) -> None:
        gradients = self._all(node, "pre", gradients)
        if gradients[0] is not None:
            self.accumulate(self.step(node, "accumulate"), node, gradients[0])
        for place, hook in enumerate(self.hooks_of(node, "accumulated")):
            self.accumulated(self.step(node, "accumulated", place), node, hook)
        self._all(node, "post", (), gradients)

    def deliver(self, node: Any, edges: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """Add what a node gave to what waits for those that it leads to."""
        for edge, result in zip(edges, results, strict=True):
            if edge is None or edge is NOWHERE:
                continue
            target, number = node_and_number(edge)
            if target is not None and target in self.plan.reached:
                ordered.add(self.task, self.inbox, target, number, self.passed_on(result))

    # What a subclass says ---------------------------------------------------------------------

    def tensor_sorts(self, node: Any) -> list[Any]:
        """Which of a node's tensors have hooks, in the order of their first ones."""
        raise NotImplementedError

    def hooks_of(self, node: Any, sort: Any) -> list[Any]:
        """The hooks of a sort."""
        raise NotImplementedError

    def hook(self, step: str, kind: str, hook: Any, *given: Any) -> Any:
        """What a hook makes of a gradient, or of several."""
        raise NotImplementedError

    def formula(self, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
        """What a node gives for its edges."""
        raise NotImplementedError

    def retain(self, step: str, node: Any, number: int, g: Any) -> None:
        """Keep the gradient of a tensor inside the graph."""
        raise NotImplementedError

    def accumulate(self, step: str, node: Any, g: Any) -> None:
        """Add to a leaf's `.grad`."""
        raise NotImplementedError

    def accumulated(self, step: str, node: Any, hook: Any) -> None:
        """Call a hook on a leaf that was added to."""
        raise NotImplementedError

    def passed_on(self, result: Any) -> Any:
        """A result as it waits for its node."""
        return result
