"""Backward passes for compilers of the user's: each captured one is a graph with five inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy

from pullback.compiled.backward import nan, takeover
from pullback.compiled.backward.cache import Kept, bounded, cache
from pullback.compiled.backward.compiled_pass import CompiledPass, Departed, Resumed
from pullback.compiled.backward.graph import Unsupported
from pullback.compiled.backward.lifted import Lifting
from pullback.compiled.backward.module import PassModule
from pullback.compiled.backward.resized import at_other_sizes
from pullback.compiled.backward.segments import check_unwatched
from pullback.compiled.backward.sizes import Family, skeleton
from pullback.compiled.backward.standing import owned
from pullback.compiled.backward.takeover import compiled_autograd
from pullback.compiled.backward.whole import WholeCapture
from pullback.compiled.capture.capture import Captured
from pullback.compiled.counting import counters
from pullback.compiled.sizes.fit import NoFit
from pullback.core import passes
from pullback.core.node import AccumulateGrad
from pullback.core.tensor import Tensor, wrap
from pullback.engine import ordered
from pullback.engine.anomaly import NaNFound, holds_nan
from pullback.engine.backward import Request

__all__ = ["Disabled", "Enabled"]

_MOST_DEPARTURES = 3
_MOST_SIZES = 32  # at which a program's constants are kept
_MOST_FAMILIES = 8  # programs of passes that differ in numbers alone


class PassProgram:
    """What a compiler of the user's made of a pass, at one size or at all."""

    def __init__(
        self,
        compiler: Any,
        capture: WholeCapture,
        graph: Lifting,
        others: Sequence[Any] = (),
        places: Any = None,
        points: Any = None,
    ) -> None:
        """`others` are captures of the same pass at other sizes, with their keys."""
        self.following, self.expected = capture.following, capture.expected
        self.steps, self.accumulations = capture.steps, capture.accumulations
        captures: list[Captured] = [
            capture.captured(graph.key),
            *[one.captured(key) for one, key in others],
        ]
        self._first = captures[0]
        self._at: OrderedDict[tuple[int, ...], Captured] = OrderedDict()
        if places and any(number < 0 for number, _ in places.values()):
            _check_constants(captures)
        self.family = Family(captures, places, points) if others else None
        self._many = len(graph.inputs)
        made = PassModule(captures, capture.results, self._many, self.family, self._calls_at)
        self.module, self.places = made.module, made.places
        names = [] if self.family is None else self.family.joined.names
        self._used = {sort: [names.index(one) for one in used] for sort, used in made.used.items()}
        self.run = _compiled(compiler, self.module)
        self.results = [None if one is None else one.number for one in capture.results]
        self.captured_for = dict(capture.expected)  # what functions were expected to give
        self.departures: list[str] = []  # passes that did not end as they were captured

    def fits(self, graph: Lifting) -> bool:
        """Whether a pass differs from this one in sizes alone."""
        found = self.family and self.family.at(graph.key, graph.arrays, graph.scalars)
        return found is not None

    def _captured_at(self, sizes: tuple[int, ...]) -> Captured:
        if self.family is None:
            return self._first
        known = self._at.get(sizes)
        if known is None:
            known = self._at[sizes] = self.family.joined.at(sizes, None)
            if len(self._at) > _MOST_SIZES:
                self._at.popitem(last=False)
        return known

    def _calls_at(self, sizes: tuple[int, ...]) -> list[Any]:
        return self._captured_at(sizes).calls

    def sizes(self, graph: Lifting) -> tuple[int, ...]:
        """The sizes of a pass that vary, and its other numbers that do."""
        return () if self.family is None else tuple(self.family.sizes(graph.arrays, graph.scalars))

    def lists(self, graph: Lifting, turns: CompiledPass | None) -> list[list[Any]]:
        """The five inputs."""
        sizes = self.sizes(graph)
        constants = self._captured_at(sizes).inputs
        inputs = [
            graph.inputs[place] if place < self._many else wrap(constants[place - self._many].place)
            for place in self.places
        ]
        hooks = [turns, *graph.hooks[1:]] if graph.hooks else []
        numbers = {sort: [sizes[n] for n in used] for sort, used in self._used.items()}
        return [inputs, numbers["sizes"], numbers["scalars"], hooks, list(graph.packed)]

    def leaves(self, graph: Lifting) -> list[Any]:
        """The leaves to whose `.grad` the pass adds."""
        return [graph.everything[int(step.split(":", 1)[0])] for step in self.accumulations]

    def checked(self, made: Any, graph: Lifting) -> list[Any]:
        """The gradients, refused before anybody gets one if they are not those of the graph."""
        listed = made if isinstance(made, tuple | list) else (made,)
        arrays = [one._array if isinstance(one, Tensor) else one for one in listed]
        found = [None if one is None else (numpy.shape(one), getattr(one, "dtype", type(one)))
                 for one in arrays]  # fmt: skip
        known = dict(self._captured_at(self.sizes(graph)).gradients)
        wanted = [None if one is None else (known[n].shape, known[n].dtype)
                  for n, one in enumerate(self.results)]  # fmt: skip
        if found != wanted:
            raise RuntimeError(
                "The function that compiler_fn returned gave results of shapes and dtypes "
                f"{found}; the graph that it was given has {wanted}."
            )
        return arrays


