"""What a budget knows of a program: values, and the operator calls that they came from.

A call holds the values that it read, a value the call that made it, so that a value whose array is
gone can be computed again. Nothing here holds an array but `Value.array`, which the store counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ReferenceType, ref

from pullback.core.tensor import Tensor

__all__ = ["Call", "Given", "Outside", "Value", "writes"]


class Outside:
    """A tensor that the program made itself: looked at weakly, so that it can go."""

    __slots__ = ("_tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor: ReferenceType[Tensor] = ref(tensor)
        self.version: Any = tensor._cell[0]

    def tensor(self) -> Tensor | None:
        """The tensor, as it was when it was read; None if it is gone or was written to since."""
        tensor = self._tensor()
        return tensor if tensor is not None and tensor._cell[0] == self.version else None


class Call:
    """An operator call: what runs it again, with values in the places of tensors."""

    __slots__ = (
        *("args", "inputs", "kwargs", "name", "outputs", "room", "run", "seconds", "writes"),
    )

    def __init__(
        self, name: str, run: Callable[..., Any], args: Any, kwargs: Any, seconds: float
    ) -> None:
        self.name, self.run, self.args, self.kwargs = name, run, args, kwargs
        self.seconds = seconds
        self.writes = writes(name)
        # The values that it reads, each once.
        self.inputs = list(dict.fromkeys(inputs_of((args, tuple(kwargs.values())))))
        self.outputs: list[ReferenceType[Value]] = []
        self.room = 0  # bytes of values that it reads and makes


def writes(name: str) -> bool:
    """Whether an operator of this name writes to its first argument."""
    return name.endswith("_") and not name.endswith("__")


def inputs_of(tree: Any) -> Iterator[Value]:
    """Values among arguments, in lists too."""
    for one in tree:
        if isinstance(one, Given):
            yield one.value
        elif type(one) in (tuple, list):
            yield from inputs_of(one)


class Given:
    """A tensor argument: its value, and whether a gradient was wanted of it."""

    __slots__ = ("requires_grad", "value")

    def __init__(self, value: Value, *, requires_grad: bool) -> None:
        self.value = value
        self.requires_grad = requires_grad


class Value:
    """What a tensor held at one version.

    `base` is the value whose memory it looks at, for views; `handles` counts the saved places that
    will ask for it, in the value that owns the memory.
    """

    __slots__ = (
        *("__weakref__", "array", "base", "call", "cell", "file", "handles", "lent", "nbytes"),
        *("number", "outside", "position", "shape", "version", "weak"),
    )

    def __init__(self, version: Any, nbytes: int, shape: tuple[int, ...]) -> None:
        self.version, self.nbytes, self.shape = version, nbytes, shape
        self.array: Any = None  # held by the store
        self.cell: Any = None  # the counter of the memory, once it is saved
        self.weak: Any = None  # the array, as long as the program holds it
        self.call: Call | None = None
        self.number = 0  # which result of the call
        self.base: Value | None = None
        self.outside: Outside | None = None
        self.file: Any = None  # where it was put out to
        self.lent: Any = None  # weakly, what a node has been given of it
        self.handles = 0
        self.position = -1  # in the order of a step

    @property
    def root(self) -> Value:
        """The value that owns the memory."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    def is_stale(self) -> bool:
        """Whether the memory was written to since."""
        return self.cell is not None and self.cell[0] != self.version

    def held(self) -> Any:
        """Its array, if we hold it as it was; else None."""
        return None if self.array is None or self.is_stale() else self.array

    def still(self) -> Any:
        """Its array, if the program happens to hold it as it was; else None."""
        if self.cell is None or self.weak is None or self.is_stale():
            return None
        return self.weak()

    def in_use(self) -> bool:
        """Whether a node of a running pass has it."""
        return self.lent is not None and self.lent() is not None
