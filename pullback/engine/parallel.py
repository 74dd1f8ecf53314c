"""The plain pass on several threads: independent nodes side by side, the same bits and order.

Before it runs, every gradient that will arrive somewhere is given its place in the sum there: the
one it has in the promised order. Whoever comes early waits until those before it have been added.
A node that runs a user's code (hooks, custom Functions, unpack hooks) is a barrier: it runs in the
calling thread when all nodes before it are done, and none after it has begun. Values are released
in the promised order too. So no program can see a difference, except by its clock.
"""

from __future__ import annotations

import contextvars
import os
import threading
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, QUIET, node_and_number
from pullback.core.passes import evaluating, running
from pullback.core.saved import Freed, Packed
from pullback.engine.filter import Filter
from pullback.engine.fitting import fitted
from pullback.engine.hooks import run_new_post_hooks, run_with_hooks
from pullback.engine.inbox import Inbox
from pullback.engine.node_steps import annotate, capture, undefined
from pullback.engine.threads import side_by_side

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

add = numpy.add

# A thread that waits looks up now and then, so that none is stuck if a call to wake it was lost.
PATIENCE = 0.2


class _Target:
    """Where gradients arrive: a node or a leaf, with what waits to be added in its turn."""

    __slots__ = ("added", "expected", "index", "node", "owned", "slots", "waiting")

    def __init__(self, node: Any, index: int) -> None:
        self.node = node
        self.index = index  # in the order of the pass; -1 for leaves
        self.expected = 0
        self.added = 0
        self.waiting: dict[int, tuple[Any, int]] = {}  # place -> gradient, slot
        self.slots: list[Any] = [None] * len(node._g_sizes or (None,))
        self.owned: set[int] = set()  # slots whose sum is ours

    def add(self, g: Any, slot: int) -> None:
        """Add to the sum; as the plain pass does, so that every bit is the same."""
        before = self.slots[slot]
        if before is None:
            self.slots[slot] = g
        elif slot in self.owned and type(before) is numpy.ndarray:
            add(before, g, before)
        else:
            self.slots[slot] = before + g
            self.owned.add(slot)


