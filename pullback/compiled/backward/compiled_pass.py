"""A pass while a compiler's function runs it: a user's code in it, and the way out of it.

The function was made for a pass in which a user's code leaves the graph alone and gives gradients
where it gave some before. Where it does otherwise, the pass departs from its graph: what was done
is known by its step, so the engine's own arithmetic is done again from the start, and nobody's code
runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.compiled.backward import nan
from pullback.compiled.backward.lifted import Lifting, hooks_at_node, plan_of, saved_by
from pullback.compiled.backward.order import Walk
from pullback.core.node import AccumulateGrad
from pullback.core.passes import evaluating
from pullback.core.tensor import Tensor, wrap
from pullback.engine import ordered, task
from pullback.engine.anomaly import check_nan
from pullback.engine.hooks import called, replaced, retain, run_hooks, tensors_of
from pullback.engine.recorded import accumulate_any

__all__ = ["CompiledPass", "Departed", "Resumed"]


class Departed(BaseException):
    """The pass is not the one that was captured any more; a compiler's function must not see it."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(reason)
        self.step, self.reason = step, reason


class CompiledPass:
    """One run: what each step gave, and whether what follows is as it was captured."""

    def __init__(self, request: Any, graph: Lifting, following: Any, expected: Any) -> None:
        self.request, self.graph = request, graph
        self.following = following  # step -> places and sorts that come before the next such step
        self.expected = expected  # step -> which of its results are None
        self.done: dict[str, Any] = {}
        self.failed: int | None = None  # the place of the node whose turn raised an error
        self.is_resumed = False
        self.task = ordered.Task(
            [(edge, g._array) for edge, g in request.roots], request.keep_graph, False, False,
            request.accumulates, request.wanted, request.freed,
        )  # fmt: skip
        self.plan = ordered.Plan(self.task)
        self.kept = _snapshot(graph)
        self.saved = {id(one): _saved_now(one) for one in graph.nodes if id(one) in graph.inlined}

    def _do(self, step: str, act: Callable[..., Any], *given: Any) -> Any:
        """Do a step once, in its node's name."""
        if step in self.done:
            return self.done[step]
        place = int(step.split(":", 1)[0])
        node = self.graph.everything[place]
        evaluating.set(node)
        try:
            made = self.done[step] = act(*given)
        except BaseException as error:
            ordered.tell(error, node)
            self.failed = place
            raise
        return made

    # Steps ------------------------------------------------------------------------------------

    def hook(self, step: str, kind: str, hook: Any, *given: Any) -> Any:
        """Call one hook."""
        made = self._do(step, _HOOKS[kind], hook, *given)
        if kind == "post_acc_grad_hook":
            self._go_on(step)
            return None
        several = isinstance(made, tuple)
        before = given[0] if several else (given[0],)
        after = made if several else (made,)
        if [one is None for one in after] != [one is None for one in before]:
            self._depart(step, "a hook that takes a gradient away")
        self._go_on(step)
        laid = tuple(self._like(step, a, b) for a, b in zip(after, before, strict=True))
        return laid if several else laid[0]

    def unpack(self, step: str) -> Any:
        """Call an unpack hook."""
        node = self.graph.everything[int(step.split(":", 1)[0])]
        number = int(step.rsplit(".", 1)[1].split(":")[0])
        packed = self.graph.packs[id(node)][number]
        made = self._do(step, packed.unpack, node)
        self._go_on(step)
        return made

    def formula(self, step: str, node: Any, gradients: Any, unpacked: Any = ()) -> Any:
        """Run a node."""
        made = self.applied(step, node, gradients, unpacked)
        pattern = tuple(one is None for one in made)
        if pattern != self.expected[step]:
            self.expected[step] = pattern
            self._depart(step, "a function that gives no gradient, or gives one again")
        if node._by_user or id(node) in self.graph.packs:
            self._go_on(step)
        return tuple(self._dense(step, one) for one in made)

    def applied(self, step: str, node: Any, gradients: Any, unpacked: Any) -> Any:
        """What a node gives for its edges, as tensors."""
        return self._do(step, self._applied, node, gradients, unpacked)

    def _applied(self, node: Any, gradients: Any, unpacked: Any) -> Any:
        edges = self.plan.edges(self.task, node)
        restore = _filled_in(node, unpacked)
        try:
            made = ordered.apply(self.task, node, tuple(gradients), edges)
        finally:
            for name, value in restore:
                setattr(node, name, value)
        return tuple(tensors_of(made))

    def retain(self, step: str, node: Any, number: int, g: Any) -> None:
        """Keep a gradient for the tensor that asked for it."""
        self._do(step, _retained, node, number, next(iter(tensors_of((g,)))))

    def accumulate(self, step: str, g: Any) -> None:
        """Add to a leaf's `.grad`."""
        node = self.graph.everything[int(step.split(":", 1)[0])]
        self._do(step, lambda: accumulate_any(node, g, owned=False))

    def finish(self) -> None:
        """Run what was queued for the end."""
        task.run_callbacks(self.request)

    # Whether all is as it was -----------------------------------------------------------------

    def _go_on(self, step: str) -> None:
        if self.is_resumed:
            return
        for place, sort in self.following.get(step, ()):
            if not self._is_as_it_was(place, sort):
                self._depart(step, "a hook that changes the graph, or what it keeps")

    def _is_as_it_was(self, place: int, sort: Any) -> bool:
        node = self.graph.everything[place]
        now, then = hooks_at_node(node), self.graph.tables.get(id(node), {})
        if sort == "formula" and id(node) in self.graph.inlined:
            return _saved_now(node) == self.saved[id(node)]
        if sort == "formula":
            return all(
                getattr(node, name) is value and _is_unchanged(node, name, value, array)
                for name, value, array in self.kept.get(id(node), ())
            )
        if sort == "tensors":
            return {k: v for k, v in now.items() if k[0] == "tensor" or k == "retained"} == {
                k: v for k, v in then.items() if k[0] == "tensor" or k == "retained"
            }
        return now.get(sort) == then.get(sort)

    def _depart(self, step: str, reason: str) -> None:
        if not self.is_resumed:
            raise Departed(step, reason)

    def _dense(self, step: str, g: Tensor | None) -> Tensor | None:
        """A gradient in the memory order that was captured for results of functions."""
        array = self._plain(step, g)
        if array is None or array.flags.c_contiguous:
            return g
        return wrap(numpy.array(array, order="C"))

    def _like(self, step: str, g: Tensor | None, before: Tensor | None) -> Tensor | None:
        """A gradient in the memory order of the one that it stands for."""
        array = self._plain(step, g)
        if array is None or before is None:
            return g
        wanted: Any = numpy.empty_like(before._array)
        if array.strides == wanted.strides:
            return g
        wanted[...] = array
        return wrap(wanted)

    def _plain(self, step: str, g: Any) -> Any:
        array = None if g is None else g._array
        if array is not None and (type(array) is not numpy.ndarray or g._overrides):
            self._depart(step, f"a gradient of type {type(g).__name__} on {type(array).__name__}")
        return array


