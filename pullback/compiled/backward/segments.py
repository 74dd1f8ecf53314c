"""Passes at some nodes of which a user's code runs: programs between stops.

A stop is a node or leaf with hooks, a custom Function, a node whose saved values a user's hook
packed, or one that no declared operator made. The engine runs it, when its turn comes and in its
own way. All nodes between two stops are one program, a section. What flows between them waits in an
inbox like the engine's, so a section for which something is not as it was captured (a gradient of
another layout, none at all, a saved tensor that a hook changed) is run by the engine too, node by
node.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy

from pullback.compiled.backends import is_exact
from pullback.compiled.backward import nan
from pullback.compiled.backward.graph import Graph, Unsupported
from pullback.compiled.backward.reasons import note
from pullback.compiled.backward.section_sizes import SectionSizes, part_of, section_key
from pullback.compiled.backward.sizes import as_captured
from pullback.compiled.backward.standing import StandIns, built, owned
from pullback.compiled.backward.trail import Found
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.core.node import AccumulateGrad, node_and_number
from pullback.core.saved import Freed
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, wrap
from pullback.core.writer import define_once
from pullback.engine import node_observers, ordered, task
from pullback.engine.anomaly import NaNFound, holds_nan
from pullback.engine.backward import Request

__all__ = ["Schedule", "SegmentedPass", "check_unwatched"]

_MOST_VARIANTS = 8
_UNKNOWN = object()


def check_unwatched() -> None:
    """Refuse passes of which each node is seen, or whose order is not that of the nodes' making."""
    if numbering.changed:
        raise Unsupported("nodes with other numbers than those of their making")
    if _is_watched():
        raise Unsupported("somebody looks at each of its nodes")


def _is_watched() -> bool:
    return node_observers.observer is not None or task.logs_nodes()


class Schedule:
    """The steps of all passes of one key. It knows nodes and leaves by their place, none itself."""

    def __init__(self, graph: Graph, why: str, sizes: dict[Any, SectionSizes] | None) -> None:
        """`why` it is made; `sizes`, of passes that differ in sizes alone, are all their own."""
        self._stops = [id(one) in graph.stops for one in (*graph.nodes, *graph.leaves)]
        self._steps: dict[bool, Any] = {}
        self.why: str | None = why  # until its first pass
        self._sizes = sizes

    def serves(self, accumulates: bool) -> bool:
        """Whether a pass that accumulates, or one that does not, was planned and may run now."""
        return accumulates in self._steps and not (numbering.changed or _is_watched())

    def steps(self, request: Request, everything: list[Any], graph: Graph | None) -> Any:
        """Stops (places) and sections in order, and which nodes are reached, and which run."""
        known = self._steps.get(request.accumulates)
        if known is None:
            assert graph is not None  # a trail leads only to what was planned
            known = self._steps[request.accumulates] = self._written(request, everything, graph)
        return known

    def _written(self, request: Request, everything: list[Any], graph: Graph) -> Any:
        place = {id(one): number for number, one in enumerate(everything)}
        steps: list[Any] = []
        order: list[int] = []
        runs: list[int] = []
        visits = ordered.visits_of(request)
        for node, is_run in visits:
            here = place[id(node)]
            if is_run:
                runs.append(here)
            if self._stops[here] or (not order and isinstance(node, AccumulateGrad)):
                if order:
                    steps.append(order)
                    order = []
                steps.append(here)
            else:
                order.append(here)
        if order:
            steps.append(order)
        reached = {id(node) for node, _ in visits}
        roots = [node_and_number(edge)[0] for edge, _ in request.roots]
        delivered = {place[id(node)] for node in roots if id(node) in reached}
        for number, step in enumerate(steps):
            if isinstance(step, int):
                targets = [node_and_number(edge)[0] for edge in everything[step]._edges]
                delivered |= {place[id(one)] for one in targets if id(one) in reached}
            else:
                section = _Section(step, everything, place, reached, graph, delivered)
                section.frees = [one for one in section.frees if one in set(runs)]
                if self._sizes is not None:
                    sort = (request.accumulates, tuple(step))
                    section.sizes = self._sizes.setdefault(sort, SectionSizes())
                steps[number] = section
        return steps, [place[id(node)] for node, _ in visits], runs


