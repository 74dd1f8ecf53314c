"""`compiled_autograd`: inside, backward passes are captured once and then run as programs."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy

from pullback.compiled import backends
from pullback.compiled.backward.graph import Graph, Unsupported
from pullback.compiled.backward.sizes import Passes, as_captured
from pullback.compiled.backward.trail import Found, trail_of
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import live
from pullback.compiled.capture.tracer import Tracer
from pullback.compiled.counting import counters
from pullback.core import passes
from pullback.core.explain import anomaly
from pullback.core.mode import NO_GRAD, PLAIN, changed, current, fast, settle
from pullback.core.node import LEAF_SEQ, node_and_number
from pullback.core.origin import getframe, user_frame
from pullback.core.saved import Freed
from pullback.core.tensor import wrap
from pullback.engine.accumulate import accumulate
from pullback.engine.backward import run_pass

__all__ = ["clear_cache", "compile_reasons", "compiled_autograd", "is_cache_empty"]

log = logging.getLogger("pullback.compile")
_MOST_PROGRAMS = 64
_MOST_TRAILS = 8  # for each class of roots
_programs: OrderedDict[Any, Any] = OrderedDict()
is_running: ContextVar[bool] = ContextVar("pullback_compiled_pass", default=False)
_trails: dict[Any, list[Any]] = {}  # back end and class of the first root -> trail, program
_passes = Passes()
compile_reasons: list[str] = []  # why each program was made, the last ones


class compiled_autograd:  # noqa: N801 (a context)
    """Within the block, `backward()` and `grad()` of eager graphs run as captured programs.

    The forward is untouched. What cannot be captured (hooks, custom Functions, `create_graph`) runs
    on the engine; `fallback` says whether that is told: "warn", "silent" or "error".

    >>> import pullback as torch
    >>> from pullback.compiled.backward.takeover import compiled_autograd
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with compiled_autograd(backend="python"):
    ...     (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(
        self, backend: Any = None, dynamic: bool | None = None, fallback: str = "warn"
    ) -> None:
        if fallback not in ("warn", "silent", "error"):
            raise ValueError(f"fallback must be 'warn', 'silent' or 'error', got {fallback!r}.")
        self.backend = backends.resolve(backend)
        self.fallback = fallback
        self.is_users = callable(backend)  # whose graphs have their sizes as constants
        self._before: list[Any] = []

    def __enter__(self) -> compiled_autograd:
        self._before.append(passes.taken_over.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        passes.taken_over.reset(self._before.pop())

    # A pass -----------------------------------------------------------------------------------

    def run(
        self,
        roots: list[tuple[Any, Any]],
        wanted: list[Any] | None,
        *,
        retain_graph: bool,
        accumulates: bool,
    ) -> list[Any] | None:
        """Run a pass; None where the engine must."""
        if anomaly.state.enabled and anomaly.state.check_nan:
            _refuse_stored_nan(roots)
        if (
            passes.running.get() is not None
            or is_running.get()
            or settle() not in (PLAIN, NO_GRAD)
            or fast.plain is None
        ):
            return None  # inside another pass or replay, or something is on that sees operators
        if accumulates and any(edge._seq != LEAF_SEQ for edge in wanted or ()):
            self._refuse("it adds to the .grad of a tensor inside the graph")
            return None
        found, known = self._known(roots, wanted)
        if known is None:
            try:
                graph = Graph(roots, wanted)
                known = _programs.get((self.backend, graph.key))
                if known is None:
                    known = self._derived(graph) or self._captured(graph, roots, wanted)
                    found = Found(graph.arrays, graph.leaves, graph.nodes, _release)
                else:
                    counters["compiled_autograd"]["hits"] += 1
                    _programs.move_to_end((self.backend, graph.key))
                    found = self._remembered(graph, roots, wanted, known)
            except (Unsupported, CannotCapture) as reason:
                self._refuse(str(reason))
                return None
        program, places, slots = known
        before = is_running.get()
        try:
            is_running.set(True)
            made = program([found.arrays[place] for place in places])
        finally:
            is_running.set(before)
        results = _owned(made, found.arrays)
        if not retain_graph:
            found.release(Freed(user_frame(getframe(3)), []))
        arrived = self._deliver(found, wanted, dict(zip(slots, results, strict=True)), accumulates)
        if accumulates:
            for act in tuple(passes.at_end):
                act()
        return arrived

    def _known(self, roots: Any, wanted: Any) -> tuple[Any, Any]:
        """What the trails of programs that ran before lead to, and the program."""
        listed = _trails.get((self.backend, roots[0][0].__class__), [])
        for place, (trail, known) in enumerate(listed):
            found = trail(roots, wanted)
            if found is not None:
                if place:
                    listed.insert(0, listed.pop(place))
                counters["compiled_autograd"]["hits"] += 1
                return found, known
        return None, None

    def _remembered(self, graph: Graph, roots: Any, wanted: Any, known: Any) -> Found:
        """Write the trail of a graph that was walked, for the next one of its sort."""
        trail = trail_of(graph, roots, wanted)
        listed = _trails.setdefault((self.backend, roots[0][0].__class__), [])
        listed.insert(0, (trail, known))
        del listed[_MOST_TRAILS:]
        return Found(graph.arrays, graph.leaves, graph.nodes, _release)

    def _deliver(
        self, graph: Found, wanted: list[Any] | None, results: dict[int, Any], accumulates: bool
    ) -> list[Any]:
        if wanted is None:
            for number, leaf in enumerate(graph.leaves):
                if number in results:
                    accumulate(leaf, results[number], owned=True)
            return []
        if accumulates:
            for number, edge in enumerate(wanted):
                if number in results:
                    accumulate(edge, results[number], owned=True)
            return []
        return [results.get(number) for number in range(len(wanted))]

    def _refuse(self, reason: str) -> None:
        counters["compiled_autograd"][f"fallback: {reason}"] += 1
        if self.fallback == "error":
            raise NotImplementedError(
                f"compiled_autograd cannot capture this backward: {reason}. Run it outside of the "
                "block, or use fallback='warn'."
            )
        if self.fallback == "warn":
            warnings.warn(
                f"compiled_autograd: the engine runs this backward: {reason}.",
                UserWarning,
                stacklevel=5,
            )

    # Capture ----------------------------------------------------------------------------------

    def _captured(self, graph: Graph, roots: Any, wanted: list[Any] | None) -> Any:
        counters["compiled_autograd"]["captures"] += 1
        compile_reasons.append(_why(graph))
        del compile_reasons[:-64]
        capture = _Capture(graph)
        targets = graph.leaves if wanted is None else wanted
        values, calls = capture.gradients(roots, targets)
        constants = [(value, array) for array, _, value in capture.tracer.constants.values()]
        gradients = [(slot, value) for slot, value in enumerate(values) if value is not None]
        captured = as_captured(capture.values, calls, gradients, constants, graph.key)
        reason = None if self.is_users else _passes.note(self.backend, captured)
        if reason is not None:
            counters["sizes"][f"a backward pass: {reason}"] += 1
        return self._made(captured, graph.key)

    def _derived(self, graph: Graph) -> Any:
        """The program of a pass that differs from earlier ones in sizes alone; else None."""
        found = _passes.find(self.backend, graph.key, graph.arrays)
        if found is None:
            return None
        counters["compiled_autograd"]["hits"] += 1
        return self._made(found[0], graph.key, found[1])

    def _made(self, captured: Captured, key: Any, sharing: Any = None) -> Any:
        """A captured pass as a program, with the places of its inputs and the slots of its results.

        It is kept by its key.
        """
        slots = [slot for slot, _ in captured.gradients]
        outputs: list[Any] = [value for _, value in captured.gradients]
        read = {one.number for call in live(captured.calls, outputs) for one in call.inputs}
        read |= {one.number for one in outputs}
        inputs = [one for one in captured.inputs if one.value.number in read]
        places = [one.place for one in inputs if one.kind == "argument"]
        constants = {one.value.number: one.place for one in inputs if one.kind == "constant"}
        values = [one.value for one in inputs]
        program = self.backend(captured.calls, values, outputs, constants, None, sharing)
        if constants:
            program = _with_constants(program, list(constants.values()))
        _programs[self.backend, key] = (program, places, slots)
        while len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
            _warn_of_many()
        return program, places, slots


@cache
def _warn_of_many() -> None:
    """Once: the graphs of this program are others each time."""
    log.warning(
        "compiled_autograd keeps %d programs and forgets the least used ones; the last reasons to "
        "make one: %s", _MOST_PROGRAMS, compile_reasons[-3:],
    )  # fmt: skip


def _refuse_stored_nan(roots: list[tuple[Any, Any]]) -> None:
    """Raise where a NaN is in a leaf's `.grad` before the pass: it would be taken for a new one."""
    waiting = [edge for edge, _ in roots]
    seen: set[int] = set()
    while waiting:
        node, _ = node_and_number(waiting.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        leaf: Any = getattr(node, "variable", None)
        stored = None if leaf is None else leaf._stored_grad
        if stored is not None and bool(stored.isnan().any()):
            raise RuntimeError(
                f"Anomaly detection: the .grad of a leaf of shape {tuple(leaf.shape)} holds NaN "
                "before this backward pass begins. Set it to None, or look for NaN in the pass "
                "that left it there."
            )
        waiting += [edge for edge in node._edges if edge is not None]


def _release(nodes: list[Any], freed: Any) -> None:
    for node in nodes:
        node._release(freed)


def _why(graph: Graph) -> str:
    """In what a graph differs from the one captured last."""
    size = f"{len(graph.nodes)} nodes, {len(graph.arrays)} tensors"
    if not _programs:
        return f"{size}: the first one"
    before = next(reversed(_programs))[1]
    if len(before) != len(graph.key):
        return f"{size}: key of {len(graph.key)} parts, the one before had {len(before)}"
    for place, (now, then) in enumerate(zip(graph.key, before, strict=True)):
        if now == then and type(now) is type(then):
            continue
        if isinstance(now, type):
            return f"{size}: {now.__name__} at place {place} of the key, where {_named(then)} was"
        if place >= len(graph.key) - len(graph.arrays):
            return (
                f"{size}: a tensor of shape {now[0]} and {now[2]}, before {then[0]} and {then[2]}"
            )
        return f"{size}: {_named(now)} at place {place} of the key, where {_named(then)} was"
    return f"{size}: another back end"


def _named(one: Any) -> str:
    return one.__name__ if isinstance(one, type) else repr(one)


class _Capture:
    """Saved values stand on arrays without data while the engine's pass runs once, on tensors."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tracer = Tracer()
        self.traced = [self.tracer.stand_in(array) for array in graph.arrays]
        self.values = [one.value for one in self.traced]
        self.by_array = {id(a): t for a, t in zip(graph.arrays, self.traced, strict=True)}

    def gradients(self, roots: Any, targets: list[Any]) -> tuple[list[Any], list[Any]]:
        """Values of the gradients, and the calls that make them."""
        mode = settle()
        restore = self._stand_in()
        try:
            current.set(changed(mode, tracing=self.tracer, grad=False))
            seeds = [(edge, wrap(self.by_array[id(array)])) for edge, array in self._seeds(roots)]
            before = passes.taken_over.get()
            try:
                passes.taken_over.set(None)
                made = run_pass(seeds, targets, retain_graph=True, create_graph=False)
            except CannotCapture:
                raise
            except Exception as error:  # then the engine raises it too, or knows more
                raise Unsupported(f"capturing it raised {type(error).__name__}") from error
            finally:
                passes.taken_over.set(before)
            values = [None if g is None else self.tracer.value_of(g._array) for g in made]
        finally:
            current.set(mode)
            self.tracer.is_open = False
            for one, name, value in restore:
                setattr(one, name, value)
        return values, self.tracer.calls

    def _seeds(self, roots: Any) -> list[tuple[Any, Any]]:
        return [(edge, self.before.get(id(g), g._array)) for edge, g in roots]

    def _stand_in(self) -> list[tuple[Any, str, Any]]:
        restore: list[tuple[Any, str, Any]] = []
        self.before: dict[int, Any] = {}
        for tensor, array, traced in zip(
            self.graph.tensors, self.graph.arrays, self.traced, strict=True
        ):
            if tensor is not None:
                restore.append((tensor, "_array", array))
                self.before[id(tensor)] = array
                tensor._array = traced
        for node in self.graph.nodes:
            for name in type(node).plan.outputs:
                array = getattr(node, f"s_{name}")
                if id(array) in self.by_array:
                    restore.append((node, f"s_{name}", array))
                    setattr(node, f"s_{name}", self.by_array[id(array)])
            for param in type(node).plan.inputs:
                for one in _tensors_of(getattr(node, f"s_{param.name}")):
                    known = self.by_array.get(id(one._array))
                    if known is not None:  # another tensor on the same array
                        restore.append((one, "_array", one._array))
                        one._array = known
        restore.reverse()
        return restore


def _tensors_of(value: Any) -> list[Any]:
    listed = value if isinstance(value, tuple) else (value,)
    return [one for one in listed if hasattr(one, "_array")]


def _with_constants(
    program: Callable[[list[Any]], list[Any]], arrays: list[Any]
) -> Callable[[list[Any]], list[Any]]:
    """A program whose constants, its last inputs, are given with each call."""
    return lambda given: program([*given, *arrays])


def _owned(made: list[Any], given: list[Any]) -> list[Any]:
    """Gradients that the engine may add to: new ones, each its own."""
    seen = {id(one) for one in given}
    results = []
    for one in made:
        fresh = one.base is None and id(one) not in seen and one.flags.writeable
        results.append(one if fresh else numpy.array(one))
        seen.add(id(one))
    return results


def is_cache_empty() -> bool:
    """Whether no backward program is kept."""
    return not _programs


def clear_cache() -> None:
    """Forget the backward programs; refused inside a pass, or the replay of one."""
    if passes.running.get() is not None or is_running.get():
        raise RuntimeError("The cache of compiled backward passes is in use: a pass runs now.")
    _programs.clear()
    _passes.clear()
    _trails.clear()
    compile_reasons.clear()
