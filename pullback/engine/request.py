"""One pass: its arguments, who could look on, and the choice between the ways to run it."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy

from pullback.core import overriding, passes
from pullback.core.arrays import LIBRARIES
from pullback.core.explain import anomaly
from pullback.core.forward import LEVELS, visible_levels
from pullback.core.hooks import leaf_hooks_in_use
from pullback.core.mode import PLAIN, Mode, current, fast, get_mode
from pullback.core.nesting import running
from pullback.core.node import node_and_number
from pullback.core.overriding import answering, living_nodes
from pullback.core.saved import Freed
from pullback.core.sequence import numbering
from pullback.engine import node_observers, plain, recorded, task, threads
from pullback.engine.accumulate import accumulate
from pullback.engine.early import EarlyLeaves
from pullback.engine.filter import Filter
from pullback.engine.inbox import Inbox
from pullback.engine.threads import fork, side_by_side
from pullback.operators.dispatch import replaced

# Tests set it to run every program through the whole pass.
always_ordered = False

# What the weak dictionary is kept in: asking itself whether it is empty takes every pass a call.
leaf_hooks: dict[int, Any] = vars(leaf_hooks_in_use)["data"]

running_pass, taken_over, derivatives = passes.running.get, passes.taken_over.get, running.get


def all_is_plain(*, in_any_mode: bool = False) -> bool:
    """Whether a pass over one root may take the fast path: nobody wants it otherwise."""
    return (
        # Then no forward-mode level and no search for anomalies is on.
        (in_any_mode or get_mode() is fast.plain)
        and running_pass() is None
        and taken_over() is None
        and node_observers.observer is None
        and side_by_side.threads == 1
        and not (living_nodes or answering or leaf_hooks or numbering.changed or always_ordered)
        and not (fork.lost_threads or task.logs_nodes())
    )


def wants_order() -> bool:
    """Whether somebody could see in which order nodes run and leaves are served."""
    return bool(
        always_ordered
        or leaf_hooks
        or anomaly.state.enabled
        or numbering.changed
        or task.logs_nodes()
    )


def computes_with_tensors(
    roots: list[tuple[Any, Any]], before: Mode, *, create_graph: bool, follows_classes: bool
) -> bool:
    """Whether a pass that began in mode `before` computes with tensors: recorded, dual, batched."""
    return bool(
        create_graph
        or before.levels
        or before.dispatch
        or replaced.kernels
        or before.tracing is not None
        or (LEVELS and visible_levels())
        or _without_data(roots)
        or ((living_nodes or answering) and _any_answered(roots, follows_classes))
    )


def _without_data(roots: list[tuple[Any, Any]]) -> bool:
    for _, g in roots:  # a generator costs every pass half a microsecond
        kind = type(g._array)
        if kind is not numpy.ndarray and kind not in LIBRARIES and g._layout is None:
            return True
    return False


def _any_answered(roots: list[tuple[Any, Any]], follows_classes: bool) -> bool:
    """Whether a node was recorded around a class's `__torch_dispatch__`, which then runs again.

    Or may bring such a class in, where nobody follows those: a user's backward returns what it
    likes.
    """
    if any(g._overrides & overriding.DISPATCH for _, g in roots):
        return True
    if follows_classes and not living_nodes:
        return False
    waiting = [node_and_number(edge)[0] for edge, _ in roots]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if ref(node) in living_nodes:
            return True
        if getattr(node, "_by_user", False) and not follows_classes:
            return True
        for edge in getattr(node, "_edges", None) or ():
            target = node_and_number(edge)[0]
            if target is not None and target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


class Request:
    """One call of backward() or grad(), its arguments checked.

    What others keep for the time of a pass is keyed by this object, weakly: however the pass ends,
    it goes with it. Its defaults are the class's own: most passes change none.
    """

    tensors = False  # gradients are tensors: recorded, dual or batched ones; otherwise arrays
    in_mode: Mode = PLAIN  # in which its nodes run
    # Whether it runs on arrays and keeps a tensor that a user's backward gives if its class takes
    # operators; otherwise all is computed with tensors where such classes are.
    follows_classes = False
    outer: Request | None = None  # the pass in which this one was called
    depth = 0  # how many passes are around it
    inbox: Inbox | None = None  # while it runs; the ordered pass has none
    chosen: Filter | None = None
    early: EarlyLeaves | None = None  # made when somebody looks at a leaf

    def __init__(
        self,
        roots: list[tuple[Any, Any]],  # edge, gradient
        keep_graph: bool,
        create_graph: bool,
        accumulates: bool,  # into .grad; otherwise only captures
        wanted: list[Any] | None,  # edges asked for; None: every leaf
        freed: Freed,
    ) -> None:
        self.roots = roots
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.accumulates = accumulates
        self.wanted = wanted
        self.filtered = wanted is not None  # whether this pass, or one around it, has inputs=
        self.freed = freed
        self.callbacks: list[Any] = []
        self.id = task.next_id()

    def surround(self, outer: Request, node: Any) -> None:
        """Tell this pass that it runs inside `outer`, called from its `node`."""
        self.outer, self.depth = outer, outer.depth + 1
        if self.depth > threads.MOST_LEVELS:
            raise RecursionError(
                f"{threads.MOST_LEVELS} backward passes run inside one another: a hook or a custom "
                "backward starts a pass that comes to it again. Let it stop at some point."
            )
        self.filtered = self.filtered or outer.filtered
        # What this pass adds comes after what has arrived by now. The passes around `outer` did
        # the same when it began, and wait since.
        outer.serve_leaves(node)

    def serve_leaves(self, node: Any) -> None:
        """Store what leaves have got by now; `node` runs now."""
        if self.inbox is None or node is None:
            return
        if self.early is None:
            self.early = EarlyLeaves(self.inbox, self.chosen, self._store, node)
        self.early.serve(node)

    def _store(self, leaf: Any, total: Any) -> None:
        assert self.inbox is not None
        if not self.tensors:
            accumulate(leaf, total, owned=leaf in self.inbox.owned)
            self.inbox.owned.discard(leaf)
            return
        users = get_mode()
        try:
            current.set(self.in_mode)
            recorded.store(leaf, total, create_graph=self.create_graph, owned=False)
        finally:
            current.set(users)

    def run(self) -> dict[Any, Any]:
        """Choose the pass and run it; returns what it captured."""
        if wants_order():
            return self._run_in_order()
        if self.wanted is not None:
            edges = []
            for edge, _ in self.roots:  # a comprehension is a call
                edges.append(edge)
            self.chosen = Filter(edges, self.wanted, accumulates=self.accumulates)
        inbox = self.inbox = Inbox()
        if self.tensors:
            return recorded.run(
                self.roots,
                inbox,
                keep_graph=self.keep_graph,
                create_graph=self.create_graph,
                freed=self.freed,
                chosen=self.chosen,
            )
        parallel = side_by_side.threads > 1 and self.outer is None and self.in_mode.multithreading
        return plain.run(
            self.roots,
            inbox,
            keep_graph=self.keep_graph,
            freed=self.freed,
            chosen=self.chosen,
            loop=_parallel_loop() if parallel else None,
        )

    def _run_in_order(self) -> dict[Any, Any]:
        from pullback.engine import ordered  # few passes need it

        whole = ordered.Task(
            self.roots if self.tensors else [(edge, g._array) for edge, g in self.roots],
            keep_graph=self.keep_graph,
            create_graph=self.create_graph,
            tensors=self.tensors,
            accumulates=self.accumulates,
            wanted=self.wanted,
            freed=self.freed,
            logged=task.logs_nodes(),
        )
        ordered.run(whole)
        return whole.captured


def _parallel_loop() -> Any:
    from pullback.engine.parallel import loop  # few need it

    return loop