def _check_constants(captures: list[Captured]) -> None:
    """Refuse factors that an array was filled with, which may be rounded in it."""
    for inputs in zip(*[one.inputs for one in captures], strict=True):
        first = inputs[0].place
        if inputs[0].kind == "constant" and any(
            not numpy.array_equal(one.place, first) for one in inputs[1:]
        ):
            raise NoFit("a tensor that a formula makes of sizes or numbers")


def _stored(leaf: Any) -> Any:
    """A leaf's `.grad` and how often it was written to."""
    grad = leaf.variable._stored_grad
    return None if grad is None else (id(grad), grad._cell[0])


def _compiled(compiler: Any, module: Any) -> Any:
    with takeover.compiling(module):
        run = compiler(module)
    if not callable(run):
        raise RuntimeError(
            f"compiler_fn returned {type(run).__name__}; it has to return a function."
        )
    return run


class WholePass(Request):
    """One call of backward() or grad() that a compiler's function runs."""

    follows_classes = True

    def __init__(self, program: PassProgram, graph: Lifting, *given: Any) -> None:
        super().__init__(*given)
        self.program, self.graph = program, graph

    def run(self) -> dict[Any, Any]:
        """Call the function; where a user's code leaves what was captured, go on without it."""
        if self.tensors:  # a node was recorded around a class that sees operators
            counters["compiled_autograd"]["fallback: gradients that see operators"] += 1
            return super().run()
        program, graph = self.program, self.graph
        turns = (
            CompiledPass(self, graph, program.following, program.expected) if graph.hooks else None
        )
        lists = program.lists(graph, turns)
        given = [one._array for one in lists[0] if one is not None]
        stored = [] if turns is not None else [_stored(leaf) for leaf in program.leaves(graph)]
        kept = nan.Stored(program.leaves(graph)) if nan.is_sought() else None
        before = takeover.is_running.get()
        try:
            takeover.is_running.set(True)
            arrays = program.checked(program.run(*lists), graph)
            self._check_done(turns, stored)
            if kept is not None:
                self._check_nan(turns, arrays)
        except NaNFound as error:
            assert kept is not None  # somebody looked for it
            kept.put_back()
            raise error.told() from None
        except Departed as departed:
            takeover.is_running.set(before)
            assert turns is not None
            captured = self._resumed(turns, departed, kept)
        except BaseException:
            self._release_before(turns)
            raise
        else:
            captured = self._captured(arrays, given)
        finally:
            takeover.is_running.set(before)
        self._release(len(graph.everything))
        return captured

    def _captured(self, arrays: list[Any], given: list[Any]) -> dict[Any, Any]:
        found = iter(owned([one for one in arrays if one is not None], given))
        captured = {}
        for edge, one in zip(self.wanted or (), arrays, strict=False):
            place = (edge.node, edge.nr) if hasattr(edge, "nr") else (edge, 0)
            captured[place] = None if one is None else next(found)
        return captured

    def _check_done(self, turns: CompiledPass | None, stored: list[Any]) -> None:
        """Refuse a function that did not call what its graph calls."""
        if turns is None:
            now = [_stored(leaf) for leaf in self.program.leaves(self.graph)]
            pairs = zip(self.program.accumulations, now, stored, strict=True)
            missing = [step for step, after, before in pairs if after == before]
        else:
            missing = [step for step in self.program.steps if step not in turns.done]
        if missing:
            raise RuntimeError(
                f"The function that compiler_fn returned left out calls of its graph: {missing}."
            )

    def _check_nan(self, turns: CompiledPass | None, arrays: list[Any]) -> None:
        """Raise where the pass gave NaN, after its nodes ran once more to find which one did."""
        nodes = self.graph.nodes
        found = [f"inputs[{place}] of grad(), of shape {one.shape}"
                 for place, one in enumerate(arrays)
                 if one is not None and holds_nan(one)]  # fmt: skip
        found += [nan.named(leaf, nodes) for leaf in self.program.leaves(self.graph)
                  if leaf.variable._stored_grad is not None
                  and holds_nan(leaf.variable._stored_grad)]  # fmt: skip
        if not found:
            return
        if turns is None:
            targets = self.graph.leaves if self.wanted is None else self.wanted
            raise nan.found_nan(found, nan.told_by_engine(self.roots, targets))
        try:
            Resumed(turns).run()  # on what a user's code gave
        except NaNFound as error:
            raise nan.found_nan(found, str(error)) from None
        raise nan.found_nan(found, None)

    def _resumed(
        self, turns: CompiledPass, departed: Departed, kept: nan.Stored | None
    ) -> dict[Any, Any]:
        counters["compiled_autograd"][f"departure: {departed.reason}"] += 1
        self.program.departures.append(departed.reason)
        rest = Resumed(turns)
        try:
            rest.run()
        except BaseException as error:
            self._release_before(turns)
            if kept is not None and isinstance(error, NaNFound):
                kept.put_back()
                raise error.told() from None
            raise
        return rest.task.captured

    def _release_before(self, turns: CompiledPass | None) -> None:
        """After an error: those nodes are freed whose turn came before."""
        if turns is None or turns.failed is None:
            return
        visits = ordered.visits_of(self)
        places = [self.graph.place_of[id(node)] for node, _ in visits]
        self._release(places.index(turns.failed))

    def _release(self, many: int) -> None:
        if self.keep_graph:
            return
        for node, is_run in ordered.visits_of(self)[:many]:
            if is_run and not isinstance(node, AccumulateGrad):
                node._release(self.freed)  # type: ignore[attr-defined]  # all nodes but leaves have it