class _Section:
    """Nodes, and leaves among them, from one stop to the next."""

    def __init__(
        self,
        order: list[int],
        everything: list[Any],
        place: dict[int, int],
        reached: set[int],
        graph: Graph,
        delivered: set[int],
    ) -> None:
        self.order = order
        self.nodes = [one for one in order if not isinstance(everything[one], AccumulateGrad)]
        self.leaves = [one for one in order if isinstance(everything[one], AccumulateGrad)]
        touched = dict.fromkeys(self.nodes)
        self.inputs: list[tuple[int, str, int | None, int]] = []
        self.outputs: list[tuple[int, str, int]] = []
        self.numbers: list[tuple[int, str]] = []
        for here in self.nodes:
            node = everything[here]
            for edge in node._edges:
                target = node_and_number(edge)[0]
                if target is not None and id(target) in reached:
                    touched[place[id(target)]] = None
            self._keep(here, node, graph)
        self.touched = list(touched)
        # Those for which something may wait when the section begins.
        self.entries = [one for one in touched if one in delivered]
        self.entered = [one for one in self.entries if one in set(self.nodes)]
        plans = [(one, type(everything[one]).plan) for one in self.nodes]
        self.frees = [one for one, plan in plans if plan.inputs or plan.outputs]
        delivered.update(touched)
        self.is_as_it_was = self._check()
        self.variants: dict[Any, Any] = {}  # by the geometry of what waits for these nodes
        self.sizes: SectionSizes | None = None
        places = [*[one[3] for one in self.inputs], *[one[2] for one in self.outputs]]
        self.places = sorted(set(places))

    def arrays(self, arrays: list[Any]) -> list[Any]:
        """Those of the graph's arrays that its nodes keep."""
        return [arrays[place] for place in self.places]

    def _keep(self, here: int, node: Any, graph: Graph) -> None:
        """Where the node's saved values are among the arrays of the graph."""
        for param in type(node).plan.inputs:
            slot = f"s_{param.name}"
            value = getattr(node, slot)
            if isinstance(value, Tensor):
                self.inputs.append((here, slot, None, graph.places[id(value._array)]))
            elif isinstance(value, tuple):
                for number, one in enumerate(value):
                    if isinstance(one, Tensor):
                        self.inputs.append((here, slot, number, graph.places[id(one._array)]))
            else:
                self.numbers.append((here, slot))
        for name in type(node).plan.outputs:
            value = getattr(node, f"s_{name}")
            if value is not None:
                self.outputs.append((here, f"s_{name}", graph.places[id(value)]))

    def _check(self) -> Any:
        """A function that says whether a user's code left the nodes and what they keep alone."""
        lines = ["def is_as_it_was(nodes, arrays):"]
        for here in self.order:
            lines += [f"    n{here} = nodes[{here}]", f"    c = n{here}._cold",
                      "    if c is not None and c.has_hooks: return"]  # fmt: skip
        for here in self.leaves:
            lines += [f"    v = n{here}.variable",
                      "    if v._leaf_hooks or v._post_accumulate_grad_hooks: return"]  # fmt: skip
        for here, slot, number, place in self.inputs:
            value, version = f"n{here}.{slot}", f"n{here}.{slot}_v"
            if number is not None:
                lines.append(f"    if {value}.__class__ is Freed: return")
                value, version = f"{value}[{number}]", f"{version}[{number}]"
            lines += [f"    v = {value}",
                      f"    if v.__class__ is Freed or v._array is not arrays[{place}]"
                      f" or v._cell[0] != {version}: return"]  # fmt: skip
        for here, slot, place in self.outputs:
            lines.append(f"    if n{here}.{slot} is not arrays[{place}] or "
                         f"n{here}.{slot}_c[0] != n{here}.{slot}_v: return")  # fmt: skip
        for here, slot in self.numbers:
            lines.append(f"    if n{here}.{slot}.__class__ is Freed: return")
        text = "\n".join([*lines, "    return True"])
        return define_once(text, {"Freed": Freed}, "nodes between two hooks", "is_as_it_was")


