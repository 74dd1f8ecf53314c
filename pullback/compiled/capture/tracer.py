"""Writes operator calls down instead of running them: stands in `Mode.tracing` during a capture.

Every operator call, forward or backward, arrives here as a declaration with its inputs and options.
What comes back are tensors on `TracedArray`s. Values are found by array: nodes keep outputs as
arrays and wrap them anew. An array that is not traced is either a constant that the function made,
or one that somebody outside holds; which of the two it is, `capture.py` decides after the run.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CellType, FunctionType
from typing import Any

import numpy

from pullback.compiled.capture.kernels import astype, laid_out, part, with_part
from pullback.compiled.capture.nodes import written_down
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.shapes import results_of
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.capture.traced import Storage, TracedArray, standing_for
from pullback.compiled.runtime.memory import share_memory
from pullback.compiled.sizes.sized import plain
from pullback.core.arrays import LIBRARIES
from pullback.core.forward import LEVELS
from pullback.core.memory import meta
from pullback.core.mode import changed, current, get_mode
from pullback.core.origin import Origin, getframe, user_frame
from pullback.core.passes import running
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import bump
from pullback.operators.declare import Op
from pullback.operators.random.generator import default_generator
from pullback.operators.random.stream import Stream
from pullback.operators.running import interpret
from pullback.operators.running.overlap import check_no_partial_overlap

__all__ = ["Tracer", "picked"]

_NEW = frozenset({numpy.zeros_like, numpy.ones_like, numpy.empty_like, numpy.full_like})
_BY_GEOMETRY = frozenset({
    numpy.shape, numpy.ndim, numpy.size, numpy.result_type, numpy.can_cast, numpy.iscomplexobj,
    numpy.isrealobj, numpy.min_scalar_type, numpy.common_type,
})  # fmt: skip


class Tracer:
    """One capture: the calls so far, and the arrays from outside that they read."""

    def __init__(self, *, exact: bool = False) -> None:
        """`exact`: nodes of the backward graph are steps, so that bits are eager's (nodes.py)."""
        self.exact = exact
        self.calls: list[Call] = []
        self.count = 0
        self.is_open = True
        self.thread = get_ident()  # others may hold the tensors that stand on its arrays
        self.stands: dict[int, Tensor] = {}  # by number of the value: stand-ins of tensors
        self.sizes: Any = None  # a Ledger, where sizes remember what they are
        # id of a real array -> it, what stands for it, its value
        self.constants: dict[int, tuple[Any, TracedArray, Value]] = {}
        self.written: list[Storage] = []
        self.top = 0  # bytes of memory given out, which does not exist
        self.swapped: list[tuple[Tensor, Any]] = []  # tensors of the function's own, their arrays
        self.inferring = False  # whether a kernel runs for the shape of its results
        self.drew = False
        self.generators: dict[int, Any] = {}  # by id: the user's own that the function reads
        self._scratch: Stream | None = None
        self.passed = 0  # calls of backward passes that the function runs itself
        self.forbidding: str | None = None  # why no random numbers may be drawn now
        self.library: Any = None  # of a device, where tensors from outside are on one
        self.interpreter: Any = None  # what runs the function, and knows its lines
        self.answers: Any = None  # computes what decides; None: a decision ends the capture

    # Values ---------------------------------------------------------------------------------

    def new_value(self, shape: Any, dtype: Any, strides: Any, call: Call | None = None) -> Value:
        """One more value of the program."""
        self.count += 1
        if self.sizes is not None:
            shape, strides = plain(tuple(shape)), plain(tuple(strides))
        return Value(self.count - 1, tuple(shape), dtype, tuple(strides), call)

    def stand_in(self, array: Any) -> TracedArray:
        """A traced array in place of a real one from outside, with a storage of its own."""
        traced = self._standing(array.shape, _plain(array.dtype), array.strides)
        traced.value = self.new_value(traced.shape, traced.dtype, traced.strides)
        traced.storage = Storage(self, traced.value, traced)
        traced.seen = 0
        return traced

    def traced(self, array: Any) -> TracedArray:
        """A real array as a constant of the program; a traced one as it is."""
        if array.__class__ is TracedArray:
            if array.storage is None or array.storage.tracer is not self:
                raise CannotCapture("a tensor left over from another capture")
            return array
        if isinstance(array, numpy.generic):
            array = numpy.asarray(array)
        if array.__class__ is not numpy.ndarray and type(array) not in LIBRARIES:
            raise CannotCapture(f"an array of type {type(array).__name__}")
        known = self.constants.get(id(array))
        if known is None:
            stand_in = self.stand_in(array)
            known = self.constants[id(array)] = (array, stand_in, stand_in.value)
            if type(array) in LIBRARIES:
                self.library = LIBRARIES[type(array)]
                stand_in.value.place = self.library.device(array)
            for storage in self.written:
                self._check_apart(storage)
        return known[1]

    def _check_apart(self, storage: Storage) -> None:
        """Refuse a write to a constant whose memory another constant shares."""
        mine = [array for array, stand_in, _ in self.constants.values()
                if stand_in.storage is storage]  # fmt: skip
        for array, stand_in, _ in self.constants.values():
            if stand_in.storage is not storage and any(share_memory(one, array) for one in mine):
                raise CannotCapture("a write to memory that two arrays share")

    def value_of(self, array: Any) -> Value:
        """The present value of an array."""
        array = self.traced(array)
        storage = array.storage
        value: Value = array.value
        if array.seen == storage.version:
            return value
        if storage.value is None:
            raise CannotCapture("an array that no operator made")
        address = array.__array_interface__["data"][0]
        if (
            array.shape == storage.shape
            and array.strides == storage.strides
            and (address == storage.address or not array.size)
        ):
            value = storage.value
        else:
            value = self._part(array, storage, address)
        array.value, array.seen = value, storage.version
        return value

    def _part(self, array: TracedArray, storage: Storage, address: int) -> Value:
        """The value of a part of a storage, by geometry."""
        size = array.itemsize
        if array.dtype != storage.value.dtype:
            raise CannotCapture("a view of another dtype of memory that was written")
        offset = (address - storage.address) // size
        strides = tuple(stride // size for stride in array.strides)
        own = tuple(stride // size for stride in storage.strides)
        call = Call("part", part, (storage.value,), {
            "shape": array.shape, "strides": strides, "offset": offset, "own": own})  # fmt: skip
        return self.enter(call, [(array.shape, array.dtype, array.strides)])[0]

    def enter(self, call: Call, made: list[Any], *, single: bool = True) -> tuple[Value, ...]:
        """Write a call down; `made` are (shape, dtype, strides) of its results."""
        call.origin = self._origin()
        call.single = single
        call.results = tuple(
            [self.new_value(shape, dtype, steps, call) for shape, dtype, steps in made]
        )
        if self.library is not None:
            self._place(call)
        self.passed += running.get() is not None
        later = None if self.interpreter is None else self.interpreter.later
        if later is not None and later.is_recorded and not get_mode().grad:
            later.is_once = True
        self.calls.append(call)
        return call.results

    def _origin(self) -> Origin | None:
        """The user's line that runs now."""
        known: Origin | None = None if self.interpreter is None else self.interpreter.origin()
        if known is not None:
            return known
        frame = user_frame(getframe(3))
        return None if frame is None else Origin(frame.f_code, frame.f_lasti)

    def _place(self, call: Call) -> None:
        """Results are where the inputs are; numbers of no dimensions go anywhere."""
        places = {one.place for one in call.inputs if one.place is not None and one.shape}
        if len(places) > 1:
            raise CannotCapture("tensors of two devices")
        places = places or {one.place for one in call.inputs if one.place is not None}
        for value in call.results if len(places) == 1 else ():
            (value.place,) = places

    def answer(self, array: Any, why: str) -> Any:
        """The real array of a traced one that somebody decides by, or `why` that cannot be."""
        asked = self.interpreter is not None and self.interpreter.asks
        if self.answers is None or not asked or not self.is_open or self.inferring:
            raise CannotCapture(why)
        return self.answers.of(self, self.value_of(array), why)

    def standing_for(self, value: Value) -> Tensor | None:
        """The stand-in of the tensor from outside that a value is; None if it is none."""
        known: Tensor | None = self.stands.get(value.number)
        return known

    def original(self, stand: Tensor) -> Tensor:
        """The tensor from outside that a stand-in stands for."""
        found: Tensor = self.interpreter.originals[id(stand)]
        return found

    def array_of(self, value: Value) -> TracedArray:
        """A traced array that has this value, in new memory."""
        array = self._standing(value.shape, value.dtype, value.strides)
        array.storage = Storage(self, value, array)
        array.value, array.seen = value, 0
        return array

    def _standing(self, shape: Any, dtype: Any, strides: Any) -> TracedArray:
        """An array in memory of its own, so that nothing seems to overlap."""
        made = standing_for(shape, dtype, strides, self.top)
        pairs = zip(shape, strides, strict=True)
        span = sum((n - 1) * s for n, s in pairs) + made.itemsize if made.size else 1
        self.top += -(-span // 64) * 64
        return made

    # Operators ------------------------------------------------------------------------------

    def results(self, op: Op, values: dict[str, Any], options: dict[str, Any]) -> list[Tensor]:
        """The results of an operator's call as tensors; completes `options`."""
        return [wrap(array) for array in self._arrays(op, values, options)]

    def arrays(self, op: Op, values: dict[str, Any], options: dict[str, Any]) -> Any:
        """The same for arrays, as rules on arrays call operators."""
        made = self._arrays(op, values, options)
        return made[0] if len(op.outputs) == 1 and op.outputs != ("*",) else tuple(made)

    def _arrays(self, op: Op, values: dict[str, Any], options: dict[str, Any]) -> list[TracedArray]:
        arrays = interpret.input_arrays(op, self._traced_tree(values))
        interpret.normalise(op, options, arrays)
        given = self._options_as_values(op, options)
        tree = {name: self._value_tree(one) for name, one in arrays.items()}
        made, drew = results_of(self, op, arrays, options if given is options else _zeros(options))
        call = Call(op.name, op.forward, (numpy,), {**tree, **given}, op)
        call.random = drew
        single = len(op.outputs) == 1 and op.outputs != ("*",)
        shapes = [(one.shape, _plain(one.dtype), _strides(one)) for one in made]
        results = self.enter(call, shapes, single=single)
        if op.kind == "view":
            return [self._view(v, a, arrays) for v, a in zip(results, made, strict=True)]
        # Of half precision and a number, eager's kernels compute in float32 and round once.
        return [interpret.rounded_once(op, arrays, self.array_of(value)) for value in results]

    def _options_as_values(self, op: Op, options: dict[str, Any]) -> dict[str, Any]:
        """Options, with values in place of arrays, which only eager's kernels take."""
        computed = [
            name
            for name, one in options.items()
            if one.__class__ is TracedArray
            or (isinstance(one, tuple) and any(part.__class__ is TracedArray for part in one))
        ]
        if not computed:
            return options
        if not self.exact:
            raise CannotCapture(f"{op.name}, an option of which is computed by the function")
        return {**options, **{name: self._value_tree(options[name]) for name in computed}}

    def _view(self, value: Value, made: Any, arrays: dict[str, Any]) -> TracedArray:
        """What a view operator made: on the memory of its input, or (reshape) a copy."""
        source = next(iter(arrays.values()))
        if _owns_memory(made):
            return self.array_of(value)
        if made.__class__ is not TracedArray:
            made = made.view(TracedArray)
            made.storage = source.storage
        if made is source:
            made = source[...]
        start = source.__array_interface__["data"][0]
        value.shift = (made.__array_interface__["data"][0] - start) // source.itemsize
        made.value, made.seen = value, source.storage.version
        seen: TracedArray = made
        return seen

    def _traced_tree(self, values: dict[str, Any]) -> dict[str, Any]:
        def traced(one: Any) -> Any:
            if isinstance(one, Tensor):
                return self.standing_in(one)
            if isinstance(one, tuple | list):
                return tuple([traced(part) for part in one])
            if isinstance(one, numpy.ndarray):
                return self.traced(one)
            return one

        return {name: traced(one) for name, one in values.items()}

    def standing_in(self, tensor: Tensor) -> TracedArray:
        """The traced array of a tensor, which from now on stands on it."""
        array = tensor._array
        traced = self.traced(array)
        if traced is not array:
            self.swapped.append((tensor, array))
            tensor._array = traced
        return traced

    def _value_tree(self, one: Any) -> Any:
        if one.__class__ is TracedArray:
            return self.value_of(one)
        if one.__class__ is tuple:
            return tuple([self._value_tree(part) for part in one])
        return one  # a number, or an array of no dimensions that stands for one

    # Nodes ----------------------------------------------------------------------------------

    def node(self, node: Any, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """A node of the backward graph, in a capture that is exact."""
        return written_down(self, node, g, edges)

    def kernel(self, name: str, kernel: Any, g: Tensor, dims: Any, shape: Any) -> Tensor:
        """A gradient that the engine brings to another shape by a kernel of its own."""
        if LEVELS:  # tangents go through operators
            made: Tensor = g.sum_to_size(shape)
            return made
        value = self.value_of(self.standing_in(g))
        strides = meta.of(tuple(shape), value.dtype).strides
        call = Call(name, kernel, (value, dims, tuple(shape)), {})
        return wrap(self.array_of(self.enter(call, [(shape, value.dtype, strides)])[0]))

    # Writes ---------------------------------------------------------------------------------

    def write(
        self, op: Op, called: str, target: Tensor, values: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """An in-place form: the result of the plain one is the target's new value."""
        pure = op if op.function is None else op.function.op  # not the one that writes itself
        self._check_reads(called, target, values)
        (made,) = self._arrays(pure, values, dict(options))
        interpret_check(called, target, made)
        self.assign(self.standing_in(target), made)
        bump(target, called)

    def results_into(
        self, op: Op, targets: Any, values: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Results put into the tensors given as `out=`."""
        for target in targets:
            self._check_reads(op.name, target, values)
        for target, made in zip(targets, self._arrays(op, values, options), strict=True):
            if target._array.shape != made.shape:
                raise CannotCapture("out= of another shape")
            interpret_check(op.name, target, made)
            self.assign(self.standing_in(target), made)
            bump(target, op.name)

    def _check_reads(self, called: str, target: Tensor, values: dict[str, Any]) -> None:
        """Leave a write to memory that it reads in part to eager, which refuses most of them."""
        array = self.standing_in(target)
        for one in self._traced_tree(values).values():
            for source in one if isinstance(one, tuple) else (one,):
                if source.__class__ is not TracedArray or source.storage is not array.storage:
                    continue
                try:
                    check_no_partial_overlap(called, array, source)
                except RuntimeError as error:
                    raise CannotCapture(f"{called} that reads a part of what it writes") from error

    def assign(self, array: TracedArray, source: Any) -> None:
        """Write `source` over all of an array."""
        storage = array.storage
        if storage.is_picked:
            raise picked("a write to")
        if numpy.shape(source) != array.shape:
            numpy.broadcast_shapes(numpy.shape(source), array.shape)
            source = self._stretched(source, array.shape)
        elif not isinstance(source, numpy.ndarray):
            source = numpy.asarray(source)
        if source.dtype != array.dtype:
            source = self.cast(self.traced(source), array.dtype)
        value = self.value_of(source)
        whole = self._is_whole(array, storage)
        if not whole:
            value = self._scattered(array, storage, value)
        elif value.strides != storage.strides and value.bytes:
            value = self._laid_out(value, storage)
        storage.value = value
        storage.version += 1
        if self.interpreter is not None:
            self.interpreter.touched += 1
        if storage not in self.written:
            self.written.append(storage)
            self._check_apart(storage)
        if whole:
            array.value, array.seen = value, storage.version

    def _is_whole(self, array: TracedArray, storage: Storage) -> bool:
        address = array.__array_interface__["data"][0]
        same = array.shape == storage.shape and array.strides == storage.strides
        return same and (address == storage.address or not array.size)

    def _stretched(self, source: Any, shape: tuple[int, ...]) -> TracedArray:
        source = self.traced(numpy.asanyarray(source))
        value = self.value_of(source)
        call = Call("broadcast_to", numpy.broadcast_to, (value, shape), {})
        strides = numpy.broadcast_to(_probe(source), shape).strides
        return self.array_of(self.enter(call, [(shape, source.dtype, strides)])[0])

    def _scattered(self, array: TracedArray, storage: Storage, value: Value) -> Value:
        size = array.itemsize
        whole = storage.value
        offset = (array.__array_interface__["data"][0] - storage.address) // size
        strides = tuple(stride // size for stride in array.strides)
        own = tuple(stride // size for stride in storage.strides)
        call = Call("with_part", with_part, (whole, value), {
            "strides": strides, "offset": offset, "own": own})  # fmt: skip
        return self.enter(call, [(whole.shape, whole.dtype, storage.strides)])[0]

    def _laid_out(self, value: Value, storage: Storage) -> Value:
        """The value in the memory order of the storage, which views of it go by."""
        strides = tuple(stride // value.dtype.itemsize for stride in storage.strides)
        call = Call("laid_out", laid_out, (value,), {"strides": strides})
        return self.enter(call, [(value.shape, value.dtype, storage.strides)])[0]

    def assign_at(self, array: TracedArray, key: Any, source: Any) -> None:
        """Write to a part of an array that a NumPy index names."""
        if any(isinstance(one, numpy.ndarray | list) for one in _listed(key)):
            raise CannotCapture("a write to an array by an index of values, outside of an operator")
        self.assign(array[key], source)

    # Arithmetic outside of operators ----------------------------------------------------------

    def copied(self, array: TracedArray, order: Any) -> TracedArray:
        """Another array of the same value, with memory of its own."""
        value = self.value_of(array)
        if order in ("C", None) and not array.flags.c_contiguous:
            call = Call("copy", numpy.ascontiguousarray, (value,), {})
            strides = meta.of(array.shape, array.dtype).strides
            value = self.enter(call, [(array.shape, array.dtype, strides)])[0]
        return self.array_of(value)

    def picked(self, array: TracedArray, key: Any) -> TracedArray:
        """Elements that arrays of integers name."""
        listed = key if isinstance(key, tuple) else (key,)
        if any(isinstance(one, numpy.ndarray) and one.dtype.kind == "b" for one in listed):
            raise CannotCapture("a mask that picks elements, whose number depends on values")
        made = _probe(array)[_zeros(key)]
        value = self.value_of(array)
        call = Call("getitem", operator.getitem, (value, self._tree_of_values(key)), {})
        results = self.enter(call, [(made.shape, array.dtype, _strides(made))])
        return self.array_of(results[0])

    def cast(self, array: TracedArray, dtype: Any, order: Any = "K") -> TracedArray:
        """The array in another dtype."""
        value = self.value_of(array)
        if dtype == array.dtype:
            return self.array_of(value)
        call = Call("astype", astype, (value, dtype), {})
        like = meta.strided(array.shape, array.dtype, array.strides).astype(dtype, order)
        return self.array_of(self.enter(call, [(array.shape, _plain(dtype), like.strides)])[0])

    def ufunc(self, ufunc: Any, method: str, inputs: Any, out: Any, kwargs: Any) -> Any:
        """A NumPy ufunc on traced arrays, called by a part of the library that is no operator."""
        kernel = ufunc if method == "__call__" else getattr(ufunc, method)
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self._numpy(name, kernel, inputs, out, kwargs)

    def function(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A NumPy function on traced arrays."""
        if func in _NEW:
            first = meta.strided(args[0].shape, args[0].dtype, args[0].strides)
            kwargs = {"dtype": args[0].dtype, **kwargs}
            empty = numpy.empty_like(meta.plain(first), **_without(kwargs, "fill_value"))
            return func(empty, *args[1:], **kwargs)
        if func in (numpy.may_share_memory, numpy.shares_memory):
            return any(
                a.storage is b.storage if b.__class__ is TracedArray else False
                for a in args[:1]
                for b in args[1:2]
            )
        if func in _BY_GEOMETRY:
            return func(*_zeros(args), **_zeros(kwargs))
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None)
        return self._numpy(func.__name__, func, args, (out,) if out is not None else None, kwargs)

    def _numpy(self, name: str, kernel: Any, args: Any, out: Any, kwargs: Any) -> Any:
        if out is not None and any(one.__class__ is not TracedArray for one in out):
            raise CannotCapture(f"numpy.{name} that writes to an array of its own")
        kwargs = {key: one for key, one in kwargs.items() if key != "out"}
        tree = self._tree_of_values(args), self._tree_of_values(kwargs)
        zeros = _zeros(args), _zeros(kwargs)
        if self.sizes is not None:  # NumPy takes a number that remembers for a float64
            zeros = plain(zeros)
        made = kernel(*zeros[0], **zeros[1])
        single = not isinstance(made, tuple | list)
        listed = [numpy.asarray(one) for one in ([made] if single else made)]
        if not all(isinstance(one, numpy.ndarray | numpy.generic) for one in
                   ([made] if single else made)):  # fmt: skip
            raise CannotCapture(f"numpy.{name}, whose answer needs the values of a tensor")
        by_values = name in _BY_VALUES or (name == "where" and len(args) == 1)
        if name == "repeat" and _is_traced((*args[1:2], kwargs.get("repeats"))):
            by_values = True
        if by_values:
            raise CannotCapture(f"numpy.{name}, whose result's shape depends on values")
        call = Call(name, kernel, tree[0], tree[1])
        shapes = [(one.shape, _plain(one.dtype), _strides(one)) for one in listed]
        results = [self.array_of(one) for one in self.enter(call, shapes, single=single)]
        if out is not None:
            for target, one in zip(out, results, strict=True):
                self.assign(target, one)
            return out[0] if len(out) == 1 else out
        return results[0] if single else tuple(results)

    def _tree_of_values(self, tree: Any) -> Any:
        if isinstance(tree, numpy.ndarray):
            return self.value_of(tree)
        if isinstance(tree, dict):
            return {name: self._tree_of_values(one) for name, one in tree.items()}
        if isinstance(tree, tuple | list):
            return type(tree)(self._tree_of_values(one) for one in tree)
        return tree

    # Control flow ---------------------------------------------------------------------------

    def branch(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
        """`cond`, decided when the program runs."""
        from pullback.compiled.capture import branches

        return branches.branch(self, pred, (true_fn, false_fn), operands)

    def loop(self, cond_fn: Any, body_fn: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        """`while_loop`, run when the program runs."""
        from pullback.compiled.capture import branches

        return branches.loop(self, cond_fn, body_fn, carried)

    # Random numbers -------------------------------------------------------------------------

    def draws(self, generator: Any) -> Stream:
        """Numbers for somebody who asks a generator for some, where only their shape counts."""
        if not self.inferring:
            raise CannotCapture("random numbers that are no result of an operator")
        self._check_draw()
        self.drew = True
        if self._scratch is None:
            self._scratch = Stream(0)
        return self._scratch

    def _check_draw(self) -> None:
        if self.forbidding is not None:
            raise CannotCapture(f"random numbers that {self.forbidding}")

    @property
    def may_draw(self) -> bool:
        """Whether random numbers may be drawn now."""
        return self.forbidding is None

    def without_draws(self, function: Any) -> Any:
        """What a function gives that must draw no random numbers."""
        with self.no_draws("a checkpoint would draw once more"):
            return function()

    @contextmanager
    def no_draws(self, who: str) -> Iterator[None]:
        """Inside, nobody may draw random numbers; the reason says who did."""
        before, self.forbidding = self.forbidding, who
        try:
            yield
        finally:
            self.forbidding = before

    def draw(self, op: str, draw: Any) -> Tensor:
        """A tensor of random numbers: drawn anew in each run, in the same order."""
        if self.library is not None:
            raise CannotCapture("random numbers of a device")
        self._check_draw()
        draw = _without_history(draw)
        mode = get_mode()
        states: list[tuple[Any, Any]] = []
        try:
            current.set(changed(mode, tracing=None))
            # For the shape alone. Put back at once: whatever other threads draw until then comes
            # once more.
            generators = (default_generator, *self.generators.values())
            states += [(one, one.get_state()) for one in generators]
            made = draw()
        finally:
            for one, state in states:
                one.set_state(state)
            current.set(mode)
        call = Call(op, _array_drawn, (draw,), {})
        call.random = True
        array = made._array
        return wrap(self.array_of(self.enter(call, [(array.shape, array.dtype, array.strides)])[0]))


def picked(what: str) -> CannotCapture:
    """Why a part that an index tensor names cannot be a copy."""
    why = CannotCapture(f"{what} a tensor of which an index tensor names a part")
    why.is_picked = True
    return why


def _is_traced(values: Any) -> bool:
    return any(one.__class__ is TracedArray for one in values)


def interpret_check(called: str, target: Tensor, made: TracedArray) -> None:
    """Refuse what eager would refuse to write."""
    from pullback.operators.running.inplace import check_fit

    if made.shape != target._array.shape or made.dtype != target._array.dtype:
        if made.shape != target._array.shape and called == "copy_":
            return
        check_fit(called, target, made)


def _owns_memory(array: Any) -> bool:
    """Whether it is no view: reshape copies what it cannot lay out anew."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return bool(array.flags.owndata)


_NAMES = """
    argwhere bincount compress delete ediff1d extract flatnonzero histogram histogram2d
    histogram_bin_edges histogramdd in1d insert intersect1d mask_indices nonzero place setdiff1d
    setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values
"""
_BY_VALUES = frozenset(_NAMES.split())


def _listed(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _without(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: one for key, one in options.items() if key != name}


def _plain(dtype: Any) -> Any:
    return numpy.dtype(dtype.type) if dtype.metadata else dtype


def _strides(array: Any) -> tuple[int, ...]:
    if any(stride < 0 for stride in array.strides):
        return meta.of(array.shape, array.dtype).strides
    return tuple(array.strides)


def _probe(array: Any) -> Any:
    return meta.plain(meta.strided(array.shape, array.dtype, array.strides))


def _zeros(tree: Any) -> Any:
    if tree.__class__ is TracedArray:
        return _probe(tree)
    if isinstance(tree, dict):
        return {name: _zeros(one) for name, one in tree.items()}
    if tree.__class__ in (tuple, list):  # a named one is an option
        return type(tree)(_zeros(one) for one in tree)
    return tree


def _without_history(draw: Any) -> Any:
    """The function that draws, with tensors in its closure that hold on to nothing."""
    if draw.__closure__ is None:
        return draw
    cells = []
    for cell in draw.__closure__:
        content = cell.cell_contents
        if isinstance(content, Tensor):
            array = content._array
            content = wrap(meta.plain(meta.strided(array.shape, array.dtype, array.strides)))
        cells.append(CellType(content))
    light = FunctionType(draw.__code__, draw.__globals__, draw.__name__, draw.__defaults__,
                         tuple(cells))  # fmt: skip
    light.__kwdefaults__ = draw.__kwdefaults__
    return light


def _array_drawn(draw: Any) -> Any:
    return draw()._array
