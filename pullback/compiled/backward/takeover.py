"""`compiled_autograd`: inside, backward passes are captured once and then run as programs."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from pullback.compiled import backends
from pullback.compiled.backward import nan
from pullback.compiled.backward.cache import Full, bounded, cache
from pullback.compiled.backward.graph import Graph, Stale, Unsupported
from pullback.compiled.backward.reasons import compile_reasons, note
from pullback.compiled.backward.resized import at_other_sizes
from pullback.compiled.backward.segments import Schedule, SegmentedPass, check_unwatched
from pullback.compiled.backward.sizes import Passes, as_captured, skeleton
from pullback.compiled.backward.standing import StandIns, built, owned
from pullback.compiled.backward.trail import Found, trail_of
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.compiled.graph import GraphProgram
from pullback.compiled.sizes.fit import NoFit
from pullback.core import passes
from pullback.core.mode import NO_GRAD, PLAIN, fast, settle
from pullback.core.node import LEAF_SEQ
from pullback.core.origin import getframe, user_frame
from pullback.core.saved import Freed
from pullback.engine.accumulate import accumulate

__all__ = ["clear_cache", "compile_reasons", "compiled_autograd", "is_cache_empty"]

is_running: ContextVar[bool] = ContextVar("pullback_compiled_pass", default=False)
_is_compiling: ContextVar[bool] = ContextVar("pullback_compiling_pass", default=False)
_passes = Passes()
_section_sizes: OrderedDict[Any, dict[Any, Any]] = OrderedDict()  # of passes with stops
sized_programs: OrderedDict[Any, list[Any]] = OrderedDict()  # of compilers of the user's
# Of passes of a sort: shapes when the last one was captured, and where sizes were seen to change.
_shapes: OrderedDict[Any, tuple[list[Any], set[tuple[int, int]]]] = OrderedDict()
REFUSALS = (Unsupported, CannotCapture)  # the engine runs such a pass


@contextmanager
def compiling(module: Any) -> Iterator[None]:
    """Within the block a compiler of the user's runs; what it raises is told with the graph."""
    before = _is_compiling.get()
    try:
        _is_compiling.set(True)
        yield
    except Exception as error:
        error.add_note(f"while it compiled this backward pass:\n{module.code}")
        raise
    finally:
        _is_compiling.set(before)


class _OfUser:
    """A compiler of the user's as a back end; in another block it finds the programs it made."""

    def __init__(self, compiler: Any, fallback: str) -> None:
        self.compiler, self.fallback = compiler, fallback

    def __call__(self, calls: Any, inputs: Any, outputs: Any, *more: Any) -> Any:
        """A program of captured calls."""
        return GraphProgram(self._compiled, calls, inputs, outputs)

    def _compiled(self, module: Any, examples: list[Any]) -> Any:
        try:
            with compiling(module):
                return self.compiler(module, examples)
        except Exception as error:
            if self.fallback == "error" or isinstance(error, NotImplementedError):
                raise
            reason = f"its compiler raised {type(error).__name__}: {error}"
            raise Unsupported(reason) from error

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, _OfUser) and other.compiler is self.compiler
        return alike and getattr(other, "fallback", None) == self.fallback

    def __hash__(self) -> int:
        return id(self.compiler)


