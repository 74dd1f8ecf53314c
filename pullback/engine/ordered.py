"""The whole pass: exact order, pruning, captures, hooks on leaves, recorded gradients.

Before anything runs it counts for each node how many gradients will arrive, so a node runs as soon
as its own is complete: leaves first, then the newest node. Gradients are arrays, or tensors when
the pass itself is recorded (`create_graph`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from sys import getrefcount
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.explain import anomaly
from pullback.core.mode import current, get_mode
from pullback.core.node import AccumulateGrad, Node, node_and_number, run_tensors
from pullback.core.overriding import DISPATCH, answering
from pullback.core.passes import evaluating
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor
from pullback.core.view import NOWHERE
from pullback.engine import node_observers, recorded
from pullback.engine.anomaly import NaNFound, check_nan, show_forward
from pullback.engine.fitting import as_tensor, fitted, fitted_all, fitted_tensor
from pullback.engine.hooks import (
    run_hooks,
    run_post_hooks,
    run_pre_hooks,
    run_tensor_hooks,
    tensors_of,
)
from pullback.engine.node_steps import annotate
from pullback.engine.ownership import is_sole_reference, is_sole_tensor
from pullback.engine.task import log_node


@dataclass
class Task:
    """One call of backward() or grad()."""

    roots: list[tuple[Any, Any]]  # edge, gradient
    keep_graph: bool
    create_graph: bool
    tensors: bool  # gradients are tensors: recorded, dual or batched ones; otherwise arrays
    accumulates: bool  # into .grad; otherwise only captures
    wanted: list[Any] | None  # edges asked for; None: every leaf
    freed: Freed
    logged: bool = False  # each node is logged before it runs
    captured: dict[tuple[Any, int], Any] = field(default_factory=dict)


def run(task: Task) -> None:
    """Take the gradients of the roots to leaves and captures."""
    plan = Plan(task)
    inbox: dict[Node, list[Any]] = {}
    ready = _Ready()
    for edge, g in task.roots:
        node, number = node_and_number(edge)
        if node is None or node not in plan.reached:
            continue
        add(task, inbox, node, number, g)
    for node in dict.fromkeys(node_and_number(edge)[0] for edge, _ in task.roots):
        if node is not None and node in plan.reached and plan.missing.get(node, 0) == 0:
            ready.put(node)
    node = None
    try:
        while ready:
            node = ready.take()
            visit(task, plan, inbox, ready, node)
    except BaseException as error:
        if node is not None:
            tell(error, node)
        if isinstance(error, NaNFound):
            raise error.told() from None
        raise
    finally:
        inbox.clear()


def tell(error: BaseException, node: Node) -> None:
    """Add the node at fault to an error; in anomaly mode, warn with its forward call."""
    annotate(error, node)
    if anomaly.state.enabled and get_mode().tracing is None:
        show_forward(node)


class _Ready:
    """Nodes whose gradient is complete: leaves first, then the newest."""

    def __init__(self) -> None:
        self.leaves: deque[Node] = deque()
        self.heap: list[tuple[int, int, Node]] = []
        self.arrival = count()

    def put(self, node: Node) -> None:
        if isinstance(node, AccumulateGrad):
            self.leaves.append(node)
        else:
            heappush(self.heap, (node._seq, next(self.arrival), node))

    def take(self) -> Node:
        return self.leaves.popleft() if self.leaves else heappop(self.heap)[2]

    def __bool__(self) -> bool:
        return bool(self.leaves or self.heap)


class Plan:
    """Which nodes are reached, which of them run, and how many gradients each waits for."""

    reached: Any  # sets of nodes
    runs: Any
    wanted: dict[Node, set[int]]
    missing: dict[Node, int]

    def __init__(self, task: Task) -> None:
        roots = [node_and_number(edge)[0] for edge, _ in task.roots]
        order = _children_first(roots)
        self.wanted = {}
        for edge in task.wanted or ():
            node, number = node_and_number(edge)
            if node is not None:
                self.wanted.setdefault(node, set()).add(number)
        if task.wanted is None:
            self.reached = self.runs = set(order)
        else:
            self.reached, self.runs = set(), set()
            for node in order:
                leads_on = any(
                    node_and_number(edge)[0] in self.reached
                    for edge in node._edges
                    if edge is not None
                )
                if leads_on or (task.accumulates and node in self.wanted):
                    self.runs.add(node)
                if leads_on or node in self.wanted:
                    self.reached.add(node)
        self.missing = {}
        for node in order:
            if node not in self.runs:
                continue
            for edge in node._edges:
                target = node_and_number(edge)[0]
                if target is not None and target in self.reached:
                    self.missing[target] = self.missing.get(target, 0) + 1

    def edges(self, task: Task, node: Node) -> tuple[Any, ...]:
        """The node's edges, None where nobody wants the gradient."""
        if task.wanted is None:
            return node._edges
        return tuple(
            edge if edge is not None and node_and_number(edge)[0] in self.reached else None
            for edge in node._edges
        )