def _tensor_hook(hook: Any, g: Any) -> Any:
    return run_hooks((hook,), g)


def _pre_hook(hook: Any, gradients: Any) -> Any:
    return replaced(hook, called(hook, tuple(gradients)), tuple(gradients))


def _post_hook(hook: Any, results: Any, gradients: Any) -> Any:
    return replaced(hook, called(hook, tuple(results), tuple(gradients)), tuple(results))


_HOOKS: dict[str, Callable[..., Any]] = {
    "tensor_pre_hook": _tensor_hook,
    "pre_hook": _pre_hook,
    "post_hook": _post_hook,
    "post_acc_grad_hook": ordered.run_post_accumulate,
}


def _retained(node: Any, number: int, g: Tensor) -> None:
    tensor = node._cold.retained[number]()
    if tensor is not None:
        retain(tensor, g)


def _snapshot(graph: Lifting) -> dict[int, list[Any]]:
    """What each node keeps: slot, value, array."""
    kept: dict[int, list[Any]] = {}
    for node in graph.nodes:
        plan = plan_of(node)
        if plan is None:
            continue
        values = [(f"s_{one.name}", getattr(node, f"s_{one.name}")) for one in plan.inputs]
        values += [(f"s_{name}", getattr(node, f"s_{name}")) for name in plan.outputs]
        kept[id(node)] = [(name, value, getattr(value, "_array", None)) for name, value in values]
    return kept


def _saved_now(node: Any) -> list[tuple[int, int]] | None:
    saved = saved_by(node)
    return None if saved is None else [(id(array), cell[0]) for array, _, cell, _ in saved]


def _is_unchanged(node: Any, name: str, value: Any, array: Any) -> bool:
    if isinstance(value, Tensor):
        return value._array is array and bool(value._cell[0] == getattr(node, f"{name}_v"))
    if isinstance(value, tuple):
        versions = getattr(node, f"{name}_v") or (None,) * len(value)
        return all(
            not isinstance(one, Tensor) or one._cell[0] == version
            for one, version in zip(value, versions, strict=True)
        )
    cell = getattr(node, f"{name}_c", None)
    return cell is None or bool(cell[0] == getattr(node, f"{name}_v"))


