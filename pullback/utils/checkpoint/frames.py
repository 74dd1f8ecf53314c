"""One checkpointed call: placeholders for what it saved, and the re-run that fills them.

The graph is an ordinary one; where a node would keep a tensor it keeps a `Holder`. The first time a
pass needs one of them, the frame runs the function again, and what that saves goes to the holders,
by position. A recomputed tensor belongs to its holder, for one pass and one use, so it goes with
whichever ends first: the use, the node or the pass. The frame knows holders weakly, and holders
know no frame: it is their nodes' unpack hook that does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from numpy import ndarray

from pullback.core.arrays import Array
from pullback.core.device import CPU
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import changed, current, settle
from pullback.core.tensor import Tensor
from pullback.core.version import writes
from pullback.utils.checkpoint import errors
from pullback.utils.checkpoint.groups import current_use, is_shared

# Shape, dtype and device of a saved tensor, to compare with the recomputed one.
Metadata = dict[str, Any]


def metadata_of(tensor: Tensor) -> Metadata:
    """What must be the same in a re-run."""
    return {"shape": tuple(tensor.shape), "dtype": tensor.dtype, "device": tensor.device}


class Looks:
    """The same of a tensor on the host, which most are, without asking for it in our own types."""

    __slots__ = ("dtype", "shape")

    def __init__(self, array: Array) -> None:
        self.shape, self.dtype = array.shape, array.dtype

    def metadata(self) -> Metadata:
        """In the user's words."""
        return {"shape": self.shape, "dtype": from_numpy_dtype(self.dtype), "device": CPU}


class StopRecomputation(BaseException):
    """Ends a re-run that has produced all that is needed. No user's `except Exception` catches it.

    Re-runs nest, so it says whose it is.
    """

    def __init__(self, rerun: Rerun) -> None:
        super().__init__()
        self.rerun = rerun


class Holder:
    """Stands in a node for a tensor that the forward saved."""

    __slots__ = ("__weakref__", "values")

    # By the id of a use (a pass, as a rule): a weak reference to it, the recomputed tensor, or None
    # once it was handed out, and its version when it was saved, or None where writes are allowed.
    # A WeakKeyDictionary takes eight calls where this takes none.
    values: dict[int, tuple[weakref.ref[Any], Tensor | None, int | None]]

    def put(self, use: Any, value: Tensor, *, watching: bool) -> None:
        """Keep a recomputed tensor until it is asked for, or until its use is over."""
        over = weakref.ref(use, partial(_forget, weakref.ref(self), id(use)))
        self.values[id(use)] = (over, value, value._cell[0] if watching else None)

    def take(self, use: Any) -> Tensor:
        """The recomputed tensor, once."""
        known, value, version = self.values.get(id(use), _NOBODY)
        if known() is not use:
            raise errors.never_recomputed()
        if value is None:
            raise errors.used_by_two_passes() if is_shared(use) else errors.unpacked_twice()
        self.values[id(use)] = (weakref.ref(use), None, None)
        if version is not None and value._cell[0] != version:
            _refuse_written(value, version)
        return value


def _refuse_written(tensor: Tensor, version: int) -> None:
    """Raise if operators wrote to a tensor since.

    Whoever frees its memory and fills it again with what was there (fully_shard) counts a write,
    too, and names none.
    """
    if made := writes(tensor._cell, version):
        raise errors.overwritten(tensor.shape, tensor.dtype, made)


def _forget(holder: weakref.ref[Holder], key: int, over: Any) -> None:
    """Drop what was recomputed for a use that is over."""
    alive = holder()
    if alive is not None:
        alive.values.pop(key, None)


_NOBODY: tuple[Callable[[], Any], None, None] = (lambda: None, None, None)
_new = object.__new__