def _children_first(roots: list[Any]) -> list[Node]:
    """Every reachable node, after all that it leads to. No recursion: graphs are deep."""
    order: list[Node] = []
    state: dict[Node, bool] = {}  # False: entered, True: done
    stack = [node for node in roots if node is not None]
    while stack:
        node = stack[-1]
        known = state.get(node)
        if known is not None:
            stack.pop()
            if not known:
                state[node] = True
                order.append(node)
            continue
        state[node] = False
        for edge in node._edges:
            target = node_and_number(edge)[0]
            if target is not None and target not in state:
                stack.append(target)
    return order


def add(task: Task, inbox: dict[Node, list[Any]], node: Node, number: int, g: Any) -> None:
    """One more gradient for an output of a node."""
    slots = inbox.get(node)
    if slots is None:
        slots = inbox[node] = [None] * len(node._g_sizes or (None,))
    before = slots[number]
    if before is None:
        slots[number] = g
    elif g is not None:
        plain = not task.tensors and not isinstance(before, Tensor) and not isinstance(g, Tensor)
        slots[number] = numpy.add(before, g) if plain else as_tensor(before) + as_tensor(g)


def visit(task: Task, plan: Plan, inbox: dict[Node, list[Any]], ready: Any, node: Node) -> None:
    """Run a node whose gradient is complete, and pass on what it returns."""
    evaluating.set(node)  # put back where the pass was entered
    gradients: tuple[Any, ...] = tuple(inbox.pop(node, [None]))
    numbers = plan.wanted.get(node, ()) if not task.accumulates else ()
    if node not in plan.runs:
        gradients = _tensor_hooks(node, gradients)
        for number in numbers:
            task.captured[node, number] = gradients[number]
        return
    for number in numbers:
        task.captured[node, number] = gradients[number]
    turn = node_observers.Turn(node) if node_observers.observer is not None else None
    try:
        gradients = _tensor_hooks(node, gradients)
        if task.logged:
            log_node(node, gradients)
        if isinstance(node, AccumulateGrad):
            _accumulate(task, node, gradients)
            return
        edges = plan.edges(task, node)
        results = _run(task, node, gradients, edges, turn)
        if not task.keep_graph:
            node._release(task.freed)  # type: ignore[attr-defined]  # all nodes but leaves have it
        _deliver(task, plan, inbox, ready, edges, results)
    finally:
        if turn is not None:
            turn.finish()


def _run(
    task: Task, node: Node, gradients: tuple[Any, ...], edges: tuple[Any, ...], turn: Any
) -> Any:
    """The node between its pre-hooks and its post-hooks."""
    cold = node._cold
    if cold is not None and cold.pre_hooks:
        gradients = run_pre_hooks(cold, tuple(tensors_of(gradients)))
    # A hook that is added while its own node runs is called, but nobody kept the gradients for it.
    shown = tuple(tensors_of(gradients)) if cold is not None and cold.post_hooks else ()
    results = apply(task, node, gradients, edges)
    if LIBRARIES and anomaly.state.enabled:
        for library in LIBRARIES.values():
            library.settle(type(node).name(node))
    if turn is not None:
        turn.ran(list(gradients), results)
    if node._cold is not None and node._cold.post_hooks:
        results = run_post_hooks(node, tuple(tensors_of(results)), shown)
    # While a pass is captured its gradients have no data.
    if anomaly.state.enabled and anomaly.state.check_nan and get_mode().tracing is None:
        check_nan(node, results)
    return results


