"""A whole pass captured for a compiler of the user's: operators, and a user's code as calls.

Formulas run on arrays without data. Hooks, custom Functions and whatever else runs a user's code
are written down as calls that take what was lifted, and give gradients like those that they get.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.autograd.function.saved import OwnResult
from pullback.compiled.backward import calls as targets
from pullback.compiled.backward.graph import Unsupported
from pullback.compiled.backward.lifted import Lifted, Lifting, plan_of
from pullback.compiled.backward.order import Walk
from pullback.compiled.backward.sizes import as_captured
from pullback.compiled.backward.standing import StandIns
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Call
from pullback.core.node import OUTPUT_SEQ, AccumulateGrad
from pullback.core.tensor import Tensor, wrap
from pullback.engine import ordered

__all__ = ["Opaque", "WholeCapture"]

_TURNS = Lifted("hooks", 0)
_UNKNOWN = ((), numpy.dtype("f4"), ())  # what an unpack hook gives; nothing asks for its shape


class Opaque(Call):
    """A call that is no operator; it is never left out."""

    # Where its results are in the tuple that it returns; None: it returns one, or nothing.
    __slots__ = ("places",)

    places: list[int] | None


class WholeCapture(Walk):
    """One pass written down."""

    def __init__(self, graph: Lifting, request: Any, expected: dict[str, Any]) -> None:
        self.graph, self.expected = graph, expected
        self.following: dict[str, list[Any]] = {}
        self._now: list[Any] = []  # what comes before the next step of a user's
        self.steps: list[str] = []  # of calls that the running pass hears of
        self.accumulations: list[str] = []
        nodes = [node for node in graph.nodes if plan_of(node) is not None]
        self.stands = StandIns(graph.arrays, nodes)
        self.tracer = self.stands.tracer
        roots = [(edge, graph.places[id(g._array)]) for edge, g in request.roots]
        with self.stands.standing():
            seeds = [(edge, wrap(self.stands.traced[place])) for edge, place in roots]
            task = ordered.Task(
                seeds, True, False, True, request.accumulates, request.wanted, request.freed
            )
            super().__init__(task, graph.place_of)
            self.run()
            if graph.hooks:
                self._enter("", targets.exec_final_callbacks, (_TURNS,), None, ())
            self.results = self._asked_for(request)
        self.calls = self.tracer.calls

    def _asked_for(self, request: Any) -> list[Any]:
        """The values that the caller of grad() gets, None where nothing arrives."""
        if request.accumulates:
            return []
        found = []
        for edge in request.wanted:
            place = (edge.node, edge.nr) if edge._seq == OUTPUT_SEQ else (edge, 0)
            g = self.task.captured.get(place)
            found.append(None if g is None else self.tracer.value_of(g._array))
        return found

    def captured(self, key: Any) -> Captured:
        """The pass in the form that families of sizes are made of."""
        gradients = [(n, value) for n, value in enumerate(self.results) if value is not None]
        constants = self.stands.constants()
        return as_captured(self.stands.values, self.calls, gradients, constants, key)

    # Writing down -----------------------------------------------------------------------------

    def visit(self, node: Any, is_run: bool) -> None:
        """A node's turn; whatever is not as it was by then ends the captured pass."""
        self._now.append((self.place_of[id(node)], "tensors"))
        super().visit(node, is_run)

    def tensor_sorts(self, node: Any) -> list[Any]:
        """Those that were lifted."""
        return [sort for sort in self.graph.tables.get(id(node), {}) if sort[0] == "tensor"]

    def hooks_of(self, node: Any, sort: Any) -> list[Any]:
        """Those that were lifted."""
        if sort == "retained":
            return self.graph.tables.get(id(node), {}).get(sort, [])
        if isinstance(sort, str):
            self._now.append((self.place_of[id(node)], sort))
        return self.graph.found.get((id(node), sort), [])

    def hook(self, step: str, kind: str, hook: Any, *given: Any) -> Any:
        """A call that gives what it is given."""
        several = isinstance(given[0], tuple)
        like = [None if g is None else _ordered_like(g) for g in (given[0] if several else given)]
        args, options = (_TURNS, hook, *given), {"hook_type": kind}
        if several:
            return self._users(step, targets.call_hook, args, options, like)
        call = self._enter(step, targets.call_hook, args, options, [one for one in like if one])
        self._begin(step)
        return wrap(self.tracer.array_of(call.results[0])) if call.results else None

    def formula(self, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
        """A node's operators, or one call."""
        if not node._by_user and all(g is None for g in gradients):
            return (None,) * len(edges)
        step = self.step(node, "formula")
        packs = self.graph.packs.get(id(node), ())
        if plan_of(node) is not None and not packs:
            self._now.append((self.place_of[id(node)], "formula"))
            return ordered.apply(self.task, node, gradients, edges)
        if id(node) in self.graph.inlined:
            self._now.append((self.place_of[id(node)], "formula"))
            return self._inlined(node, gradients, edges)
        unpacked: list[Any] = []
        # Where only some results are asked for, the node knows which values those need.
        for number in range(len(packs) if edges == node._edges else 0):
            sort = ("unpack", number)
            hook = (_TURNS, *self.graph.found[id(node), sort])
            call = self._enter(self.step(node, sort), targets.unpack, hook, {}, [_UNKNOWN])
            self._begin(self.step(node, sort))
            unpacked += call.results
        expected = self.expected.get(step)
        if expected is None:
            expected = self.expected[step] = tuple(_goes_nowhere(edge) for edge in edges)
        like = [None if missing else _geometry(edge)
                for edge, missing in zip(edges, expected, strict=True)]  # fmt: skip
        (lifted,) = self.graph.found[id(node), "node"]
        if node._by_user:
            places = self.graph.function_saved.get(id(node), ())
            saved = tuple(self.stands.values[place] for place in places)
            args = (_TURNS, lifted, saved, *gradients)
            return self._users(step, targets.call_backward, args, {}, like)
        args = (_TURNS, lifted, tuple(unpacked), *gradients)
        return self._users(step, targets.call_node, args, {}, like)

    def _inlined(self, node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
        """The operators of a custom Function's backward."""
        restore: list[tuple[Any, str, Any]] = []

        def put(owner: Any, name: str) -> None:
            restore.append((owner, name, getattr(owner, name)))
            setattr(owner, name, self.stands.instead(getattr(owner, name)))

        try:
            if node._saved.__class__ is tuple:
                put(node, "_saved")
            else:
                for one in node._saved:
                    if one is not None:
                        put(one, "array" if isinstance(one, OwnResult) else "tensor")
            return ordered.apply(self.task, node, gradients, edges)
        finally:
            for owner, name, value in restore:
                setattr(owner, name, value)

    def retain(self, step: str, node: Any, number: int, g: Any) -> None:
        """A call that keeps a gradient."""
        (lifted,) = self.graph.found[id(node), "node"]
        self._enter(step, targets.call_retain_grad, (_TURNS, lifted, number, g), {}, ())

    def accumulate(self, step: str, node: AccumulateGrad, g: Any) -> None:
        """A call that adds to a leaf's `.grad`."""
        self.accumulations.append(step)
        leaf, stored = self.graph.leaf_inputs[id(node)]
        more = (_TURNS, step) if self.graph.hooks else ()
        self._enter(step, targets.call_accumulate_grad, (leaf, stored, g, *more), None, ())

    def accumulated(self, step: str, node: AccumulateGrad, hook: Any) -> None:
        """A hook on a leaf."""
        leaf, _ = self.graph.leaf_inputs[id(node)]
        self._enter(step, targets.call_hook, (_TURNS, hook, leaf),
                    {"hook_type": "post_acc_grad_hook"}, ())  # fmt: skip
        self._begin(step)

    def _users(self, step: str, target: Any, args: Any, options: dict[str, Any], like: Any) -> Any:
        """A call of a user's code that gives gradients, None where `like` has none."""
        made = [one for one in like if one is not None]
        call = self._enter(step, target, args, options, made)
        call.places = [place for place, one in enumerate(like) if one is not None]
        self._begin(step)
        following = iter(call.results)
        return tuple(
            None if one is None else wrap(self.tracer.array_of(next(following))) for one in like
        )

    def _begin(self, step: str) -> None:
        self._now = self.following[step] = []

    def _enter(self, step: str, target: Any, args: Any, options: Any, made: Any) -> Opaque:
        """Write a call down; with `options`, it is told which step it is."""
        kwargs = {} if options is None else {**options, "step": step}
        call = Opaque(target.__name__, target, self._values(args), kwargs)
        call.random = True  # it stays where it is, whoever uses its result
        call.places = None
        self.tracer.enter(call, list(made), single=False)
        if _TURNS in args and step:
            self.steps.append(step)
        return call

    def _values(self, tree: Any) -> Any:
        if isinstance(tree, tuple):
            return tuple(self._values(one) for one in tree)
        return self.tracer.value_of(tree._array) if isinstance(tree, Tensor) else tree


def _ordered_like(g: Tensor) -> Any:
    """What a hook gives for a gradient: the same without gaps, in the same memory order."""
    array = g._array
    strides = numpy.empty_like(numpy.lib.stride_tricks.as_strided(
        numpy.empty((), array.dtype), array.shape, array.strides)).strides  # fmt: skip
    return array.shape, array.dtype, strides


def _geometry(edge: Any) -> Any:
    """What a function gives for an edge."""
    if isinstance(edge, AccumulateGrad) and edge.variable._grad_dtype != "same":
        raise Unsupported("a leaf that takes gradients of another dtype")
    shape, dtype = edge._g_shape, edge._g_dtype
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return shape, dtype, tuple(reversed(strides))


def _goes_nowhere(edge: Any) -> bool:
    return edge is None or edge._seq > OUTPUT_SEQ
