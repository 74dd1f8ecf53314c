"""`compile`: a function that captures its calls and runs the programs made from them."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pullback.compiled import backends
from pullback.compiled.backends import is_exact
from pullback.compiled.capture.capture import capture
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.compiled.parts.tree import Broken, Going
from pullback.compiled.profiling import is_profiled, timed
from pullback.compiled.runtime.entry import (
    MOST_UNUSED,
    OTHER_BRANCH,
    OVERLAPPING,
    Entry,
)
from pullback.compiled.runtime.guards import outline
from pullback.compiled.runtime.quick import quick_way
from pullback.compiled.sizes.families import Families
from pullback.compiled.stance import stance
from pullback.compiled.trial import (
    Weighing,
    exact_outline,
    is_slower,
    may_be_tried,
    must_be_weighed,
    outline_test,
)
from pullback.core.forward import LEVELS
from pullback.core.mode import INFERENCE, NO_GRAD, PLAIN, current, fast, get_mode, settle
from pullback.core.nesting import running
from pullback.core.trees.pytree import tree_flatten
from pullback.operators.dispatch.observers import compiling, observers

__all__ = ["CompiledFunction", "compile", "counters"]

log = logging.getLogger("pullback.compile")
_capturing = threading.RLock()
_MOST_ENTRIES = 8
_MOST_TRIES = 3
_MOST_PARTS = 48  # of a function that is compiled in parts
_MOST_ONCE = 3  # branches that were taken once, until no more are made
_MOST_STRAYS = 16  # calls in a row that a branch was tried for in vain
_MANY_CALLS = 16  # of one size of a family
_MOST_SLOWER = 4  # programs dropped because they were slower, none kept, until no more are made
_MOST_QUICK = 7  # fast paths that a call tries before it looks for its program the slow path
_MODES = (None, "default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

_NOTHING: Any = object()  # what a fast path gives for None, which says that it does not fit

# All that are alive, for `reset`.
known_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


class CompiledFunction:
    """A function whose calls run as programs."""

    def __init__(self, function: Any, backend: Any, *, fullgraph: bool, dynamic: Any,
                 options: dict[str, Any], make: type[Entry] = Entry) -> None:  # fmt: skip
        """`make` makes an entry of a capture, the arguments and the back end."""
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self._torchdynamo_orig_callable = function  # where libraries look
        self.backend = backend
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.options = options
        self.entries: list[Entry] = []
        self._make = make
        self.families = Families(function, backend, dynamic, self._note, make)
        self.failures = 0
        self.parts = 0  # of calls that a program cannot do whole
        self._breaks = make is Entry and not fullgraph
        self._decides = make is Entry  # other entries show graphs, which decide nothing
        self.reasons: list[str] = []
        self._warned = False
        self._met = False  # whether a stance that runs first calls eagerly has seen one
        known_functions.add(self)
        self.quick: Any = None  # the fast path of the entry that ran last, and its mode
        self.quick_mode: Any = None
        self._others: list[Any] = []  # fast paths that ran before it, in the same mode
        # Once no more programs are made: what calls that some program may fit look like.
        self._outlines: set[Any] | None = None
        self._exact: set[Any] | None = None  # with their sizes, where none of them varies
        # Calls whose programs take longer than the function itself (trial.py).
        self._slower: dict[Any, Any] = {}
        self._is_eager: Any = None  # whether arguments are those of the last such call
        self._passes = False  # whether it runs backward passes of its own between programs
        self._dropped = 0  # programs that were, of calls that cannot run twice
        self._weighs = make is Entry  # parts are weighed with the whole
        self._sized_last = False  # whether a family served the last call that looked for a program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of a call like this one; capture it where there is none."""
        quick = self.quick
        if quick is not None and not kwargs:
            fits = get_mode() is self.quick_mode and fast.plain is not None and not running.get()
            if fits and observers.active is None:
                made = quick(args)
                if made is not None:
                    return None if made is _NOTHING else made
                for place, other in enumerate(self._others):
                    made = other(args)
                    if made is not None:
                        self._others[place] = quick
                        self.quick = other
                        return None if made is _NOTHING else made
        elif self._is_eager is not None and not kwargs and self._is_eager(args):
            return self.function(*args)
        return self._slow_path(args, kwargs)

    def _slow_path(self, args: Any, kwargs: Any) -> Any:
        if self._slower and not kwargs:
            outline = exact_outline(args)
            if outline is not None and outline in self._slower:
                known = self._slower[outline]
                if known is None:
                    known = self._slower[outline] = outline_test(outline)
                self._is_eager = known
                return self.function(*args)
        mode = settle()
        if not _may_run(mode):
            return self.function(*args, **kwargs)
        if stance.now != "default" and not self._may_compile(mode, args, kwargs):
            return self.function(*args, **kwargs)
        if observers.active is None:
            if self._outlines is not None and self._is_foreign(args, kwargs):
                with passes_captured():
                    return self.function(*args, **kwargs)
            return self._guarded_run(mode, args, kwargs)
        if not is_profiled():  # somebody wants to see each operator
            return self.function(*args, **kwargs)
        with timed(f"compiled::{self._name}"):
            return self._guarded_run(mode, args, kwargs)

    def _is_foreign(self, args: Any, kwargs: Any) -> bool:
        """Whether no program can fit a call, by a look that costs less than asking each."""
        known = self._outlines
        foreign = not known or (not kwargs and outline(args) not in known)
        if not foreign and self._exact is not None and not kwargs:
            exact = exact_outline(args)
            foreign = exact is not None and exact not in self._exact
        if foreign:
            counters["misses"]["no program fits, and no more are made"] += 1
        return foreign

    def _note_outlines(self) -> None:
        """Write down what the calls of all programs look like, where that tells them apart."""
        bases: list[Any] = [*self.entries, *self.families.found]
        found = [one.guards.outline() for one in bases]
        if None not in found:
            self._outlines = set(found)
            exact = [one.guards.exact_outline() for one in self.entries]
            self._exact = None if self.families.found or None in exact else set(exact)

    def _may_compile(self, mode: Any, args: Any, kwargs: Any) -> bool:
        """Whether the stance lets a call run as a program: one that is there, or a new one."""
        if stance.now == "force_eager":
            return False
        leaves, spec = self._flat(args, kwargs)
        if any(entry.guards.miss(mode, spec, leaves) is None for entry in self.entries):
            return True
        if self.families.entry(mode, spec, leaves) is not None:
            return True
        if stance.now == "fail_on_recompile":
            raise RuntimeError(
                f"{self._name}: a call that no program fits would be compiled anew, which the "
                "stance 'fail_on_recompile' forbids; compile it before, or take another stance."
            )
        first, self._met = not self._met, True
        return stance.now != "eager_on_recompile" and not first

    def forget_quick(self) -> None:
        """Let the next call look for its program anew."""
        self.quick = self._is_eager = None
        self._others.clear()

    def _flat(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The leaves of the arguments, and how they are put together."""
        return tree_flatten((args, kwargs))

    def _guarded_run(self, mode: Any, args: Any, kwargs: Any) -> Any:
        leaves, spec = self._flat(args, kwargs)
        if self._sized_last:
            sized = self.families.entry(mode, spec, leaves)
            if sized is not None:
                counters["compile"]["hits"] += 1
                return self._run(sized, leaves, args, kwargs)
        for place, entry in enumerate(list(self.entries)):
            reason = entry.guards.miss(mode, spec, leaves)
            if reason is None:
                run = self._run if entry.weighing is None else self._weighed
                made = run(entry, leaves, args, kwargs)
                if made is not OTHER_BRANCH:
                    if place:
                        self._put_first(entry)
                    counters["compile"]["hits"] += 1
                    self._sized_last = False
                    return made
                reason = "a value decides otherwise"
                self._weigh(entry)
            counters["misses"][reason] += 1
            self._note(reason)
        sized = None if self._sized_last else self.families.entry(mode, spec, leaves)
        if sized is not None:
            self._sized_last = True
            counters["compile"]["hits"] += 1
            return self._run(sized, leaves, args, kwargs)
        with _quiet_collector(), compiling(self._name):
            new = self._generalised(mode, spec, args, kwargs, leaves)
            new = new or self._new_entry(args, kwargs, leaves)
            if new is not None and not new.calls:
                new.prepare()
        if new is not None and not kwargs and self._is_slower(new, leaves, args):
            return self.function(*args)
        made = OTHER_BRANCH if new is None else self._run(new, leaves, args, kwargs)
        if made is not OTHER_BRANCH:
            return made
        with passes_captured():
            return self.function(*args, **kwargs)

    def _is_slower(self, entry: Entry, leaves: list[Any], args: Any) -> bool:
        """Whether a program is not worth having, by a trial in its first call."""
        outline = exact_outline(args)
        if self.options.get("never_slower", backends.is_default(self.backend)) is False:
            return False
        if outline is None or not _may_vary(entry) or not may_be_tried(entry):
            if self._weighs and must_be_weighed(entry, passes=self._passes):
                entry.weighing = Weighing()
            return False
        entry.quick = quick = quick_way(entry, args, {})

        def run() -> Any:
            return self._as_called(entry, args, {}) if quick is None else quick(args)

        try:
            run()
            reason = is_slower(run, lambda: self.function(*args))
        except Exception:  # which the call itself will raise again
            return False
        if reason is None:
            return False
        self._slower[outline] = None
        self._drop(entry, reason)
        return True

    def _drop(self, entry: Entry, reason: str) -> None:
        """Let go of a program that takes longer than the function."""
        if entry in self.entries:
            self.entries.remove(entry)
        counters["compile"]["slower"] += 1
        self._note(reason)

    def _weighed(self, entry: Entry, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """One of the first calls of a program that is timed beside the function."""
        weighing = entry.weighing

        def run() -> Any:
            if not weighing.wants_program:
                with passes_captured():
                    return self.function(*args, **kwargs)
            made = None if kwargs or entry.quick is None else entry.quick(args)
            if made is None:
                return self._as_called(entry, args, kwargs)
            return None if made is _NOTHING else made

        made = weighing.timed(run)
        if weighing.is_over and entry.weighing is weighing:
            entry.weighing = None
            reason = weighing.reason()
            if reason is not None:
                self._drop(entry, reason)
                self._call_eagerly(None if kwargs else exact_outline(args))
        return made

    def _as_called(self, entry: Entry, args: Any, kwargs: Any) -> Any:
        """Run an entry with all that comes before: its guards are a part of what it costs."""
        leaves, spec = self._flat(args, kwargs)
        entry.guards.miss(entry.guards.mode, spec, leaves)
        return self._run(entry, leaves, args, kwargs)

    def _call_eagerly(self, outline: Any) -> None:
        """Calls like this one are the function's; all are, where programs of no kind pay."""
        if outline is not None:
            self._slower[outline] = None
        self._dropped += 1
        self.forget_quick()
        if self._dropped >= _MOST_SLOWER and not self.entries and not self.families.found:
            self.failures = _MOST_TRIES
            self._is_eager = _any_call
            self._note(f"{self._dropped} programs were slower than the function: no more are made")

    def _put_first(self, entry: Entry) -> None:
        if entry in self.entries:  # another thread may have let go of it
            self.entries.remove(entry)
            self.entries.insert(0, entry)

    def _weigh(self, entry: Entry) -> None:
        """Let go of branches that calls do not take: each try costs what it computes to decide."""
        if entry.strays > _MOST_STRAYS * len(self.entries):
            self._decide_no_more()

    def _decide_no_more(self) -> None:
        self._decides = False
        self.entries = [one for one in self.entries if not one.checks]
        self._outlines = None
        self._note("values decide otherwise at each call: programs do not depend on them")

    def prepared(self, args: Any, kwargs: Any) -> Entry | None:
        """Capture a call and make its program, without running it."""
        entry = self._new_entry(args, kwargs, tree_flatten((args, kwargs))[0])
        if entry is not None:
            entry.prepare()
        return entry

    def _run(self, entry: Entry, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """Run an entry, and let the next call take its fast path."""
        if not entry.calls and not entry.programs():
            with _quiet_collector(), compiling(self._name):
                entry.prepare()
        if entry.quick is None and entry.shared is not None and entry.calls < 2:
            entry.quick = entry.shared.quick(entry, args, kwargs)
        # One that is written for a size alone must pay for itself.
        if entry.quick is None and entry.calls == (1 if entry.shared is None else _MANY_CALLS):
            quick = quick_way(entry, args, kwargs)
            if quick is not None and isinstance(entry.captured.tree, Broken):
                quick = self._going_on(quick)
            entry.quick = quick
        if entry.weighing is None:
            self._note_quick(entry)
        made = entry(leaves, (args, kwargs))
        if made.__class__ is Going:
            return self.go_on(made)
        return self.function(*args, **kwargs) if made is OVERLAPPING else made

    def _going_on(self, quick: Any) -> Any:
        """The fast path of a part, and what comes behind it."""

        def short(args: Any) -> Any:
            going = quick(args)
            if going is None:
                return None
            made = self.go_on(going)
            return _NOTHING if made is None else made

        return short

    def go_on(self, going: Any) -> Any:
        """From one part to the next, until the call is over."""
        home = get_mode()
        try:
            with passes_captured():
                while going.__class__ is Going:
                    if going.at.is_pass and not self._passes:
                        self._weigh_passes()
                    going = going.at.step(going, self._part)
        except BaseException:
            current.set(home)
            raise
        return going

    def _weigh_passes(self) -> None:
        """Weigh programs that record gradients too: the call itself uses them."""
        self._passes = True
        if self.options.get("never_slower", backends.is_default(self.backend)) is False:
            return
        for entry in self.entries:
            if isinstance(entry.captured.tree, Broken) and entry.captured.tangents:
                entry.weighing = Weighing()
        self.forget_quick()

    def _part(self, resumed: Any) -> Any:
        """The rest of the function behind a break, compiled; as it is where there are too many."""
        from pullback.compiled.parts.part import Part

        self.parts += 1
        if self.parts > _MOST_PARTS:
            self._breaks = False
            whole = [one for one in self.entries if not isinstance(one.captured.tree, Broken)]
            self.entries = whole
            self.forget_quick()
            self._note(f"more than {_MOST_PARTS} parts: it runs eagerly")
            return resumed
        return Part(resumed, self)

    def _note_quick(self, entry: Entry) -> None:
        quick = None if entry.unused >= MOST_UNUSED else entry.quick
        if self.quick_mode is not entry.guards.mode:
            self._others.clear()
        elif self.quick is not None and self.quick is not quick:
            self._others.insert(0, self.quick)
        self._others = [one for one in self._others if one is not quick][:_MOST_QUICK]
        self.quick, self.quick_mode = quick, entry.guards.mode

    def clear(self) -> None:
        """Forget all programs and reasons."""
        self.entries.clear()
        self.families.clear()
        self.reasons.clear()
        self.failures = 0
        self.parts = 0
        self._breaks = self._make is Entry and not self.fullgraph
        self._decides = self._make is Entry
        self._met = False
        self._outlines = self._exact = None
        self._slower.clear()
        self._dropped = 0
        self.forget_quick()

    def __getattr__(self, name: str) -> Any:
        """A compiled module answers as the module does: parameters(), train() and so on."""
        if name.startswith("__") or "function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    def _note(self, reason: str) -> None:
        self.reasons.append(reason)
        del self.reasons[:-64]

    def _generalised(
        self, mode: Any, spec: Any, args: Any, kwargs: Any, leaves: list[Any]
    ) -> Entry | None:
        """A program for all sizes, where a size is what differs from an earlier call."""
        if self.dynamic is False or not (self.entries or self.families.found):
            return None
        with _capturing, _quiet_collector():
            bases = [one for one in self.entries if _may_vary(one)]
            return self.families.grown(args, kwargs, mode, spec, leaves, bases)

    def _new_entry(self, args: Any, kwargs: Any, leaves: list[Any]) -> Entry | None:
        if self.failures >= _MOST_TRIES:
            self._note_outlines()
            return None
        if self.families.waits and len(self.entries) > 1:
            self.families.waits = False
            return None
        if sum(bool(one.checks) and one.calls < 2 for one in self.entries) >= _MOST_ONCE:
            self._decide_no_more()
        if len(self.entries) >= _MOST_ENTRIES:
            self._warn_once(
                f"{self._name}: {_MOST_ENTRIES} programs were made for it and none fits this call; "
                f"such calls run eagerly. The last reasons: {self.reasons[-3:]}"
            )
            self._note_outlines()
            return None
        try:
            with _capturing, _quiet_collector():
                captured = self._captured(args, kwargs)
                entry = self._make(captured, leaves, self.backend)
        except CannotCapture as error:
            self.failures += 1
            counters["fallbacks"][error.reason] += 1
            self._note(str(error))
            if self.fullgraph:
                raise
            log.info("%s runs eagerly: %s", self._name, error)
            return None
        except Exception as error:
            # The function's own error, most likely: then eager raises it too, with its real values.
            self.failures += 1
            if self.fullgraph:
                self.function(*args, **kwargs)
            reason = f"capturing it raised {type(error).__name__}: {error}"
            counters["fallbacks"][reason] += 1
            self._note(reason)
            if self.fullgraph:
                raise CannotCapture(reason) from error
            return None
        counters["compile"]["captures"] += 1
        self.entries.insert(0, entry)
        with _capturing, _quiet_collector():
            if _may_vary(entry):
                self.families.begin(args, kwargs, leaves, entry)
        return entry

    def _fluid(self, args: Any) -> frozenset[Any]:
        """Places of tensors and numbers that are others at each call."""
        known = [one.captured.rewritten for one in self.entries]
        return frozenset().union(*known)

    def _captured(self, args: Any, kwargs: Any) -> Any:
        """A capture, with numbers and tensors as inputs that the function writes at each call."""
        fluid = self._fluid(args) if self._make is Entry else frozenset()
        options: dict[str, Any] = {
            "exact": is_exact(self.backend),
            "decides": self._decides,
            "replays": self._make is Entry,
            "breaks": self._breaks,
        }
        if fluid:
            try:
                return capture(self.function, args, kwargs, fluid=fluid, **options)
            except CannotCapture as error:
                self._note(str(error))
        try:
            return capture(self.function, args, kwargs, **options)
        except CannotCapture as error:
            if not error.is_picked:
                raise
        return capture(self.function, args, kwargs, picks=False, **options)

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(text, UserWarning, stacklevel=4)

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)


def passes_captured() -> AbstractContextManager[Any]:
    """Where `_dynamo.config.compiled_autograd` is set: backward passes inside are captured."""
    config = sys.modules.get("pullback._dynamo.config")
    if config is None or not config.compiled_autograd:
        return nullcontext()
    from pullback.compiled.backward.takeover import compiled_autograd

    return compiled_autograd(fallback="silent")


def _any_call(args: Any) -> bool:
    """Whether a call is the function's own, where no program pays."""
    return True


def _may_vary(entry: Entry) -> bool:
    """Whether an entry can be one of a family: a whole call, which fetches and writes nothing."""
    captured = entry.captured
    is_whole = not isinstance(captured.tree, Broken)
    return is_whole and captured.reached is None and not captured.loose


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Captures make many objects and drop few: the collector would look at all of them again.

    Afterwards many count as old ones, without a look at each (0.2 s for 17,000 operators).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # A user's own frozen objects stay there; to count them takes as long as they are many.
            if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


_MANY_OBJECTS = 50_000  # a look at so many takes some milliseconds


def _may_run(mode: Any) -> bool:
    """Whether nothing is on that must see each operator: transforms, modes, anomaly, tangents."""
    usual = mode is PLAIN or mode is NO_GRAD or mode is INFERENCE
    return usual and fast.plain is not None and not LEVELS and not running.get()


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function or module: a call is captured once, and later calls run as one program.

    Guards check whether a program fits a call. A call that fails them is recaptured, and one that
    cannot be captured runs eagerly; with `fullgraph=True` it raises, and says why.

    >>> import pullback as torch
    >>> f = torch.compile(lambda x: (x.sin() ** 2).sum(), backend="python")
    >>> x = torch.tensor([0.5, 1.0], requires_grad=True)
    >>> f(x).backward()
    >>> x.grad
    tensor([0.8415, 0.9093])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        found = type(model).__name__
        raise AssertionError(f"compile() takes a function or a module, not {found}.")
    if mode is not None and options is not None:
        raise RuntimeError("compile() takes `mode` or `options`, not both.")
    if mode not in _MODES:
        raise RuntimeError(f"compile(): there is no mode {mode!r}; the modes are {_MODES[1:]}.")
    if disable:
        return model
    made = backends.resolve(backend)
    if (options or {}).get("verify"):
        made = backends.verified(made)
    given: dict[str, Any] = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "options": dict(options or {}),
    }
    # Whoever has a module has loaded this; a function needs none of it (0.07 s).
    modules = sys.modules.get("pullback.nn.modules.module")
    if modules is not None and isinstance(model, modules.Module):
        from pullback.compiled.optimized_module import OptimizedModule

        return OptimizedModule(model, lambda module: CompiledFunction(module, made, **given))
    return CompiledFunction(model, made, **given)