def _tensor_hooks(node: Node, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(node, AccumulateGrad):
        hooks = node.variable._leaf_hooks
        if hooks:
            return (run_hooks(hooks.values(), next(iter(tensors_of(gradients)))),)
        return gradients
    cold = node._cold
    if cold is not None and (cold.tensor_hooks or cold.retained):
        return run_tensor_hooks(cold, tuple(tensors_of(gradients)))
    return gradients


def _accumulate(task: Task, node: AccumulateGrad, gradients: tuple[Any, ...]) -> None:
    leaf, cold = node.variable, node._cold
    if cold is not None and cold.pre_hooks:
        gradients = run_pre_hooks(cold, tuple(tensors_of(gradients)))
    g = gradients[0]
    if g is not None:
        if task.create_graph:
            recorded.accumulate(node, g)
        else:
            is_sole = is_sole_tensor if isinstance(g, Tensor) else is_sole_reference
            references = getrefcount(g)  # a statement of its own: a call would hold it too
            owned = is_sole(g, references, 1)  # `gradients` holds it too
            if get_mode().dispatch and g.__class__ is Tensor:
                recorded.accumulate_shown(node, g, owned=owned)
            else:
                recorded.accumulate_any(node, g, owned=owned)
    hooks = leaf._post_accumulate_grad_hooks
    if hooks:
        for hook in list(hooks.values()):
            run_post_accumulate(hook, leaf)
    if cold is not None and cold.post_hooks:
        run_post_hooks(node, (), tuple(tensors_of((g,))))


def run_post_accumulate(hook: Any, leaf: Tensor) -> None:
    """Call a hook on a leaf whose `.grad` was added to."""
    mode = get_mode()
    try:
        returned = hook(leaf)
    finally:
        current.set(mode)
    if returned is None or returned is leaf:
        return
    name = getattr(hook, "__name__", repr(hook))
    text = f"post-accumulate-grad hook '{name}' must return None, got {type(returned).__name__}."
    raise RuntimeError(text) if isinstance(returned, Tensor) else TypeError(text)


def apply(task: Task, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
    """What a node gives for these gradients, fitted to where it goes."""
    if not node._by_user and all(g is None for g in gradients):
        return (None,) * len(edges)
    several = node._g_sizes is not None
    if task.tensors or (answering and (node._by_user or any(map(_answers, gradients)))):
        shown = list(tensors_of(gradients))
        results = run_tensors(node, shown if several else shown[0], edges)
        results = fitted_all(results, edges, node, fitted_tensor)
        return results if task.tensors else tuple([lowered(one) for one in results])
    arrays = [getattr(g, "_array", g) for g in gradients]
    results = node._run(arrays if several else arrays[0], edges)
    return fitted_all(results, edges, node, fitted)


def _deliver(
    task: Task,
    plan: Plan,
    inbox: dict[Node, list[Any]],
    ready: Any,
    edges: tuple[Any, ...],
    results: tuple[Any, ...],
) -> None:
    for edge, result in zip(edges, results, strict=True):
        if edge is None or edge is NOWHERE:
            continue
        node, number = node_and_number(edge)
        if node is None or node not in plan.reached:
            continue
        add(task, inbox, node, number, result if task.tensors else lowered(result))
        plan.missing[node] -= 1
        if plan.missing[node] == 0:
            ready.put(node)


def _answers(g: Any) -> bool:
    return bool(getattr(g, "_overrides", 0) & DISPATCH)


def lowered(g: Any) -> Any:
    """A gradient on its way through a pass on arrays; a tensor whose class answers stays one."""
    return g if _answers(g) else getattr(g, "_array", g)


def order_of(task: Any) -> list[Node]:
    """The nodes that a pass stops by, in order, captured leaves too; found without running any."""
    return [node for node, _ in visits_of(task)]


def visits_of(task: Any) -> list[tuple[Node, bool]]:
    """The nodes that a pass stops by, in order, and whether each runs or is only captured."""
    plan = Plan(task)
    ready = _Ready()
    for node in dict.fromkeys(node_and_number(edge)[0] for edge, _ in task.roots):
        if node is not None and node in plan.reached and not plan.missing.get(node):
            ready.put(node)
    order: list[tuple[Node, bool]] = []
    while ready:
        node = ready.take()
        order.append((node, node in plan.runs))
        if node not in plan.runs:
            continue
        for edge in node._edges:
            target = node_and_number(edge)[0]
            if target is not None and target in plan.reached:
                plan.missing[target] -= 1
                if not plan.missing[target]:
                    ready.put(target)
    return order
