"""What a budget knows of a program: values, and the operator calls that they came from.

A call holds the values that it read, a value the call that made it, so that a value whose array is
gone can be computed again. Nothing here holds an array but `Value.array`, which the store counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import ReferenceType

from pullback.core.tensor import Tensor

__all__ = ["Call", "Given", "Value", "writes"]


class Call:
    """An operator call: what runs it again, and in which mode, with values in place of tensors."""

    __slots__ = (
        *("args", "inputs", "kwargs", "mode", "name", "outputs", "room", "run", "seconds"),
        "writes",
    )

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        args: Any,
        kwargs: Any,
        inputs: list[Value],
        mode: Any,
    ) -> None:
        self.name, self.run, self.args, self.kwargs = name, run, args, kwargs
        self.mode, self.seconds = mode, 0.0
        self.writes = writes(name)
        self.inputs = inputs  # the values that it reads, each once
        self.outputs: list[ReferenceType[Value]] = []
        self.room = 0  # bytes of values that it reads and makes


@functools.cache
def writes(name: str) -> bool:
    """Whether an operator of this name writes to its first argument."""
    return name.endswith("_") and not name.endswith("__")


class Given:
    """A tensor argument: its value, and whether a gradient was wanted of it."""

    __slots__ = ("requires_grad", "value")

    def __init__(self, value: Value, requires_grad: bool) -> None:
        self.value = value
        self.requires_grad = requires_grad


class Value:
    """What a tensor held at one version.

    `base` is the value whose memory it looks at, for views; `handles` counts the saved places that
    will ask for it, in the value that owns the memory.
    """

    # Most keep most of these: so an object costs a few stores, and not one for each.
    array: Any = None  # held by the store
    cell: Any = None  # the counter of the memory, once it is saved
    weak: Any = None  # the array, as long as the program holds it
    call: Call | None = None
    base: Value | None = None
    outside: ReferenceType[Tensor] | None = None  # that the program made itself
    file: Any = None  # where it was put out to
    lent: Any = None  # weakly, what a node has been given of it
    handles = 0
    position = -1  # in the order of a step

    def __init__(self, version: Any, nbytes: int, shape: tuple[int, ...]) -> None:
        self.version, self.nbytes, self.shape = version, nbytes, shape

    @property
    def root(self) -> Value:
        """The value that owns the memory."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    def tensor(self) -> Tensor | None:
        """The program's own, as it was when it was read; None if it is gone or was written to."""
        tensor = None if self.outside is None else self.outside()
        return tensor if tensor is not None and tensor._cell[0] == self.version else None

    def is_stale(self) -> bool:
        """Whether the memory was written to since."""
        return self.cell is not None and self.cell[0] != self.version

    def held(self) -> Any:
        """Its array, if we hold it as it was; else None."""
        array, cell = self.array, self.cell
        return None if cell is not None and cell[0] != self.version else array

    def still(self) -> Any:
        """Its array, if the program happens to hold it as it was; else None."""
        if self.cell is None or self.weak is None or self.is_stale():
            return None
        return self.weak()

    def in_use(self) -> bool:
        """Whether a node of a running pass has it."""
        return self.lent is not None and self.lent() is not None