class compiled_autograd:  # noqa: N801 (a context)
    """Within the block, `backward()` and `grad()` of eager graphs run as captured programs.

    The forward is untouched. Hooks and custom Functions run between programs, in the engine's
    order. What cannot be captured (`create_graph`, ...) runs on the engine; `fallback` says whether
    that is told: "warn", "silent" or "error".

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
        self.backend = (
            _OfUser(backend, fallback) if callable(backend) else backends.resolve(backend)
        )
        self.fallback, self.dynamic = fallback, dynamic
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
    ) -> Any:
        """Run a pass; None where the engine must, a maker of requests where both have a part."""
        if nan.is_sought():
            nan.refuse_stored(roots)
        if (
            passes.running.get() is not None
            or is_running.get()
            or settle() not in (PLAIN, NO_GRAD)
            or not fast.reasons <= {"anomaly"}
        ):
            return None  # inside another pass or replay, or something is on that sees operators
        if _is_compiling.get():
            raise NotImplementedError(
                "A compiler that is at work on one backward pass runs another one, which cannot be "
                "captured meanwhile. Run it in a block of _dynamo.compiled_autograd._disable(), "
                "before or after, or turn compiled_autograd off."
            )
        if accumulates and any(edge._seq != LEAF_SEQ for edge in wanted or ()):
            self._refuse("it adds to the .grad of a tensor inside the graph")
            return None
        return self._taken(roots, wanted, retain_graph=retain_graph, accumulates=accumulates)

    def _taken(self, roots: Any, wanted: Any, *, retain_graph: bool, accumulates: bool) -> Any:
        found, known = self._known(roots, wanted, accumulates)
        graph = None
        if known is None:
            try:
                graph = Graph(roots, wanted)
                found = Found(graph.arrays, graph.leaves, graph.nodes, _release)
                kept = cache.find(self.backend, graph.key)
                if kept is None:
                    known = self._new(graph, roots, wanted)
                elif kept.known.__class__ is str:
                    raise Unsupported(kept.known)
                else:
                    known = cache.use(kept)
                    trail = trail_of(graph, roots, wanted)
                    cache.lead(self.backend, roots[0][0], trail, kept)
                if known.__class__ is Schedule:
                    check_unwatched()
            except REFUSALS as reason:
                self._refuse(reason)
                return None
        if known.__class__ is Schedule:
            return partial(SegmentedPass, known, found, graph, self.backend, self.dynamic)
        program, places, slots = known
        before = is_running.get()
        try:
            is_running.set(True)
            made = program([found.arrays[place] for place in places])
        finally:
            is_running.set(before)
        results = dict(zip(slots, owned(made, found.arrays), strict=True))
        if nan.is_sought():
            targets = found.leaves if wanted is None else wanted
            nan.check_results(roots, targets, results, found.nodes if accumulates else None)
        if not retain_graph:
            found.release(Freed(user_frame(getframe(4)), []))
        arrived = self._deliver(found, wanted, results, accumulates)
        if accumulates:
            for act in tuple(passes.at_end):
                act()
        return arrived

    def _known(self, roots: Any, wanted: Any, accumulates: bool) -> tuple[Any, Any]:
        """What the trails of programs that ran before lead to, and the program."""
        listed = cache.trails.get((self.backend, roots[0][0].__class__), [])
        for place, (trail, kept) in enumerate(listed):
            found = trail(roots, wanted)
            if found is not None:
                known = kept.known
                if known.__class__ is Schedule and not known.serves(accumulates):
                    break  # the walk tells why, or plans it
                if place:
                    listed.insert(0, listed.pop(place))
                return found, cache.use(kept)
        return None, None

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

    def _refuse(self, reason: Exception | str) -> None:
        """Count and tell why the engine runs a pass; of an error it tells by itself."""
        if isinstance(reason, Stale):
            return
        counters["compiled_autograd"][f"fallback: {reason}"] += 1
        if isinstance(reason, Full):
            return
        if self.fallback == "error":
            raise NotImplementedError(
                f"compiled_autograd cannot capture this backward: {reason}. Run it outside of the "
                "block, or use fallback='warn'."
            )
        if self.fallback == "warn":
            warnings.warn(
                f"compiled_autograd: the engine runs this backward: {reason}.",
                UserWarning,
                stacklevel=6,
            )

    # Capture ----------------------------------------------------------------------------------

    def _new(self, graph: Graph, roots: Any, wanted: list[Any] | None) -> Any:
        """What runs a pass that none before was like."""
        if not graph.stops:
            known = self._derived(graph)
            if known is not None:
                return known
            cache.check_room(self.backend, graph.key)
            try:
                return self._captured(graph, roots, wanted)
            except REFUSALS as reason:  # the next one is not captured either
                cache.keep(self.backend, graph.key, str(reason), is_captured=True)
                raise
        if all(id(node) in graph.stops for node in graph.nodes):
            raise Unsupported("hooks, or a function that is no operator, at each of its nodes")
        sort = (self.backend, skeleton(graph.key))
        is_new = self.is_users or sort not in _section_sizes
        if is_new:
            cache.check_room(self.backend, graph.key)
        sizes = None if self.is_users else bounded(_section_sizes, sort, {})
        schedule = Schedule(graph, _why(graph), sizes)
        cache.keep(self.backend, graph.key, schedule, is_captured=is_new)
        return schedule

    def _note(self, graph: Graph) -> None:
        counters["compiled_autograd"]["captures"] += 1
        note(_why(graph))

    def _captured(self, graph: Graph, roots: Any, wanted: list[Any] | None) -> Any:
        self._note(graph)
        captured = self._traced(graph, roots, wanted)
        reason = None if self.is_users else self._learned(captured, graph, roots, wanted)
        if reason is not None:
            counters["sizes"][f"a backward pass: {reason}"] += 1
        return self._made(captured, graph.key)

    def _traced(self, graph: Graph, roots: Any, wanted: list[Any] | None) -> Captured:
        """A pass run on arrays without data."""
        exact = backends.is_exact(self.backend)
        capture = StandIns(graph.arrays, graph.nodes, exact=exact)
        values, calls = capture.gradients(roots, graph.leaves if wanted is None else wanted)
        gradients = [(slot, value) for slot, value in enumerate(values) if value is not None]
        return as_captured(capture.values, calls, gradients, capture.constants(), graph.key)

    def _learned(self, captured: Captured, graph: Graph, roots: Any, wanted: Any) -> str | None:
        """Have further sizes served by what was captured; says why they are not."""
        if not self.dynamic:
            return _passes.note(self.backend, captured)

        def other(_: Any) -> Captured:
            return self._traced(Graph(roots, wanted), roots, wanted)

        def join(others: list[Captured], places: Any, _: Any) -> None:
            _passes.join(self.backend, [captured, *others], places)

        try:
            at_other_sizes(graph, other, join)
        except NoFit as reason:
            return str(reason)
        return None

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
        program, places = built(self.backend, captured, sharing)
        slots = [slot for slot, _ in captured.gradients]
        known = (program, places, slots)
        cache.keep(self.backend, key, known, is_captured=sharing is None)
        return known


def changed_sizes(sort: Any, arrays: list[Any]) -> set[int]:
    """The sizes, as they are now, that were seen to change between passes of its sort."""
    now = [array.shape for array in arrays]
    then, changed = bounded(_shapes, sort, (now, set()))
    for number, (shape, before) in enumerate(zip(now, then, strict=True)):
        sizes = enumerate(zip(shape, before, strict=True))
        changed |= {(number, dim) for dim, (size, was) in sizes if size != was}
    _shapes[sort] = now, changed
    return {now[number][dim] for number, dim in changed}


def _release(nodes: list[Any], freed: Any) -> None:
    for node in nodes:
        node._release(freed)


def _why(graph: Graph) -> str:
    """In what a graph differs from the one captured last."""
    size = f"{len(graph.nodes)} nodes, {len(graph.arrays)} tensors"
    before, key = cache.last_key(), graph.key
    if before is None:
        return f"{size}: the first one"
    differing = [
        place
        for place, (now, then) in enumerate(zip(key, before, strict=False))
        if now != then or type(now) is not type(then)
    ]
    if not differing and len(before) == len(key):
        return f"{size}: another back end"
    if not differing:
        return f"{size}: key of {len(key)} parts, the one before had {len(before)}"
    place = differing[0]
    now, then = key[place], before[place]
    if isinstance(now, type):
        return f"{size}: {now.__name__} at place {place} of the key, where {_named(then)} was"
    if isinstance(now, tuple) and now[:1] == ("stop",):
        return f"{size}: hooks or functions of the user at other nodes, or others of them"
    node = next((one for one in reversed(key[:place]) if isinstance(one, type)), None)
    told = "" if node is None else f" of {node.__name__}"
    if place >= len(key) - len(graph.arrays) and isinstance(now, tuple):
        return f"{size}: a tensor of shape {now[0]} and {now[2]}, before {_named(then)}"
    return f"{size}: {_named(now)} at place {place} of the key{told}, where {_named(then)} was"


def _named(one: Any) -> str:
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], type):
        return repr(one[1])  # a number or an option, with its type
    return one.__name__ if isinstance(one, type) else repr(one)


def is_cache_empty() -> bool:
    """Whether no backward program is kept."""
    return not len(cache)


def clear_cache() -> None:
    """Forget the backward programs; refused inside a pass, or the replay of one."""
    if passes.running.get() is not None or is_running.get():
        raise RuntimeError("The cache of compiled backward passes is in use: a pass runs now.")
    cache.clear()
    _passes.clear()
    _section_sizes.clear()
    sized_programs.clear()
    _shapes.clear()
    compile_reasons.clear()