def _filled_in(node: Any, unpacked: Any) -> list[tuple[str, Any]]:
    """Put unpacked tensors where packed ones are kept; what to put back afterwards."""
    restore: list[tuple[str, Any]] = []
    if not unpacked:
        return restore
    following = iter(unpacked)

    def put(name: str, value: Any) -> None:
        restore.append((name, getattr(node, name)))
        setattr(node, name, value)

    plan = plan_of(node)
    for param in plan.inputs:
        name = f"s_{param.name}"
        value = getattr(node, name)
        if isinstance(value, tuple):
            filled = tuple(next(following) if _is_packed(one) else one for one in value)
            versions = getattr(node, f"{name}_v") or (None,) * len(value)
            put(f"{name}_v", tuple(
                one._cell[0] if _is_packed(old) else version
                for one, old, version in zip(filled, value, versions, strict=True)
            ))  # fmt: skip
            put(name, filled)
        elif _is_packed(value):
            one = next(following)
            put(name, one)
            put(f"{name}_v", one._cell[0])
    for output in plan.outputs:
        name = f"s_{output}"
        if _is_packed(getattr(node, name)):
            one = next(following)
            put(name, one._array)
            put(f"{name}_c", one._cell)
            put(f"{name}_v", one._cell[0])
    return restore


def _shown(given: Any) -> Any:
    """Arrays as tensors."""
    if isinstance(given, tuple):
        return tuple(tensors_of(given))
    return next(iter(tensors_of((given,))))


def _is_packed(value: Any) -> bool:
    return hasattr(value, "unpack_hook")


class Resumed(Walk):
    """The rest of a pass that departed from its graph, by the engine's own arithmetic."""

    def __init__(self, turns: CompiledPass) -> None:
        super().__init__(turns.task, turns.graph.place_of)
        self.turns = turns
        turns.is_resumed = True

    def visit(self, node: Any, is_run: bool) -> None:
        """One node's turn; errors get the node's name."""
        try:
            super().visit(node, is_run)
        except BaseException as error:
            ordered.tell(error, node)
            self.turns.failed = self.place_of[id(node)]
            raise

    def deliver(self, node: Any, edges: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """Pass results on; in anomaly mode, if there is no NaN in them."""
        if nan.is_sought():
            check_nan(node, results)
        super().deliver(node, edges, results)

    def tensor_sorts(self, node: Any) -> list[Any]:
        """Those that are there now, and those whose turn has begun."""
        now, then = hooks_at_node(node), self.turns.graph.tables.get(id(node), {})
        return [sort for sort in {**then, **now} if sort[0] == "tensor"]

    def hooks_of(self, node: Any, sort: Any) -> list[Any]:
        """Those that are there now, unless their turn has begun."""
        now, then = hooks_at_node(node), self.turns.graph.tables.get(id(node), {})
        begun = self.step(node, sort).rsplit(":", 1)[0] + ":"
        was = any(step.startswith(begun) for step in self.turns.done)
        return (then if was else now).get(sort, [])

    def hook(self, step: str, kind: str, hook: Any, *given: Any) -> Any:
        """Call a hook on tensors."""
        return self.turns.hook(step, kind, hook, *map(_shown, given))

    def formula(self, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
        """Run a node, or take what it gave."""
        step = self.step(node, "formula")
        if step in self.turns.done:
            return self.turns.done[step]
        evaluating.set(node)
        packs = self.turns.graph.packs.get(id(node), ())
        if not packs or edges != node._edges or all(g is None for g in gradients):
            return ordered.apply(self.task, node, gradients, edges)
        unpacked = [
            self.turns.unpack(self.step(node, ("unpack", number))) for number in range(len(packs))
        ]
        return self.turns.applied(step, node, gradients, unpacked)

    def retain(self, step: str, node: Any, number: int, g: Any) -> None:
        """Keep a gradient."""
        self.turns.retain(step, node, number, g)

    def accumulate(self, step: str, node: AccumulateGrad, g: Any) -> None:
        """Add to a leaf's `.grad`."""
        self.turns.accumulate(step, g)

    def accumulated(self, step: str, node: AccumulateGrad, hook: Any) -> None:
        """Call a hook on a leaf."""
        self.turns.hook(step, "post_acc_grad_hook", hook, node.variable)

    def passed_on(self, result: Any) -> Any:
        """The array, or a tensor of a class that sees operators."""
        return ordered.lowered(result)