class Frame:
    """What one call of a checkpointed function needs to be run again."""

    __slots__ = (
        "cells",
        "checked",
        "early_stop",
        "holders",
        "is_complete",
        "last",
        "levels",
        "metadata",
        "run_again",
        "uses",
        "versions",
        "watching",
    )

    def __init__(
        self,
        run_again: Callable[[], Any],
        *,
        early_stop: bool,
        check_metadata: bool,
        watching: bool = True,
        levels: tuple[Any, ...] = (),
    ) -> None:
        self.run_again = run_again
        self.early_stop = early_stop
        self.checked = check_metadata
        self.watching = watching  # whether writes to what was saved are found
        self.levels = levels  # of function transforms, in which the forward runs
        self.holders: list[weakref.ref[Holder]] = []
        self.metadata: list[Looks | Metadata] = []
        self.cells: list[Any] = []  # the counters of what the holders stand for
        # Of these when the forward was done. Those of what the function found, and did not make,
        # are the same ones in a re-run.
        self.versions: list[int] = []
        self.is_complete = False  # whether the forward is done
        self.uses: weakref.WeakSet[Any] = weakref.WeakSet()  # those the function was re-run for
        self.last: weakref.ref[Any] | None = None  # of these

    def pack(self, tensor: Tensor) -> Holder:
        """Forward: drop the tensor, remember its place."""
        holder = _new(Holder)
        holder.values = {}
        self.holders.append(weakref.ref(holder))
        cell = tensor._cell
        if cell.__class__ is tuple:  # `own_cell` in line
            cell = tensor._cell = [*cell]
        self.cells += (cell,)
        if self.checked:
            plain = tensor.__class__ is Tensor and type(tensor._array) is ndarray
            self.metadata.append(Looks(tensor._array) if plain else metadata_of(tensor))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """Backward: the tensor again, after a re-run if this is the first one that is needed."""
        use = current_use()
        last = self.last
        if (last is None or last() is not use) and use not in self.uses:
            Rerun(self, use).run()
            self.uses.add(use)
            self.last = weakref.ref(use)
        return holder.take(use)


class Rerun:
    """The function, run again: what it saves goes to the holders of its frame."""

    __slots__ = ("count", "frame", "mismatches", "use", "written")

    def __init__(self, frame: Frame, use: Any) -> None:
        self.frame = frame
        self.use = use
        self.count = 0
        self.mismatches: list[tuple[int, Metadata, Metadata]] = []
        now: list[int] = []
        for cell in frame.cells:
            now += cell[:1]
        self.written = now != frame.versions  # whether anything was, since the forward

    def run(self) -> None:
        """Fill the holders, and check that it was the same function as before."""
        before = settle()
        levels = self.frame.levels
        closed = [level for level in levels if not getattr(level, "open", True)]
        # Grad mode is off in a pass. Other hooks of the caller are none of this function's.
        hooks = ((self.pack, self.unpack),)
        current.set(changed(before, grad=True, saved_hooks=hooks, levels=levels))
        for level in closed:  # a pass after vmap: the function runs inside of it all the same
            level.open = True
        try:
            self.frame.run_again()
        except StopRecomputation as stop:
            if stop.rerun is not self:
                raise
        finally:
            for level in closed:
                level.open = False
            current.set(before)
        expected = len(self.frame.holders)
        too_many = self.count > expected and self.frame.is_complete
        if self.count < expected or too_many:
            raise errors.different_count(expected, self.count)
        if self.mismatches:
            raise errors.different_metadata(self.mismatches)

    def pack(self, tensor: Tensor) -> Tensor:
        """Give a saved tensor to its holder, if that is still waiting for it."""
        frame, position = self.frame, self.count
        self.count += 1
        # Without history the object itself is kept, as the user may know it again.
        value = tensor if tensor._node is None else tensor._alias()
        if position >= len(frame.holders):
            return value
        if self.written and frame.versions and tensor._cell is frame.cells[position]:
            _refuse_written(tensor, frame.versions[position])
        holder = frame.holders[position]()
        if holder is not None:
            holder.put(self.use, value, watching=frame.watching)
            if frame.checked:
                saved, array = frame.metadata[position], value._array
                alike = (
                    isinstance(saved, Looks)
                    and type(array) is ndarray
                    and saved.shape == array.shape
                    and saved.dtype is array.dtype
                )
                if not alike:
                    self._compare(position, value)
        if frame.early_stop and self.count == len(frame.holders):
            raise StopRecomputation(self)
        return value

    def _compare(self, position: int, value: Tensor) -> None:
        known, now = self.frame.metadata[position], metadata_of(value)
        saved = known.metadata() if isinstance(known, Looks) else known
        if saved != now:
            self.mismatches.append((position, saved, now))

    @staticmethod
    def unpack(value: Tensor) -> Tensor:
        """For a backward that the function itself calls: this graph keeps its tensors."""
        return value
