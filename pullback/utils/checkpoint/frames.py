"""One checkpointed call: placeholders for what it saved, and the re-run that fills them.

The graph is an ordinary one; where a node would keep a tensor it keeps a `Holder`. The first time a
pass needs one of them, the frame runs the function again, and what that saves goes to the holders,
by position. A recomputed tensor belongs to its holder, for one pass and one use, so it goes with
whichever ends first: the use, the node or the pass. The frame knows holders weakly, and holders
know no frame: it is their nodes' unpack hook that does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

from pullback.core.mode import changed, current, settle
from pullback.core.tensor import Tensor
from pullback.utils.checkpoint import errors
from pullback.utils.checkpoint.groups import current_use, is_shared

# Shape, dtype and device of a saved tensor, to compare with the recomputed one.
Metadata = dict[str, Any]


def metadata_of(tensor: Tensor) -> Metadata:
    """What must be the same in a re-run."""
    return {"shape": tuple(tensor.shape), "dtype": tensor.dtype, "device": tensor.device}


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

    def __init__(self) -> None:
        # By use (a pass, as a rule): the recomputed tensor, or None once it was handed out.
        self.values: MutableMapping[Any, Tensor | None] | None = None

    def put(self, use: Any, value: Tensor) -> None:
        """Keep a recomputed tensor until it is asked for."""
        if self.values is None:
            self.values = weakref.WeakKeyDictionary()
        self.values[use] = value

    def take(self, use: Any) -> Tensor:
        """The recomputed tensor, once."""
        if self.values is None or use not in self.values:
            raise errors.never_recomputed()
        value = self.values[use]
        if value is None:
            raise errors.used_by_two_passes() if is_shared(use) else errors.unpacked_twice()
        self.values[use] = None
        return value


class Frame:
    """What one call of a checkpointed function needs to be run again."""

    __slots__ = (
        "checked",
        "early_stop",
        "holders",
        "is_complete",
        "levels",
        "metadata",
        "run_again",
        "uses",
    )

    def __init__(
        self,
        run_again: Callable[[], Any],
        *,
        early_stop: bool,
        check_metadata: bool,
        levels: tuple[Any, ...] = (),
    ) -> None:
        self.run_again = run_again
        self.early_stop = early_stop
        self.checked = check_metadata
        self.levels = levels  # of function transforms, in which the forward runs
        self.holders: list[weakref.ref[Holder]] = []
        self.metadata: list[Metadata] = []
        self.is_complete = False  # whether the forward is done
        self.uses: weakref.WeakSet[Any] = weakref.WeakSet()  # those the function was re-run for

    def pack(self, tensor: Tensor) -> Holder:
        """Forward: drop the tensor, remember its place."""
        holder = Holder()
        self.holders.append(weakref.ref(holder))
        if self.checked:
            self.metadata.append(metadata_of(tensor))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """Backward: the tensor again, after a re-run if this is the first one that is needed."""
        use = current_use()
        if use not in self.uses:
            Rerun(self, use).run()
            self.uses.add(use)
        return holder.take(use)


class Rerun:
    """The function, run again: what it saves goes to the holders of its frame."""

    __slots__ = ("count", "frame", "mismatches", "use")

    def __init__(self, frame: Frame, use: Any) -> None:
        self.frame = frame
        self.use = use
        self.count = 0
        self.mismatches: list[tuple[int, Metadata, Metadata]] = []

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
        holder = frame.holders[position]()
        if holder is not None:
            holder.put(self.use, value)
            if frame.checked:
                self._compare(position, value)
        if frame.early_stop and self.count == len(frame.holders):
            raise StopRecomputation(self)
        return value

    def _compare(self, position: int, value: Tensor) -> None:
        saved, now = self.frame.metadata[position], metadata_of(value)
        if saved != now:
            self.mismatches.append((position, saved, now))

    @staticmethod
    def unpack(value: Tensor) -> Tensor:
        """For a backward that the function itself calls: this graph keeps its tensors."""
        return value