class Pass:
    """One pass; every change of its state is made under its lock."""

    def __init__(
        self,
        inbox: Inbox,
        keep_graph: bool,
        freed: Freed,
        chosen: Filter | None,
        captured: dict[tuple[Any, int], Any],
    ) -> None:
        from queue import SimpleQueue  # few need it

        self.inbox, self.keep_graph, self.freed = inbox, keep_graph, freed
        self.chosen, self.captured = chosen, captured
        self.roots = [(node, None) for node in inbox.nodes.values()]  # for error messages
        self.lock = threading.Lock()
        self.for_caller: Any = SimpleQueue()  # tokens: something changed, look again
        self.for_helpers: Any = SimpleQueue()
        self.over = False
        self.working = 0  # helpers that run a node now
        self.retired = 0  # nodes before this one are done, and released
        self.errors: dict[int, BaseException] = {}
        self.interrupt: BaseException | None = None
        self.ready: list[int] = []
        self._plan()
        self.failed_at = len(self.order)
        self.done = bytearray(len(self.order))
        self.barrier = self._next_barrier(0)
        self._put_roots()

    # ------------------------------------------------------------------ before it runs

    def _edges(self, node: Any) -> Any:
        return node._edges if self.chosen is None else self.chosen.edges.get(node, ())

    def _plan(self) -> None:
        """Order the nodes, and number the gradients that will arrive at each of them."""
        found: set[Any] = set(self.inbox.nodes.values())
        stack = list(found)
        while stack:
            for edge in self._edges(stack.pop()):
                node = None if edge is None or edge._seq == LEAF_SEQ else node_and_number(edge)[0]
                if node is not None and node not in found:
                    found.add(node)
                    stack.append(node)
        self.order: list[Any] = sorted(found, key=lambda node: node._seq)
        targets = {node: _Target(node, index) for index, node in enumerate(self.order)}
        self.targets = targets
        # For each node and edge: where its gradient goes, to which slot, at which place.
        self.sends: list[list[tuple[_Target, int, int] | None]] = []
        for node in self.order:
            sends: list[tuple[_Target, int, int] | None] = []
            for edge in self._edges(node):
                if edge is None or edge._seq > OUTPUT_SEQ:
                    sends.append(None)
                    continue
                after, slot = node_and_number(edge)
                target = targets.get(after)
                if target is None:
                    target = targets[after] = _Target(after, -1)
                sends.append((target, slot, target.expected))
                target.expected += 1
            self.sends.append(sends)

    def _put_roots(self) -> None:
        inbox = self.inbox
        for seq, node in inbox.nodes.items():
            target = self.targets[node]
            g = inbox.gradients[seq]
            target.slots = g if isinstance(g, list) else [g]
        inbox.gradients.clear()
        inbox.owned.clear()
        for index, node in enumerate(self.order):
            if not self.targets[node].expected:
                heappush(self.ready, index)

    def _next_barrier(self, index: int) -> int:
        """The next node from `index` on that runs a user's code."""
        while index < len(self.order) and not _runs_users_code(self.order[index]):
            index += 1
        return index

    # ------------------------------------------------------------------ threads

    def run(self, helpers: int) -> None:
        """Run all nodes, with so many threads to help."""
        try:
            for _ in range(helpers):
                _threads().submit(self._context().run, self.help)
            while (index := self._wait_for_node()) is not None:
                self._execute(index)
        except BaseException as error:  # an interrupt, between nodes or anywhere
            self.interrupt = error
        finally:
            self.over = True
            for _ in range(helpers):
                self.for_helpers.put(None)
            while self.working:
                self._sleep(self.for_caller)
        try:
            if self.errors or self.interrupt is not None:
                self._raise()
        finally:
            self._forget()

    def _context(self) -> contextvars.Context:
        """The calling thread's, with this in place of the request, which would hold the graph."""
        context = contextvars.copy_context()
        context.run(running.set, self)
        context.run(evaluating.set, None)
        return context

    def help(self) -> None:
        """What each helping thread does."""
        while not self.over:
            with self.lock:
                index = self._take()
                self.working += index is not None
            if index is None:
                self._sleep(self.for_helpers)
                continue
            try:
                self._execute(index)
            finally:
                with self.lock:
                    self.working -= 1
                self.for_caller.put(None)

    @staticmethod
    def _sleep(tokens: Any) -> None:
        from queue import Empty

        with suppress(Empty):
            tokens.get(timeout=PATIENCE)

    def _take(self) -> int | None:
        """A node that may run now, side by side with others."""
        ready = self.ready
        if ready and ready[0] < self.barrier and ready[0] < self.failed_at and not self.over:
            return heappop(ready)
        return None

    def _wait_for_node(self) -> int | None:
        """The next node for the calling thread; None at the end."""
        while True:
            with self.lock:
                if self.retired == self.failed_at:  # or at the end
                    return None
                if self.retired == self.barrier and self.barrier in self.ready[:1]:
                    return heappop(self.ready)
                index = self._take()
            if index is not None:
                return index
            self._sleep(self.for_caller)

    # ------------------------------------------------------------------ nodes

    def _execute(self, index: int) -> None:
        node = self.order[index]
        target = self.targets[node]
        gradients = target.slots
        target.slots = []
        several = node._g_sizes is not None
        g: Any = gradients if several else gradients[0]
        if all(one is None for one in gradients):
            g = None
        try:
            results, edges = self._results(node, g)
            sent = self._fitted(node, edges, results)
        except BaseException as error:
            with self.lock:
                self.errors[index] = error
                self.failed_at = min(self.failed_at, index)
            self.for_caller.put(None)
            return
        self._deliver(index, sent)

    def _results(self, node: Any, g: Any) -> tuple[Any, Any]:
        """What a node gives, and for which edges."""
        chosen = self.chosen
        edges = self._edges(node)
        if chosen is not None and node in chosen.captures:
            with self.lock:  # not around hooks: a captured node with hooks is a barrier
                held = node._cold is None
                if held:
                    capture(node, g, chosen, self.captured)
            if not held:
                capture(node, g, chosen, self.captured)
            if node not in chosen.edges:
                return (), ()
        cold = node._cold
        if cold is None:
            return (node._run(g, edges) if g is not None else (None,) * len(edges)), edges
        evaluating.set(node)
        if cold is QUIET and g is not None:
            results = node._run(g, edges)
            if node._cold is not QUIET:
                results = run_new_post_hooks(node, results, edges)
        else:
            results = run_with_hooks(node, undefined(node) if g is None else g, edges)
        return results, edges

    def _fitted(self, node: Any, edges: Any, results: Any) -> list[Any]:
        sent: list[Any] = []
        for index, target in enumerate(edges):
            r = results[index]
            if r is None or target is None or target._seq > OUTPUT_SEQ:
                r = None
            elif r.shape != target._g_shape or r.dtype is not target._g_dtype:
                r = fitted(r, target, node, index)
            sent.append(r)
        return sent

    def _deliver(self, index: int, sent: list[Any]) -> None:
        woken = 0
        with self.lock:
            self.inbox.nodes.pop(self.order[index]._seq, None)
            for place, g in zip(self.sends[index], sent, strict=True):
                if place is not None:
                    woken += self._put(*place, g)
            released = self._retire(index)
        if not self.keep_graph:
            for node in released:
                node._release(self.freed)
        released.clear()
        for _ in range(woken):
            self.for_helpers.put(None)
        self.for_caller.put(None)

    def _put(self, target: _Target, slot: int, place: int, g: Any) -> bool:
        """Add a gradient in its turn; whether the target can run now."""
        target.waiting[place] = (g, slot)
        while target.added in target.waiting:
            g, slot = target.waiting.pop(target.added)
            target.added += 1
            if g is None:
                continue
            if target.index < 0:
                self.inbox.put_leaf(target.node, g)
            else:
                target.add(g, slot)
        if target.index < 0:
            return False
        self.inbox.nodes[target.node._seq] = target.node
        if target.added < target.expected:
            return False
        heappush(self.ready, target.index)
        return True

    def _retire(self, index: int) -> list[Any]:
        """Note that a node is done; those whose values may be released now, in order."""
        self.done[index] = 1
        released = []
        while self.retired < len(self.done) and self.done[self.retired]:
            released.append(self.order[self.retired])
            self.retired += 1
        if index == self.barrier:
            self.barrier = self._next_barrier(index + 1)
        return released

    def _raise(self) -> None:
        """The failure of the node that comes first in the order, as the serial pass has it."""
        at = self.retired if self.interrupt is not None else min(self.errors)
        error = self.interrupt or self.errors[at]
        node = self.order[at] if at < len(self.order) else None
        self.inbox.failed = node
        self.inbox.nodes = {one._seq: one for one in self.order[at + 1 :]}
        annotate(error, node)
        try:
            raise error
        finally:
            del error

    def _forget(self) -> None:
        """Hold nothing of the graph: a traceback, or a thread that wakes late, may hold this."""
        self.errors.clear()
        self.interrupt = None
        self.order, self.targets, self.sends, self.roots = [], {}, [], []


def _runs_users_code(node: Any) -> bool:
    if node._cold is not None or node._by_user:
        return True
    plan = getattr(type(node), "plan", None)
    if plan is None:  # written by hand: it may hold another node, with values of its own
        return True
    names = (*(param.name for param in plan.inputs), *plan.outputs)
    return any(_is_packed(getattr(node, "s_" + name)) for name in names)


def _is_packed(value: Any) -> bool:
    if type(value) is tuple:
        return any(type(one) is Packed for one in value)
    return type(value) is Packed


def loop(
    inbox: Inbox,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None,
    captured: dict[tuple[Any, int], Any],
) -> None:
    """Run the nodes for which a gradient waits, and those they lead to, on several threads."""
    one = Pass(inbox, keep_graph, freed, chosen, captured)
    one.run(min(side_by_side.threads, len(one.order)) - 1)


_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor  # loads logging; few need it

            _pool = ThreadPoolExecutor(max_workers=1000, thread_name_prefix="pullback-backward")
        return _pool


def _forget_pool() -> None:
    """In a forked child, which has none of the threads: it starts its own when it needs them."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