class Enabled(compiled_autograd):
    """The block of `_enable(compiler_fn)`."""

    def __init__(self, compiler_fn: Any, dynamic: bool | None = True,
                 ignore_active_disable_ctx: bool = True) -> None:  # fmt: skip
        super().__init__("python", dynamic, "warn")
        self.backend = _ByUser(compiler_fn)
        self.is_off = not ignore_active_disable_ctx and _switched_off()

    def __enter__(self) -> compiled_autograd:
        if self.is_off:
            self._before.append(passes.taken_over.set(passes.taken_over.get()))
            return self
        return super().__enter__()

    def _taken(self, roots: Any, wanted: Any, *, retain_graph: bool, accumulates: bool) -> Any:
        """A maker of requests; None where the engine must run the pass."""
        try:
            check_unwatched()
            graph = Lifting(roots, wanted, accumulates=accumulates)
            program = self._program(graph, roots, wanted, accumulates)
        except takeover.REFUSALS as reason:
            self._refuse(reason)
            return None
        return partial(WholePass, program, graph)

    def _program(self, graph: Lifting, roots: Any, wanted: Any, accumulates: bool) -> PassProgram:
        kept = cache.find(self.backend, graph.key) or self._fitting(graph)
        known: PassProgram | None = None if kept is None else kept.known
        if isinstance(known, str):
            raise Unsupported(known)
        if known is not None and kept is not None:
            if len(known.departures) > _MOST_DEPARTURES:
                raise Unsupported(known.departures[-1])
            if known.expected == known.captured_for:
                cache.use(kept)
                return known
        cache.check_room(self.backend, graph.key)
        self._note(graph)
        request = SimpleNamespace(roots=roots, wanted=wanted, accumulates=accumulates, freed=None)
        expected = {} if known is None else dict(known.expected)
        try:
            made = self._captured_whole(graph, request, expected)
        except takeover.REFUSALS as reason:
            cache.keep(self.backend, graph.key, str(reason), is_captured=True)  # nor the next one
            raise
        if known is not None:
            made.departures = known.departures
        cache.keep(self.backend, graph.key, made, is_captured=True)
        return made

    def _fitting(self, graph: Lifting) -> Kept | None:
        """A program of another size that is one for this size too."""
        place = (self.backend, skeleton(graph.key))
        for one in takeover.sized_programs.get(place, ()):
            if one.fits(graph):
                return cache.keep(self.backend, graph.key, one, is_captured=False)
        return None

    def _captured_whole(self, graph: Lifting, request: Any, expected: Any) -> PassProgram:
        """A program for all sizes where sizes may vary, else for these."""
        compiler = self.backend.compiler
        capture = WholeCapture(graph, request, expected)
        place = (self.backend, skeleton(graph.key))
        before: list[PassProgram] = bounded(takeover.sized_programs, place, [])
        varying = None if self.dynamic else takeover.changed_sizes(place, graph.arrays)

        def other(_: Any) -> Any:
            resized = Lifting(request.roots, request.wanted, accumulates=request.accumulates)
            return WholeCapture(resized, request, dict(expected)), resized.key

        def join(others: Any, places: Any, points: Any) -> PassProgram:
            return PassProgram(compiler, capture, graph, others, places, points)

        if varying is None or varying or graph.factors:
            try:
                made: PassProgram = at_other_sizes(graph, other, join, varying, graph.factors)
            except NoFit as reason:
                counters["sizes"][f"a backward pass: {reason}"] += 1
            else:
                before.insert(0, made)
                del before[_MOST_FAMILIES:]
                return made
        return PassProgram(compiler, capture, graph)


class _ByUser:
    """A back end; the same compiler in another block finds the programs that it made."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByUser) and other.compiler is self.compiler

    def __hash__(self) -> int:
        return id(self.compiler)


def _switched_off() -> bool:
    return isinstance(passes.taken_over.get(), Disabled)


class Disabled:
    """The block of `_disable()`: the engine runs passes."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def __enter__(self) -> Disabled:
        self._before.append(passes.taken_over.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        passes.taken_over.reset(self._before.pop())

    def run(self, roots: Any, wanted: Any, **options: Any) -> None:
        """Leave every pass to the engine."""
