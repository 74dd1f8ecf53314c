"""Sees operator calls and saved tensors inside a budget, and gives saved values back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy
from numpy import ndarray

from pullback.autograd.budget.again import draw_again, nothing
from pullback.autograd.budget.array_store import ArrayStore
from pullback.autograd.budget.store import Impossible, Lost
from pullback.autograd.budget.trace import Followed, Trace
from pullback.autograd.budget.values import Call, Given, Value
from pullback.autograd.budget.values import writes as writes_first
from pullback.core import errors
from pullback.core.arrays import LIBRARIES
from pullback.core.faults import OutOfMemoryError
from pullback.core.mode import changed, current, get_mode
from pullback.core.node import Leaf
from pullback.core.origin import here
from pullback.core.passes import evaluating
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_leaves
from pullback.core.version import INFERENCE_CELL, own_cell, writes
from pullback.core.view import View
from pullback.engine.ownership import ALONE
from pullback.operators.arrays.strides import root

__all__ = ["Recorder", "active"]

# The innermost budget of this context; None outside, and while a value is computed again.
active: ContextVar[Any] = ContextVar("pullback_memory_budget", default=None)

# Random tensors that depend on the sizes, and not on the numbers, of the tensors they are like.
_BY_SIZE = frozenset(
    {
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
        *("alpha_dropout", "feature_alpha_dropout", "native_dropout"),
    }
)


_LOST = (
    "memory_budget: a saved value cannot be computed again, since a tensor that it came from was "
    "written to or is gone. Write out of place, or leave the tensor as it is until backward is "
    "over."
)


_SIMPLE = frozenset({type(None), bool, int, float, str})  # of most options


class _NotPlain(Exception):  # noqa: N818  nobody but us sees it
    """An argument is a tensor of a kind that is left alone."""


class Handle:
    """A saved value, in the place of the tensor."""

    __slots__ = ("__weakref__", "_recorder", "array", "cell", "value", "version")

    def __init__(self, recorder: Recorder, tensor: Tensor) -> None:
        self._recorder = recorder
        self.array: Any = tensor._array  # until it is known what it is
        cell = tensor._cell
        self.cell = own_cell(tensor) if cell.__class__ is tuple else cell
        self.version = self.cell[0]
        self.value: Value | None = None

    def __del__(self) -> None:
        self._recorder.released(self)


class Plain:
    """A saved tensor of the program's own, or of a kind that is left alone."""

    __slots__ = ("cell", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        # An alias: the tensor itself may be the output of the node that is to keep it.
        is_leaf = tensor.is_leaf
        self.tensor = tensor if is_leaf else tensor.detach()
        self.cell = None if tensor._cell is INFERENCE_CELL else own_cell(tensor)
        self.version = None if self.cell is None else self.cell[0]


class Recorder:
    """The lineage of values inside one budget; an observer of operators."""

    def __init__(self, store: ArrayStore) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.trace: Trace | Followed = Trace()
        self.handles = 0
        self.started: Callable[[], None] = lambda: None  # a step is about to save its first value
        self.finished: Callable[[], None] = lambda: None  # all saved values were given back
        self.strayed: Callable[[], None] = lambda: None  # a step is not as it was expected
        self.decide: Callable[[Value], str] = lambda _value: "keep"
        self._known: dict[int, tuple[Any, Value]] = {}
        self._depth = 0  # of what must not be disturbed
        self._pending: list[Any] = []  # weakly, handles of what an operator has just made
        self._seconds = 0.0
        self._modes: tuple[Any, Any] = (None, None)
        self._released: list[Value | None] = []

    # Operators -----------------------------------------------------------------------------------

    def enter(self, op: Any, called: str) -> float:
        """An operator starts."""
        return time.perf_counter()

    def leave(self, token: float, result: Any, operands: Any) -> None:
        """It is over; `noted_call` comes next."""
        self._seconds = time.perf_counter() - token

    def noted_call(self, called: str, run: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Note a call and its results."""
        if active.get() is not self or result is None:
            return
        mode = get_mode()
        if mode.levels:
            return
        with self.lock:
            self._depth += 1
            try:
                inside = self._modes[1] if self._modes[0] is mode else self._inside(mode)
                self._note(called, run, args, kwargs, result, inside)
                if self._pending or self.store.foreign:
                    self._take_in()
            finally:
                self._depth -= 1
                if self._released:
                    self._take_back()

    def _inside(self, mode: Any) -> Any:
        """The mode in which calls of another are made again: the same, but saving nothing."""
        hooks = ((nothing, nothing),) if mode.grad else ()
        self._modes = mode, changed(mode, saved_hooks=hooks)
        return self._modes[1]

    def noted_draw(self, op: str, draw: Any, result: Any, state: Any) -> None:
        """Note random numbers that a function drew, whose state before was `state`."""
        if active.get() is not self or not isinstance(result, Tensor) or op not in _BY_SIZE:
            return
        again = draw_again(draw, state)
        if again is not None:
            with self.lock:
                self._depth += 1
                try:
                    self._note(f"{op} mask", again, (), {}, result, None)
                finally:
                    self._depth -= 1

    def _note(self, called: str, run: Any, args: Any, kwargs: Any, result: Any, mode: Any) -> None:
        made = result if isinstance(result, tuple | list) else (result,)
        is_new = is_write = writes_first(called)
        for one in made:
            if not _is_plain(one):
                return
            if not is_new:
                entry = self._known.get(id(one._array))
                is_new = (
                    entry is None
                    or entry[0]() is not one._array
                    or entry[1].version != one._cell[0]
                )
        if not is_new:
            return  # the same tensor, or noted by an operator inside
        read: dict[Value, Any] = {}
        first: list[Any] = []
        if is_write:
            before = self._before_write(args, kwargs)
            if before is None:
                return
            read[before] = args[0]._array
            first, args = [Given(before, False)], args[1:]  # leaves are not written
        try:
            filled = (*first, *self._given(args, read))
            given = self._given(kwargs.values(), read)
            named = dict(zip(kwargs, given, strict=True))
        except _NotPlain:
            return
        call = Call(called, run, filled, named, list(read), mode)
        call.seconds = self._seconds
        values = [self._made(one, call, read) for one in made]
        trace = self.trace
        if not trace.called(call, values) and isinstance(trace, Followed):
            self.trace = trace.left()
            self.strayed()
            self.trace.called(call, values)

    def follow(self, trace: Trace) -> None:
        """Expect the calls of another step, of which this one may have made some already."""
        so_far = self.trace
        if isinstance(so_far, Followed):
            if so_far.trace is not trace:
                self.strayed()
            return
        calls, values = len(so_far.calls), len(so_far.values)
        if trace.calls[:calls] == so_far.calls and trace.values[:values] == so_far.values:
            self.trace = Followed(trace, calls, values)
        else:
            self.strayed()

    def _before_write(self, args: Any, kwargs: Any) -> Value | None:
        """What the first argument held before the write that is just over; None if unknown."""
        target = args[0] if args and isinstance(args[0], Tensor) else None
        entry = None if target is None else self._known.get(id(target._array))
        if target is None or entry is None or entry[0]() is not target._array:
            return None
        owner = root(target._array)
        others = [one for one in tree_leaves((args[1:], kwargs)) if isinstance(one, Tensor)]
        if any(root(one._array) is owner for one in others):
            return None  # it read what it wrote
        return entry[1] if entry[1].version + 1 == target._cell[0] else None

    def _given(self, args: Any, read: dict[Value, Any]) -> list[Any]:
        """Arguments with values in the places of tensors; notes these with their arrays."""
        known = self._known
        made: list[Any] = []
        for one in args:
            kind = one.__class__
            if kind in _SIMPLE:
                made.append(one)
            elif kind is Tensor or isinstance(one, Tensor):
                raw = one._raw
                if not (_is_plain(one) or isinstance(raw, numpy.generic)):
                    raise _NotPlain
                entry = known.get(id(raw))
                if entry is None or entry[0]() is not raw or entry[1].version != one._cell[0]:
                    value = self._value(one)
                else:
                    value = entry[1]
                read.setdefault(value, one._array)
                made.append(Given(value, one._node is not None and one.requires_grad))
            elif kind is tuple or kind is list:
                made.append(kind(self._given(one, read)))
            else:
                made.append(one)
        return made

    def _made(self, tensor: Tensor, call: Call, read: dict[Value, Any]) -> Value:
        array = tensor._array
        owner = array if array.base is None else root(array)
        value = Value(tensor._cell[0], int(owner.nbytes), array.shape)
        value.call = call
        call.outputs.append(ref(value))
        if call.writes:
            before = self._known.get(id(array))
            if before is not None and before[0]() is array:
                self.store.overwritten(before[1])
        else:
            for its, other in read.items():
                if other is owner or (other.base is not None and owner is root(other)):
                    value.base = its
                    break
        self._remember(array, value)
        return value

    # What is known of tensors --------------------------------------------------------------------

    def _remember(self, array: Any, value: Value) -> None:
        key, known = id(array), self._known
        # Called with the reference, which is then the default of `pop`: no function of ours runs.
        value.weak = ref(array, partial(known.pop, key))
        known[key] = (value.weak, value)

    def _value(self, tensor: Tensor) -> Value:
        """A tensor that is met for the first time at this version."""
        if isinstance(tensor._raw, numpy.generic):  # one number, which nobody can write to
            value = Value(0, 0, ())
            value.array = tensor._raw
            return value
        array = tensor._array
        owner = array if array.base is None else root(array)
        value = Value(tensor._cell[0], int(owner.nbytes), tuple(array.shape))
        value.outside = ref(tensor)
        self._remember(array, value)
        return value

    # Saved tensors --------------------------------------------------------------------------------

    def pack(self, tensor: Tensor) -> Handle | Plain:
        """What a node keeps in the place of a tensor."""
        node = tensor._node
        if node.__class__ is Leaf or not _is_plain(tensor):
            return Plain(tensor)
        if node.__class__ is View and tensor.requires_grad and tensor.is_leaf:
            return Plain(tensor)
        if not tensor._raw.size:
            return Plain(tensor)
        with self.lock:
            self._depth += 1
            try:
                if not self.handles:
                    self.started()
                handle = Handle(self, tensor)
                self.handles += 1
                self._pending.append(ref(handle))
                return handle
            finally:
                self._depth -= 1
                if self._released:
                    self._take_back()

    def catch_up(self) -> None:
        """Take in what was saved since the last call, and keep the bound."""
        with self.lock:
            self._depth += 1
            try:
                self._take_in()
            finally:
                self._depth -= 1
                if self._released:
                    self._take_back()

    def _take_in(self) -> None:
        store = self.store
        saved: dict[Value, None] = {}
        for weak in self._pending:
            handle = weak()
            if handle is not None and handle.value is None:
                saved.setdefault(self._saved(handle))
        self._pending.clear()
        self._widen(saved)
        if store.foreign:
            saved |= store.foreign
        for value in saved:
            if value.array is None or value in store.kept:
                continue
            if value.outside is not None:
                if not _is_ours(value):
                    store.foreign[value] = None
                    continue
                store.foreign.pop(value, None)
                self._counted(value)
            store.add(value, value.array)
            how = self.decide(value)
            if how != "keep":
                store.let_go_as_planned(value, is_put_out=how == "put out")
        held = store.bytes + store.temporary
        if held <= store.bound:
            if held > store.counts.peak:
                store.counts.peak = held
            return
        try:
            store.settle()
        except Impossible as error:
            raise _too_small(error.needed, store.bound, here()) from None

    def _widen(self, saved: dict[Value, None]) -> None:
        """What one node saved must be in memory at once when its turn comes."""
        together = 0
        for value in saved:
            if value.outside is None:
                together += value.nbytes
        if together > self.store.widest:
            self.store.widest = together
            if together > self.store.bound:
                raise _too_small(together, self.store.bound, here())

    def _saved(self, handle: Handle) -> Value:
        """Let the value that owns a handle's memory know of it; that value."""
        array, handle.array = handle.array, None
        entry = self._known.get(id(array))
        value = entry[1] if entry is not None and entry[1].version == handle.version else None
        if value is None:
            value = Value(handle.version, int(root(array).nbytes), tuple(array.shape))
            value.outside = ref(wrap(array))  # gone at once: it cannot be computed again
            self._remember(array, value)
        handle.value = value
        owner = value if value.base is None else value.root
        if owner.array is None and owner.file is None and not (owner.handles and owner.call):
            whole = array if owner is value else owner.weak()
            if whole is None:  # only this view of the memory is left
                value.base, owner, whole = None, value, array
            owner.array = whole
        owner.cell = handle.cell
        owner.handles += 1
        if owner.handles == 1 and owner.outside is None:
            self._counted(owner)
        return owner

    def _counted(self, value: Value) -> None:
        self.store.counts.saved += value.nbytes
        self.trace.saved(value)

    def released(self, handle: Handle) -> None:
        """A node let go of a value; this may come at any moment, so it is noted at least."""
        self._released.append(handle.value)
        if not self._depth and self.lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self.lock.release()

    def _take_back(self) -> None:
        """Forget the values that nobody will ask for again, unless something is under way."""
        if self._depth:
            return
        self._depth = 1
        try:
            while self._released:
                self._forget(self._released.pop())
        finally:
            self._depth = 0

    def _forget(self, value: Value | None) -> None:
        self.handles -= 1
        if value is not None:
            owner = value if value.base is None else value.root
            owner.handles -= 1
            if not owner.handles:
                self.store.forget(owner)
                if owner.outside is not None:
                    self.store.foreign.pop(owner, None)
                if not self.trace.is_followed:
                    self.trace.released(owner)
        if not self.handles:
            self._modes = None, None
            self._pending.clear()
            self._known.clear()
            self.store.foreign.clear()
            self.store.clear()
            self.finished()

    def unpack(self, packed: Handle | Plain) -> Tensor:
        """The tensor that was saved."""
        if packed.cell is not None and packed.cell[0] != packed.version:
            raise _changed(packed)
        if isinstance(packed, Plain):
            return packed.tensor
        with self.lock:
            self._depth += 1
            try:
                value = packed.value
                if value is None:
                    self._take_in()
                    value = packed.value
                    assert value is not None
                owner = value if value.base is None else value.root
                if not self.trace.is_followed:
                    self.trace.asked(owner)
                array = value.array
                if array is None or value.is_stale():
                    array = self._fetched(value)
                lent = array[...] if array.__class__ is ndarray else array.view()
                owner.lent = ref(lent)
            finally:
                self._depth -= 1
                if self._released:
                    self._take_back()
        tensor = wrap(lent)
        tensor._cell = packed.cell
        if active.get() is self:
            self._remember(lent, value)
        return tensor

    def _fetched(self, value: Value) -> Any:
        """The array of a value that is not there as it was."""
        token = active.set(None)
        mode = get_mode()
        try:
            return self.store.fetch(value)
        except Impossible as error:
            raise _too_small(error.needed, self.store.bound, None) from None
        except Lost:
            raise RuntimeError(_LOST) from None
        finally:
            current.set(mode)
            active.reset(token)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is an ordinary array in memory, and nothing more."""
    if not isinstance(tensor, Tensor) or tensor._overrides or tensor._cell is INFERENCE_CELL:
        return False
    kind = tensor._raw.__class__
    return kind is ndarray or kind in LIBRARIES


def _is_ours(value: Value) -> bool:
    """Whether only we hold the memory of a value that came from elsewhere.

    Beside the name here, an array is held by the value, and an owner by the view of it.
    """
    array = value.array
    if array is None:
        return True
    if getrefcount(array) > ALONE + 1:
        return False
    owner = root(array)
    return owner is array or getrefcount(owner) <= ALONE + 1


def _changed(packed: Handle | Plain) -> RuntimeError:
    """What backward says without a budget, too."""
    node: Any = evaluating.get()
    cell, version = packed.cell, packed.version
    assert cell is not None
    assert version is not None
    made = writes(cell, version)
    if node is None:
        return RuntimeError(
            f"A saved value was modified by an inplace operation since: {', then '.join(made)}."
        )
    name = next((slot[2:] for slot in dir(node)
                 if slot.startswith("s_") and getattr(getattr(node, slot), "data", None) is packed),
                "a value")  # fmt: skip
    shown = packed.tensor if isinstance(packed, Plain) else packed.value
    return errors.changed_in_place(node, name, _Shown(shown), cell[0], made, version)


class _Shown:
    """What an error tells of a value whose array may be gone."""

    def __init__(self, value: Any) -> None:
        self.shape = () if value is None else tuple(value.shape)
        self.dtype = getattr(value, "dtype", "a value")


def _too_small(needed: int, bound: int, line: Any) -> OutOfMemoryError:
    where = "" if line is None else f" ({line}: {line.source})"
    return OutOfMemoryError(
        f"memory_budget: {needed} bytes must be in memory at once{where}, and the budget is "
        f"{bound}; raise it, or make the operation smaller."
    )
