"""Sees operator calls and saved tensors inside a budget, and gives saved values back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy

from pullback.autograd.budget.again import call_again, draw_again, nothing
from pullback.autograd.budget.spill import Spilled, can_spill
from pullback.autograd.budget.store import Impossible, Lost, Store
from pullback.autograd.budget.trace import Trace
from pullback.autograd.budget.values import Call, Given, Outside, Value
from pullback.autograd.budget.values import writes as writes_first
from pullback.core import errors
from pullback.core.arrays import LIBRARIES
from pullback.core.faults import OutOfMemoryError
from pullback.core.mode import changed, current, get_mode
from pullback.core.origin import here
from pullback.core.passes import evaluating
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_leaves
from pullback.core.version import INFERENCE_CELL, own_cell, writes
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


class _NotPlain(Exception):  # noqa: N818  nobody but us sees it
    """An argument is a tensor of a kind that is left alone."""


class Handle:
    """A saved value, in the place of the tensor."""

    __slots__ = ("__weakref__", "_recorder", "array", "cell", "value", "version")

    def __init__(self, recorder: Recorder, tensor: Tensor) -> None:
        self._recorder: Recorder | None = recorder
        self.array: Any = tensor._array  # until it is known what it is
        self.cell = own_cell(tensor)
        self.version = self.cell[0]
        self.value: Value | None = None

    def __del__(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.released(self)


class Plain:
    """A saved tensor of the program's own, or of a kind that is left alone."""

    __slots__ = ("cell", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        # An alias: the tensor itself may be the output of the node that is to keep it.
        is_leaf = tensor.is_leaf
        self.tensor = tensor if is_leaf else tensor.detach()
        self.cell = None if tensor._cell is INFERENCE_CELL else own_cell(tensor)
        self.version = None if self.cell is None else self.cell[0]


class ArrayStore(Store):
    """The store of real arrays."""

    def __init__(self, bound: int, *, spills: bool, folder: str | None) -> None:
        super().__init__(bound, spills=spills)
        self.folder = folder
        self.foreign: dict[Value, None] = {}  # held, but perhaps by the program as well

    def run(self, call: Call, have: dict[Value, Any], *, may_write: bool) -> list[Any]:
        """Call the operator again, as it was called."""
        args = _filled(call.args, have, call.writes and not may_write)
        kwargs = {name: _filled((one,), have, False)[0] for name, one in call.kwargs.items()}
        result = call.run(*args, **kwargs)
        made = result if isinstance(result, tuple | list) else [result]
        return [one._array for one in made]

    def hold(self, value: Value) -> None:
        """Hold the array: not counted until the program lets go of it."""
        tensor = None if value.outside is None else value.outside.tensor()
        if tensor is not None:
            value.array, value.cell = tensor._array, own_cell(tensor)
            if not (tensor.is_leaf and tensor.requires_grad):
                self.foreign[value] = None

    def put_out(self, value: Value) -> None:
        """To a file, or from a device to the host."""
        array = value.array
        if can_spill(array):
            value.file = Spilled(array, self.folder)
            self.counts.seconds += value.file.seconds
            speed = 2 * value.file.seconds / max(value.nbytes, 1)
            self.per_byte = 0.75 * self.per_byte + 0.25 * speed

    def read_back(self, value: Value) -> Any:
        """From where it is."""
        began = time.perf_counter()
        array = value.file.load()
        self.counts.seconds += time.perf_counter() - began
        return array


def _filled(args: Any, have: dict[Value, Any], is_written: bool) -> list[Any]:
    """Arguments with tensors in the places of values."""
    made: list[Any] = []
    for at, one in enumerate(args):
        if isinstance(one, Given):
            made.append(_tensor(one, have, is_copy=is_written and at == 0))
        elif type(one) in (tuple, list):
            made.append(type(one)(_filled(one, have, False)))
        else:
            made.append(one)
    return made


def _tensor(given: Given, have: dict[Value, Any], *, is_copy: bool) -> Tensor:
    value = given.value
    array = have.get(value)
    if array is None and value.outside is not None:
        tensor = value.outside.tensor()
        array = None if tensor is None else tensor._array
    if array is None:
        raise Lost
    made = wrap(array.copy("K") if is_copy else array)
    # An operator may compute otherwise where no gradient is wanted.
    return made.requires_grad_() if given.requires_grad else made


class Recorder:
    """The lineage of values inside one budget; an observer of operators."""

    def __init__(self, store: ArrayStore) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.trace = Trace()
        self.handles = 0
        self.started: Callable[[], None] = lambda: None  # a step is about to save its first value
        self.finished: Callable[[], None] = lambda: None  # all saved values were given back
        self.decide: Callable[[Value], str] = lambda _value: "keep"
        self._known: dict[int, tuple[Any, Value]] = {}
        self._pending: list[Any] = []  # weakly, handles of what an operator has just made
        self._seconds = 0.0
        self._modes: tuple[Any, Any] = (None, None)
        self._released: list[Value | None] = []
        self._depth = 0  # of what must not be disturbed

    # Operators -----------------------------------------------------------------------------------

    def enter(self, op: Any, called: str) -> float:
        """An operator starts."""
        return time.perf_counter()

    def leave(self, token: float, result: Any, operands: Any) -> None:
        """It is over; `noted_call` comes next."""
        self._seconds = time.perf_counter() - token

    def noted_call(self, called: str, run: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Note a call and its results."""
        if active.get() is not self or result is None or get_mode().levels:
            return
        with self:
            self._note(called, call_again(run, self._inside(get_mode())), args, kwargs, result)
            self.catch_up()

    def _inside(self, mode: Any) -> Any:
        """The mode in which calls of another are made again: the same, but saving nothing."""
        if self._modes[0] is not mode:
            hooks = ((nothing, nothing),) if mode.grad else ()
            self._modes = mode, changed(mode, saved_hooks=hooks)
        return self._modes[1]

    def noted_draw(self, op: str, draw: Any, result: Any, state: Any) -> None:
        """Note random numbers that a function drew, whose state before was `state`."""
        if active.get() is not self or not isinstance(result, Tensor) or op not in _BY_SIZE:
            return
        again = draw_again(draw, state)
        if again is not None:
            with self:
                self._note(f"{op} mask", again, (), {}, result)

    def _note(self, called: str, run: Any, args: Any, kwargs: Any, result: Any) -> None:
        made = list(result) if isinstance(result, tuple | list) else [result]
        if not all(_is_plain(one) for one in made):
            return
        read: list[tuple[Any, Value]] = []
        first: list[Any] = []
        if writes_first(called):
            before = self._before_write(args, kwargs)
            if before is None:
                return
            read.append((args[0]._array, before))
            first, args = [Given(before, requires_grad=False)], args[1:]  # leaves are not written
        elif all(self._lookup(one) is not None for one in made):
            return  # the same tensor, or noted by an operator inside
        try:
            filled = (*first, *self._given(args, read))
            named = {name: self._given((one,), read)[0] for name, one in kwargs.items()}
        except _NotPlain:
            return
        call = Call(called, run, filled, named, self._seconds)
        values = [self._made(one, call, read) for one in made]
        roots = dict.fromkeys(value.root for _, value in read)
        own = [value for value in values if value.base is None]
        call.room = sum(one.nbytes for one in (*roots, *own) if one.outside is None)
        self.trace.called(call, values)

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

    def _given(self, args: Any, read: list[tuple[Any, Value]]) -> list[Any]:
        """Arguments with values in the places of tensors."""
        made: list[Any] = []
        for one in args:
            if isinstance(one, Tensor):
                if not (_is_plain(one) or isinstance(one._raw, numpy.generic)):
                    raise _NotPlain
                value = self._value(one)
                read.append((one._array, value))
                made.append(Given(value, requires_grad=one.requires_grad))
            elif type(one) in (tuple, list):
                made.append(type(one)(self._given(one, read)))
            else:
                made.append(one)
        return made

    def _made(self, tensor: Tensor, call: Call, read: list[tuple[Any, Value]]) -> Value:
        array = tensor._array
        owner = root(array)
        value = Value(tensor._cell[0], int(owner.nbytes), tuple(array.shape))
        value.call, value.number = call, len(call.outputs)
        call.outputs.append(ref(value))
        if call.writes:
            before = self._known.get(id(array))
            if before is not None and before[0]() is array:
                self.store.overwritten(before[1])
        else:
            for other, its in read:
                if owner is root(other):
                    value.base = its
                    break
        self._remember(array, value)
        return value

    # What is known of tensors --------------------------------------------------------------------

    def _remember(self, array: Any, value: Value) -> None:
        key, known = id(array), self._known

        def gone(weak: Any) -> None:
            entry = known.get(key)
            if entry is not None and entry[0] is weak:
                del known[key]

        weak = ref(array, gone)
        value.weak = weak
        known[key] = (weak, value)

    def _lookup(self, tensor: Tensor) -> Value | None:
        entry = self._known.get(id(tensor._array))
        if entry is None or entry[0]() is not tensor._array:
            return None
        return entry[1] if entry[1].version == tensor._cell[0] else None

    def _value(self, tensor: Tensor) -> Value:
        value: Value | None
        if isinstance(tensor._raw, numpy.generic):  # one number, which nobody can write to
            value = Value(0, 0, ())
            value.array = tensor._raw
            return value
        value = self._lookup(tensor)
        if value is None:
            value = Value(tensor._cell[0], int(root(tensor._array).nbytes), tuple(tensor.shape))
            value.outside = Outside(tensor)
            self._remember(tensor._array, value)
        return value

    # Saved tensors --------------------------------------------------------------------------------

    def pack(self, tensor: Tensor) -> Handle | Plain:
        """What a node keeps in the place of a tensor."""
        is_leaf = tensor.requires_grad and tensor.is_leaf
        if is_leaf or not _is_plain(tensor) or not tensor._array.size:
            return Plain(tensor)
        with self:
            if not self.handles:
                self.started()
            handle = Handle(self, tensor)
            self.handles += 1
            self._pending.append(ref(handle))
            return handle

    def catch_up(self) -> None:
        """Take in what was saved since the last call, and keep the bound."""
        with self:
            saved: dict[Value, None] = {}
            for weak in self._pending:
                handle = weak()
                if handle is not None and handle.value is None:
                    saved.setdefault(self._saved(handle))
            self._pending.clear()
            self._widen(saved)
            saved |= self.store.foreign
            for value in saved:
                if value.array is None or value in self.store.kept:
                    continue
                if value.outside is not None and not _is_ours(value):
                    self.store.foreign[value] = None
                    continue
                self.store.foreign.pop(value, None)
                if value.outside is not None:
                    self._counted(value)
                self.store.add(value, value.array)
                if self.decide(value) == "drop":
                    self.store.let_go(value)
            try:
                self.store.settle()
            except Impossible as error:
                raise _too_small(error.needed, self.store.bound, here()) from None

    def _widen(self, saved: dict[Value, None]) -> None:
        """What one node saved must be in memory at once when its turn comes."""
        together = sum(value.nbytes for value in saved if value.outside is None)
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
            value.outside = Outside(wrap(array))  # gone at once: it cannot be computed again
            self._remember(array, value)
        handle.value, owner = value, value.root
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

    def __enter__(self) -> None:
        self.lock.acquire()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        try:
            if self._depth == 1:
                self._take_back()
        finally:
            self._depth -= 1
            self.lock.release()

    def _take_back(self) -> None:
        """Forget the values that nobody will ask for again."""
        while self._released:
            value = self._released.pop()
            self.handles -= 1
            if value is not None:
                owner = value.root
                owner.handles -= 1
                if not owner.handles:
                    self.store.forget(owner)
                    self.store.foreign.pop(owner, None)
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
        with self:
            if packed.value is None:
                self.catch_up()
            value = packed.value
            assert value is not None
            self.trace.asked(value.root)
            token = active.set(None)
            mode = get_mode()
            try:
                array = self.store.fetch(value)
            except Impossible as error:
                raise _too_small(error.needed, self.store.bound, None) from None
            except Lost:
                raise RuntimeError(_LOST) from None
            finally:
                current.set(mode)
                active.reset(token)
            lent = array[...] if type(array) is numpy.ndarray else array.view()
            value.root.lent = ref(lent)
            tensor = wrap(lent)
            tensor._cell = packed.cell
            if active.get() is self:
                self._remember(lent, value)
            return tensor


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is an ordinary array in memory, and nothing more."""
    if not isinstance(tensor, Tensor) or tensor._overrides or tensor._cell is INFERENCE_CELL:
        return False
    array = tensor._raw
    return type(array) is numpy.ndarray or type(array) in LIBRARIES


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
