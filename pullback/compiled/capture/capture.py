"""Captures a call: the function and its backward, run once on arrays without data.

The function's bytecode is executed by the interpreter (compiled/interpreter), on stand-ins of the
tensors that it is given or finds; nobody else ever sees one. What it reads outside are guards, what
it writes there is done again at each call (effects.py), or ends the capture. The result says what a
program must compute (`calls`), from what (`inputs`), and what its caller must do with the results:
return them in the shape that the function did, write them to tensors and objects that the function
writes to, and store gradients.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy

from pullback.compiled.capture.captured import Captured, Input, Output
from pullback.compiled.capture.decisions import Answers
from pullback.compiled.capture.effects import Effects, Reached
from pullback.compiled.capture.known import LEAF, Known, facts, leads, met_by_passes
from pullback.compiled.capture.later import Asked, Later
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.results import taken_apart
from pullback.compiled.capture.settings import Settings
from pullback.compiled.capture.stored import Stored
from pullback.compiled.capture.surroundings import Surroundings
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.capture.tracer import Tracer, picked
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.instructions import Interpreter
from pullback.compiled.interpreter.late import Numbers, is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.outside import is_container
from pullback.compiled.interpreter.sources import Source
from pullback.compiled.interpreter.versions import SUPPORTED
from pullback.compiled.parts.state import Kept
from pullback.compiled.parts.tree import LEAVES, Resumed, broken
from pullback.compiled.runtime.memory import is_fixed, owner_of, share_memory
from pullback.compiled.sizes.sized import plain
from pullback.core.mode import changed, current, settle
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import TreeSpec, node_of, tree_flatten
from pullback.core.view import edge_of
from pullback.engine.backward import run_pass

__all__ = ["Captured", "Input", "Output", "capture"]

_USED_UP = "backward through the graph a second time"  # as the engine says it


def capture(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    geometries: dict[int, Any] | None = None,
    ledger: Any = None,
    *,
    exact: bool = False,
    decides: bool = False,
    replays: bool = False,
    breaks: bool = False,
    picks: bool = True,
    fluid: frozenset[Any] = frozenset(),
    numbers: dict[Any, Any] | None = None,
) -> Captured:
    """Capture one call of a function, with its backward where gradients may be wanted.

    `geometries` are (shape, strides) that arguments, by number, should seem to have; a `ledger`
    (sizes/sized.py) has the sizes remember what they are, and decisions by them written down.
    `exact`: the calls, run one by one, give eager's bits in the backward too. `decides`: a decision
    by a value is written down, and does not end the capture. `replays`: so are writes to objects
    outside. `breaks`: where it cannot go on, what was captured so far is a part.
    `picks`: a part that an index tensor of no dimensions names is gathered, as nobody writes to it.
    `fluid`: places whose tensors and numbers each call fetches anew. `numbers`: what the function
    finds at sources, by key, where numbers stand that vary.
    """
    if not SUPPORTED:
        raise CannotCapture("the bytecode of this version of Python, which nobody has looked at")
    leaves, spec = tree_flatten((args, kwargs))
    if isinstance(function, Resumed):
        leaves, spec = list(args), LEAVES
    run = _Run(leaves, exact=exact)
    run.tracer.sizes = ledger
    run.inner.numbers = numbers or {}
    if ledger is not None:
        ledger.frames = run.inner.frames
    if decides and not geometries:
        run.answers = run.tracer.answers = Answers(run.real)
    run.inner.picks = picks
    run.replays = replays and not geometries
    run.breaks = breaks and not geometries
    if run.replays:
        run.inner.fluid = fluid
    run.geometries = {id(leaves[n]): geometry for n, geometry in (geometries or {}).items()}
    try:
        return run.whole(function, args, kwargs, spec)
    except BaseException:
        run.forget()
        raise


class _Run:
    """One capture under way."""

    def __init__(self, leaves: list[Any], *, exact: bool) -> None:
        self.leaves = leaves
        self.mode = settle()
        self.inner = Interpreter(self._stand, self.mode)
        self.tracer = Tracer(exact=exact)
        self.tracer.interpreter = self.inner
        self.geometries: dict[int, Any] = {}  # id of a tensor -> shape and strides to be shown
        self.known: dict[int, Known] = {}  # by the id of the stand-in
        self.by_storage: dict[int, Known] = {}
        self.real: dict[int, Any] = {}  # arrays of tensors from outside, by number of the value
        self.answers: Answers | None = None
        self.replays = self.breaks = False
        self.inner.calls, self.inner.tracer = self.tracer.calls, self.tracer
        self.loose: dict[int, Any] = {}  # leaves that other guards look at: their class, or None
        self.numbers: list[tuple[Any, TracedArray]] = []  # inputs that are numbers
        self.asked: Asked | None = None
        self.stored = Stored()
        self.inner.stand_number = self._stand_number

    def whole(self, function: Any, args: Any, kwargs: Any, spec: TreeSpec) -> Captured:
        mode = self.mode
        settings = Settings.now()
        self.home = function.at.home if isinstance(function, Resumed) else mode
        made: list[Any] = []  # numbers of the result that are computed by each call
        try:
            given, words = self._arguments(function, args, kwargs)
            current.set(changed(mode, tracing=self.tracer))
            leaves, tree, log, kept = self._followed(function, given, words, settings, made)
            forward = len(self.tracer.calls)
            outputs = self._described(leaves)
            writes, stores = self._effects()
            stored = self.stored.numbers(leaves, outputs)
            back = [one.place for one in outputs if one.kind in ("input", "view")]
            self._given_back = {one.value.number for one in back}
            forward_calls = len(self.tracer.calls)
            self.tracer.answers = None  # a backward pass decides nothing
            tangents, gradients, spent = self._backward(leaves, outputs)
        finally:
            current.set(mode)
            self.tracer.is_open = False
            self._put_back()
        for known in self.known.values():
            known.check()
        numbers, reached, effects, rewritten = self._of_outside(log, kept, made)
        outputs = [
            Output("number", place=numbers.place(leaf)) if one.kind == "number" else one
            for one, leaf in zip(outputs, leaves, strict=True)
        ]
        leaves.clear()
        made.clear()
        surroundings = Surroundings(self.inner)
        self._found = {key: place for place, key in enumerate(self.inner.found)}
        originals = {id(one.tensor): one.tensor for one in self.known.values()}
        found = [facts(originals[key]) for key in self._found]
        originals.clear()
        self.inner.forget()
        self.real.clear()
        captured = Captured(
            calls=self.tracer.calls,
            forward=max(forward, forward_calls),
            inputs=[],
            outputs=outputs,
            tree=tree,
            arguments=spec,
            mode=mode,
            world=surroundings,
            is_spent=spent,
            default_dtype=settings.default_dtype,
            default_device=settings.default_device,
            library=self.tracer.library,
            effects=effects,
            reached=reached,
            numbers=numbers if numbers.kinds else None,
            rewritten=rewritten,
            found=found,
            loose=self.loose,
            home=self.home,
            asked=self.asked,
        )
        captured.inputs = self._inputs(surroundings) + [
            Input("number", array.value, numbers.place(one)) for one, array in self.numbers
        ]
        self._check_found(captured)
        places = {one.value.number: place for place, one in enumerate(captured.inputs)}
        captured.outputs = [self._settled(one, places) for one in outputs]
        captured.writes = [(places[known.value.number], value) for known, value in writes]
        captured.stores = [(places[known.value.number], value) for known, value in stores]
        captured.stored_results = stored
        captured.tangents = tangents
        captured.gradients = [(places[known.value.number], value) for known, value in gradients]
        self.known.clear()
        if self.answers is not None and self.answers.checks:
            captured.checks = self.answers.checks
        return captured

    def _followed(
        self, function: Any, given: Any, words: Any, settings: Settings, made: list[Any]
    ) -> tuple[list[Any], TreeSpec, list[Any], list[Any]]:
        """Run the function, as far as it can be followed: leaves, their tree, writes, kept objects.

        `made` takes numbers that are inputs of the program, or made of them.
        """
        stop: CannotCapture | None = None
        try:
            result = self._begun(function, given, words)
        except CannotCapture as why:
            if not (self.breaks and why.chain):
                raise
            stop = why.with_traceback(None)  # whose frames would hold on to it, and all they met
        finally:
            before = settings._replace(grad=self.home.grad, inference=self.home.inference)
            left = before.left()
        if left is not None and not (stop is not None and left == "grad mode"):
            raise CannotCapture(f"the function leaves {left} changed")
        self.inner.check_left()
        log = self.inner.changes()
        if stop is None:
            return (*self._taken_apart(result, log, made), log, [])
        leaves, tree, kept = broken(self.inner, stop, log, made)
        tree.at.home = self.home
        if self.answers is not None:
            checks = self.answers.checks
            checks[:] = [one for one in checks if one[0] <= len(self.tracer.calls)]
        return leaves, tree, log, kept

    def _of_outside(
        self, log: list[Any], kept: list[Any], made: list[Any]
    ) -> tuple[Numbers, Any, Any, frozenset[Any]]:
        """What calls compute of numbers, what they fetch, what they write, and places of that."""
        late = self.inner.late
        numbers = Numbers(late, [*made, *(number for number, _ in self.numbers)])
        reached = effects = None
        if log or self.inner.found or late.sources or kept:
            reached = Reached(self.inner, log, kept)
            effects = Effects(log, reached) if log else None
        kept.clear()
        rewritten: frozenset[Any] = self.inner.rewritten() if log else frozenset()
        return numbers, reached, effects, rewritten

    def forget(self) -> None:
        """Let go of all that was met: it may not live on with the error."""
        self.inner.forget()
        self.inner.guards.all.clear()
        self.inner.tensors.clear()
        self.known.clear()
        self.by_storage.clear()
        self.tracer.stands.clear()

    # What the function is given ---------------------------------------------------------------

    def _begun(self, function: Any, given: Any, words: Any) -> Any:
        if not isinstance(function, Resumed):
            return self.inner.begin(function, given, words)
        frames, made = function.frames(given, self.inner)
        for one in made.values():
            self.inner.new(one)
        return self.inner.resume(frames)

    def _leaf(self, value: Any, number: int) -> Any:
        """A leaf of frames that wait: not compared as a whole, but where it is read."""
        source = Source("leaf", None, number)
        if isinstance(value, Tensor):
            return self.inner.stands[id(value)]
        if type(value) in (int, float) and source.key in self.inner.fluid:
            self.loose[number] = type(value)
            return self.inner.late.number(value, source)
        if is_plain(value):
            return value
        if isinstance(value, library.IDENTITY):  # which is compared as it is
            return self.inner.again(value)
        self.loose[number] = None
        return self.inner.read(value, source)

    def _arguments(
        self, function: Any, args: Any, kwargs: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the function sees them: stand-ins in place of tensors."""
        self._numbers: dict[int, int] = {}
        for number, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor) and id(leaf) not in self.inner.stands:
                stand = self._stand(leaf)
                self.inner.known_tensor(leaf, stand, Source("leaf", None, number))
            self._numbers.setdefault(id(leaf), number)
        if isinstance(function, Resumed):
            return tuple([self._leaf(one, n) for n, one in enumerate(args)]), {}
        given = tuple([self._argument(one, (0, n)) for n, one in enumerate(args)])
        return given, {name: self._argument(one, (1, name)) for name, one in kwargs.items()}

    def _argument(self, value: Any, path: tuple[Any, ...]) -> Any:
        inner = self.inner
        node = node_of(value)
        if node is None:  # a leaf, guarded as such
            if isinstance(value, Tensor):
                return inner.stands[id(value)]
            return inner.read(value, inner.root(value))
        if is_container(value):
            if id(value) not in inner.free:
                inner.sources[inner.keep(value)] = Source("place", None, path)
                inner.free.add(id(value))
            else:
                inner.twins.append((inner.sources[id(value)], Source("place", None, path)))
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                self._argument(one, (*path, key))
            return value
        children, context = node.flatten_fn(value)
        children = [self._argument(one, (*path, None)) for one in children]
        made = node.unflatten_fn(children, context)
        return inner.admitted(made)

    def _stand(self, tensor: Tensor) -> Tensor:
        """The stand-in of a tensor from outside, and of its gradient."""
        known = self._know(tensor, self.geometries.get(id(tensor)))
        grad = tensor._stored_grad
        if grad is not None:
            twin = self.inner.stands.get(id(grad))
            if twin is None:
                known.grad = self._know(grad, self.geometries.get(id(tensor)))
                twin = known.grad.stand
                self.inner.known_tensor(grad, twin, Source("grad", None, id(grad)))
            known.stand._stored_grad = twin
        return known.stand

    def _know(self, tensor: Tensor, geometry: Any) -> Known:
        known = Known(self.tracer, tensor, geometry)
        self.known[id(known.stand)] = known
        self.by_storage[id(known.traced.storage)] = known
        self.tracer.stands[known.value.number] = known.stand
        self.real[known.value.number] = known.array
        return known

    def _put_back(self) -> None:
        for tensor, array in self.tracer.swapped:
            tensor._array = array
        self.tracer.swapped.clear()

    def _stand_number(self, number: Any, dtype: Any) -> Tensor:
        """The tensor of a number that is an input of the program."""
        traced = self.tracer.stand_in(numpy.zeros((), dtype.numpy))
        self.numbers.append((number, traced))
        return wrap(traced)

    def _check_found(self, captured: Captured) -> None:
        """Refuse tensors that are fetched and whose `.grad` matters."""
        touched = captured.stores or any(one.kind == "grad" for one in captured.inputs)
        if touched and any(one.kind == "found" and one.requires_grad for one in captured.inputs):
            raise CannotCapture("the gradient of a tensor that each call finds anew")

    def _taken_apart(
        self, result: Any, log: list[Any], made: list[Any]
    ) -> tuple[list[Any], TreeSpec]:
        """The leaves of a result and of what is written, and how they are put together."""
        if not log:
            return taken_apart(self.inner, result, numbers=made)
        if not self.replays:
            one = log[0]
            what = {"cell": "a variable of a closure"}.get(one.kind) or (
                f"a {type(one.owner).__name__}" if one.kind == "call" else f"{one.name!r}"
            )
            raise CannotCapture(f"the function changes the state of the program: {what}")
        written = [value for one in log for value in one.values]
        return taken_apart(self.inner, result, written, made)

    # Results ----------------------------------------------------------------------------------

    def _described(self, leaves: list[Any]) -> list[Output]:
        storages = self.stored.memory
        outputs = []
        for leaf in leaves:
            if is_late(leaf):
                outputs.append(Output("number"))
                continue
            if type(leaf) is Kept:
                place = sum(one.kind == "kept" for one in outputs)
                outputs.append(Output("kept", place=place))
                continue
            if not isinstance(leaf, Tensor):
                outputs.append(Output("object", place=plain(leaf)))
                continue
            if type(leaf) is not Tensor and id(leaf) not in self.known:
                raise CannotCapture(f"a result of class {type(leaf).__name__}")
            outputs.append(self._described_tensor(leaf, storages))
        return outputs

    def _described_tensor(self, leaf: Tensor, storages: dict[int, Any]) -> Output:
        if id(leaf) in self.known:
            return Output("input", place=self.known[id(leaf)])
        array = leaf._array
        if array.__class__ is TracedArray:
            known = self.by_storage.get(id(array.storage))
            if known is not None:
                return self._view(leaf, array, known)
            if array.storage.is_picked:
                raise picked("a result that is a part of")
            first = storages.setdefault(id(array.storage), leaf)
            if first is not leaf:
                raise CannotCapture("two results that share their memory")
        if leaf.retains_grad:
            raise CannotCapture("a result that retains its gradient")
        if self.tracer.library is not None and type(array) is numpy.ndarray:
            raise CannotCapture("a tensor on the host that a function on a device makes")
        value = self.tracer.value_of(array)
        is_leaf = leaf.requires_grad and leaf.is_leaf
        return Output("value", value, requires_grad=leaf.requires_grad, is_leaf=is_leaf)

    def _view(self, leaf: Tensor, array: TracedArray, known: Known) -> Output:
        value = self.tracer.value_of(array)
        steps: list[Any] = []
        while value.call is not None:
            call = value.call
            if call.op is None or call.op.kind != "view":
                raise CannotCapture("a result that looks at memory which the function changed")
            steps.append((call, call.results.index(value)))
            (value,) = call.inputs
        steps.reverse()
        is_leaf = leaf.requires_grad and leaf.is_leaf
        return Output("view", None, known, leaf.requires_grad, steps, is_leaf)

    def _effects(self) -> tuple[list[Any], list[Any]]:
        """Writes to tensors from outside, and gradients stored in their `.grad`."""
        writes = [
            (one, self.tracer.value_of(one.traced)) for one in self.known.values() if one.written
        ]
        if writes and self.inner.has_arrays:
            raise CannotCapture(
                "a write to a tensor beside an array from outside that may share it"
            )
        for one, _ in writes:
            for other in self.known.values():
                if other is not one and share_memory(one.array, other.array):
                    raise CannotCapture("a write to a tensor whose memory another one shares")
        stores: list[tuple[Any, Any]] = []
        for one in list(self.known.values()):
            grad = one.stand._stored_grad
            before = one.tensor._stored_grad
            if grad is not (None if before is None else self.inner.stands[id(before)]):
                if grad is not None and (grad._node is not None or id(grad) in self.known):
                    raise CannotCapture("a stored gradient that has a history")
                if grad is not None:
                    self.stored.check(grad, len(stores))
                value = None if grad is None else self.tracer.value_of(grad._array)
                stores.append((one, value))
        if self.tracer.passed or any(value is not None for _, value in stores):
            self._watch_passes({id(one) for one, _ in stores})
        # None where None was is a store, too: another call may find a gradient there.
        done = {id(one) for one, _ in stores}
        for one in self.known.values():
            grad = one.stand._stored_grad
            if id(one.stand) in self.inner.graded and grad is None and id(one) not in done:
                stores.append((one, None))
        return writes, stores

    def _watch_passes(self, stored: set[int]) -> None:
        """Passes within the function end at stand-ins: so must they at the tensors, unheard.

        `stored` are those whose `.grad` such a pass fills. A program runs no hooks of theirs and
        follows no history.
        """
        for one in self.known.values():
            if not one.requires_grad:
                continue
            met = met_by_passes(one.tensor)
            if met.endswith("hooks") or (id(one) in stored and met != LEAF):
                raise CannotCapture(f"a backward pass inside the function that comes to {met}")
            number = self._numbers.get(id(one.tensor))
            source = self.inner.found.get(id(one.tensor)) or (
                self.inner.root(one.tensor) if number is None else Source("leaf", None, number)
            )
            self.inner.guards.add("text", source, (met_by_passes, met))

    def _settled(self, one: Output, numbers: dict[int, int]) -> Output:
        if one.kind in ("input", "view"):
            place = numbers[one.place.value.number]
            return Output(one.kind, None, place, one.requires_grad, one.steps, one.is_leaf)
        return one

    # Backward -----------------------------------------------------------------------------------

    def _backward(
        self, leaves: list[Any], outputs: list[Output]
    ) -> tuple[list[Any], list[Any], bool]:
        wanted = [one for one in self.known.values() if one.requires_grad]
        roots = []
        for number, (leaf, output) in enumerate(zip(leaves, outputs, strict=True)):
            if output.kind == "value" and output.has_history:
                roots.append((number, leaf))
        own = [leaf for leaf, one in zip(leaves, outputs, strict=True) if one.is_leaf]
        if roots and (not wanted or leads([leaf for _, leaf in roots], own)):
            raise CannotCapture("a result whose history leads to a tensor made by the function")
        if not (roots and wanted):  # where recording is off, the function may switch it on
            return [], [], False
        tangents, pairs = [], []
        for number, leaf in roots:
            array = leaf._array
            value = self.tracer.new_value(array.shape, array.dtype, _dense(array))
            value.place = self.tracer.value_of(array).place
            tangents.append((number, value))
            pairs.append((edge_of(leaf), wrap(self.tracer.array_of(value))))
        edges = [edge_of(one.stand) for one in wanted]
        later = Later(self.inner, self.tracer, self.known, leaves)
        later.begin()
        try:
            made = run_pass(pairs, edges, retain_graph=False, create_graph=False)
        except CannotCapture:
            raise
        except Exception as error:
            if self.tracer.passed and isinstance(error, RuntimeError) and _USED_UP in str(error):
                return [], [], True
            raise CannotCapture(f"its backward raises {type(error).__name__}: {error}") from error
        finally:
            later.end()
        gradients = [
            (one, self.tracer.value_of(g._array))
            for one, g in zip(wanted, made, strict=True)
            if g is not None
        ]
        self.asked = later.asked()
        return tangents, gradients, False

    # Inputs ------------------------------------------------------------------------------------

    def _inputs(self, surroundings: Surroundings) -> list[Input]:
        inputs = []
        owner = {id(one.grad.tensor): one for one in self.known.values() if one.grad is not None}
        used = self._used()
        for one in self.known.values():
            key = id(one.tensor)
            on_host = type(one.array) is numpy.ndarray
            if on_host and self.tracer.library is not None and one.value.number in used:
                raise CannotCapture("tensors of the host beside those of a device")
            parameter = type(one.tensor) is not Tensor
            if key in surroundings.tensors:
                kind: str = "held"
                where: Any = one.tensor
            elif key in self._found:
                kind, where = "found", self._found[key]
            elif key in self._numbers:
                kind, where = "argument", self._numbers[key]
            elif one.value.number in used:
                kind, where = "grad", owner[key].value.number
            else:
                continue  # a `.grad` that the function does not look at
            inputs.append(Input(kind, one.value, where, one.requires_grad, parameter))
        numbers = {one.value.number: n for n, one in enumerate(inputs)}
        inputs = [
            Input(i.kind, i.value, numbers[i.place], i.requires_grad) if i.kind == "grad" else i
            for i in inputs
        ]
        return inputs + self._constants()

    def _used(self) -> set[int]:
        """The numbers of the values that the program reads, writes to, or gives back."""
        read = {value.number for call in self.tracer.calls for value in call.inputs}
        read |= {one.value.number for one in self.known.values() if one.written}
        return read | self._given_back

    def _constants(self) -> list[Input]:
        """Arrays that the function made itself; those that somebody else holds are no constants."""
        found = []
        # Its written history may hold tensors of the function's own.
        constants = self.tracer.constants
        views = Counter(id(owner_of(array)) for array, _, _ in constants.values()
                        if owner_of(array) is not array)  # fmt: skip
        for key in list(constants):
            array, _, value = constants.pop(key)
            owner = owner_of(array)
            spare = 2 + (owner is array)  # the names `array` and `owner`, and the argument
            held = sys.getrefcount(owner) > spare + views[id(owner)]
            if array.ndim == 0 and is_fixed(array):
                held = False  # a number that the library remembers
            if held:
                raise CannotCapture(
                    f"a tensor of shape {array.shape} that the function finds in a place which "
                    "cannot be watched for changes; pass it as an argument"
                )
            found.append(Input("constant", value, array))
        return found


def _dense(array: Any) -> tuple[int, ...]:
    """Strides of a row-major array of this shape."""
    strides, step = [], array.itemsize
    for n in reversed(array.shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