class _Program:
    """A section captured for gradients of one geometry."""

    def __init__(self, run: Any, places: list[int], slots: list[Any], kept: list[Any],
                 nothing: list[Any], filled: list[Any]) -> None:  # fmt: skip
        self.run, self.places = run, places
        self.slots = slots  # where the first results wait: place of a node, number of its output
        self.kept = kept  # which gradients for the caller of grad() the others are
        self.nothing = nothing  # and which of them are None
        self.filled = filled  # nodes at which something arrives, if only None, and their outputs


class _All:
    """The set of all nodes."""

    def __contains__(self, node: object) -> bool:
        return True


class _Replayed(ordered.Plan):
    """The plan of a pass that was planned before; nobody counts what is missing."""

    def __init__(self, request: Any, everything: list[Any], known: Any) -> None:
        _, reached, runs = known
        if request.wanted is None:
            self.reached = self.runs = _All()
        else:
            self.reached = {everything[one] for one in reached}
            self.runs = {everything[one] for one in runs}
        self.missing = defaultdict(int)
        self.wanted = {}
        for edge in request.wanted or ():
            node, number = node_and_number(edge)
            if node is not None:
                self.wanted.setdefault(node, set()).add(number)


class SegmentedPass(Request):
    """One call of backward() or grad() whose graph has stops."""

    follows_classes = True

    def __init__(
        self,
        schedule: Schedule,
        found: Found,
        graph: Graph | None,
        backend: Any,
        dynamic: bool | None,
        *given: Any,
    ) -> None:
        super().__init__(*given)
        self.schedule, self.found, self.graph, self.backend = schedule, found, graph, backend
        self.dynamic = dynamic
        self.everything: list[Any] = [*found.nodes, *found.leaves]
        self.waiting: dict[Any, list[Any]] = {}

    def run(self) -> dict[Any, Any]:
        """Go from stop to stop; returns what was captured for the caller."""
        known = self.schedule.steps(self, self.everything, self.graph)
        if self.tensors:  # a node was recorded around a class that sees operators
            counters["compiled_autograd"]["fallback: gradients that see operators"] += 1
            return super().run()
        self.whole = self._task(tensors=False)
        self.plan = _Replayed(self, self.everything, known)
        for (edge, _), (_, g) in zip(self.roots, self.whole.roots, strict=True):
            node, number = node_and_number(edge)
            if node is not None and node in self.plan.reached:
                ordered.add(self.whole, self.waiting, node, number, g)
        stored = nan.Stored(self.found.leaves) if nan.is_sought() and self.accumulates else None
        is_first = True
        try:
            for step in known[0]:
                if step.__class__ is int:
                    self._visit(step)
                    is_first = False
                else:
                    self._section(step, is_first)
        except NaNFound as error:
            if stored is not None:
                stored.put_back()
            raise error.told() from None
        finally:
            self.waiting.clear()
            if self.schedule.why is not None:  # nothing had to be captured
                self.schedule.why = None
                counters["compiled_autograd"]["hits"] += 1
        return self.whole.captured

    def _task(self, *, tensors: bool) -> ordered.Task:
        return ordered.Task(
            [(edge, g._array) for edge, g in self.roots],
            keep_graph=self.keep_graph or tensors,
            create_graph=False,
            tensors=tensors,
            accumulates=self.accumulates,
            wanted=self.wanted,
            freed=self.freed,
        )

    def _visit(self, place: int) -> None:
        """Have the engine run a node with all of its hooks, or serve a leaf."""
        node = self.everything[place]
        try:
            ordered.visit(self.whole, self.plan, self.waiting, None, node)
        except BaseException as error:
            ordered.tell(error, node)
            raise

    def _section(self, section: _Section, is_first: bool) -> None:
        if is_first or section.is_as_it_was(self.everything, self.found.arrays):
            program, arrived = self._program(section)
        else:
            program = None
        if program is None:
            for place in section.order:
                self._visit(place)
            return
        self._run_program(program, arrived, section)
        arrived = None  # a leaf adopts a gradient that nobody else knows
        for place in section.leaves:
            self._visit(place)

    def _program(self, section: _Section) -> tuple[Any, Any]:
        """The program for what waits now, and that; None where the engine must run the nodes."""
        arrived: list[Any] = []
        for place in section.entries:
            for g in self.waiting.get(self.everything[place]) or ():
                if g is not None and g.__class__ is not numpy.ndarray:
                    return None, None
                arrived += () if g is None else (g,)
        key = self._geometry(section, arrived)
        program = section.variants.get(key, _UNKNOWN)
        if program is not _UNKNOWN:
            return program, arrived
        if len(section.variants) >= _MOST_VARIANTS:
            return None, None
        counters["compiled_autograd"]["sections"] += 1
        try:
            program = self._derived(section, arrived, key) or self._captured(section, arrived, key)
        except (Unsupported, CannotCapture) as reason:
            counters["compiled_autograd"][f"fallback: {reason}"] += 1
            note(f"{len(section.nodes)} nodes between hooks are left to the engine: {reason}")
            program = None
        section.variants[key] = program
        return program, arrived

    def _geometry(self, section: _Section, arrived: list[Any]) -> tuple[Any, ...]:
        """For which outputs gradients wait, and what they are like."""
        following = iter(arrived)
        geometry: list[Any] = []
        for place in section.entries:
            slots = self.waiting.get(self.everything[place])
            geometry.append(None if slots is None else len(slots))
            for waits in slots or ():
                g = None if waits is None else next(following)
                geometry.append(None if g is None else (g.shape, g.strides, g.dtype))
        return tuple(geometry)

    def _run_program(self, program: _Program, arrived: list[Any], section: _Section) -> None:
        everything, waiting = self.everything, self.waiting
        made: list[Any] = []
        if program.run is not None:
            arrays, many = self.found.arrays, len(self.found.arrays)
            given = [arrays[n] if n < many else arrived[n - many] for n in program.places]
            made = owned(program.run(given), given)
            if nan.is_sought():
                self._check(program, made, section)
        for place in section.entered:
            waiting.pop(everything[place], None)
        if not self.keep_graph:
            freed = self.freed
            for place in section.frees:
                everything[place]._release(freed)
        for place, outputs in program.filled:
            waiting.setdefault(everything[place], [None] * outputs)
        for (place, number), g in zip(program.slots, made, strict=False):
            waiting[everything[place]][number] = g
        for (place, number), g in zip(program.kept, made[len(program.slots) :], strict=True):
            self.whole.captured[everything[place], number] = g
        for place, number in program.nothing:
            self.whole.captured[everything[place], number] = None

    def _check(self, program: _Program, made: list[Any], section: _Section) -> None:
        """Raise where a section gave NaN, after its nodes ran once more to find which one did."""
        slots = zip((*program.slots, *program.kept), made, strict=True)
        found = [self.everything[place] for (place, _), g in slots if holds_nan(g)]
        if not found:
            return
        whole = self._task(tensors=False)
        whole.keep_graph = True
        entries = [self.everything[place] for place in section.entries]
        inbox = {node: list(self.waiting[node]) for node in entries if node in self.waiting}
        told = None
        for place in section.nodes:
            node = self.everything[place]
            try:
                ordered.visit(whole, self.plan, inbox, None, node)
            except NaNFound as error:
                ordered.tell(error, node)
                told = str(error)
                break
        raise nan.found_nan([nan.named(node, self.found.nodes) for node in found], told)

    def _derived(self, section: _Section, arrived: list[Any], waiting: Any) -> _Program | None:
        """The program of a section that was captured at other sizes; None if it was not."""
        if section.sizes is None:
            return None
        arrays = self.found.arrays
        key = section_key(section, self.everything, arrays, waiting)
        found = section.sizes.find(self.backend, key, [*arrays, *arrived])
        if found is None:
            return None
        captured, sharing, structure = found
        return self._built(captured, structure, sharing)

    def _captured(self, section: _Section, arrived: list[Any], waiting: Any) -> _Program:
        """Capture a section, and have the back end compile it."""
        if self.schedule.why is not None:
            counters["compiled_autograd"]["captures"] += 1
            note(self.schedule.why)
            self.schedule.why = None
        arrays = self.found.arrays
        captured, structure = self._traced(section, arrays, arrived, waiting)
        if section.sizes is not None and captured.gradients:
            if self.dynamic:
                self._generalise(section, arrived, captured, structure)
            else:
                section.sizes.learn(self.backend, captured, structure)
        return self._built(captured, structure)

    def _generalise(self, section: _Section, arrived: Any, captured: Any, structure: Any) -> None:
        arrays = self.found.arrays

        def other(by_id: dict[int, Any]) -> Any:
            now = [by_id.get(id(one), one) for one in arrays]
            waiting = [by_id.get(id(one), one) for one in arrived]
            return self._traced(section, now, waiting, self._geometry(section, waiting))

        numbers = [*section.places, *range(len(arrays), len(arrays) + len(arrived))]
        part = part_of(section, self.everything, arrays, arrived)
        assert section.sizes is not None
        section.sizes.generalise(self.backend, captured, structure, part, numbers, other)

    def _built(self, captured: Captured, structure: Any, sharing: Any = None) -> _Program:
        slots, kept, nothing, filled = structure
        if not captured.gradients:
            return _Program(None, [], [], [], nothing, filled)
        run, places = built(self.backend, captured, sharing)
        return _Program(run, places, slots, kept, nothing, filled)

    def _traced(
        self, section: _Section, arrays: list[Any], arrived: list[Any], waiting: Any
    ) -> tuple[Captured, Any]:
        """Run the section's nodes on arrays without data; the calls, and where results go."""
        everything = self.everything
        nodes = [everything[place] for place in section.nodes]
        stands = StandIns(arrays, nodes, exact=is_exact(self.backend))
        # Each has a value of its own, though it be an array that somebody saved: the next may not.
        traced = [stands.tracer.stand_in(one) for one in arrived]
        given = [wrap(one) for one in traced]
        values = [*stands.values, *[one.value for one in traced]]
        whole = self._task(tensors=True)
        with stands.standing():
            following = iter(given)
            inbox = {
                everything[place]: [
                    None if g is None else next(following) for g in self.waiting[everything[place]]
                ]
                for place in section.entries
                if everything[place] in self.waiting
            }
            before = {node: list(slots) for node, slots in inbox.items()}
            for node in nodes:
                ordered.visit(whole, self.plan, inbox, None, node)
            slots, filled, results = [], [], []
            for place in section.touched:
                waited = before.get(everything[place])
                for number, g in enumerate(inbox.get(everything[place], ())):
                    if g is not None and (waited is None or g is not waited[number]):
                        slots.append((place, number))
                        results.append(stands.tracer.value_of(g._array))
                if everything[place] in inbox:
                    filled.append((place, len(inbox[everything[place]])))
            where = {id(one): place for place, one in enumerate(everything)}
            kept, nothing = [], []
            for (node, number), g in whole.captured.items():
                if g is None:
                    nothing.append((where[id(node)], number))
                else:
                    kept.append((where[id(node)], number))
                    results.append(stands.tracer.value_of(g._array))
        key = section_key(section, everything, arrays, waiting)
        calls, constants = stands.tracer.calls, stands.constants()
        captured = as_captured(values, calls, list(enumerate(results)), constants, key)
        return captured, (slots, kept, nothing, filled)
