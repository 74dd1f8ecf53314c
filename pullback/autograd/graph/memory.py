"""What a graph keeps in memory: every saved value with its node, size and the user's line."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.graph.table import as_html
from pullback.core.arrays import LIBRARIES
from pullback.core.dtype import from_numpy_dtype
from pullback.core.home import is_ours
from pullback.core.node import AccumulateGrad, Node, node_and_number, walk
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.operators.arrays.strides import root

if TYPE_CHECKING:
    from pullback.autograd.answers.report import Report

__all__ = ["MemoryMap", "memory_map"]


@dataclass(slots=True)
class Entry:
    """One block of memory that the graph keeps alive."""

    node: str
    name: str
    shape: tuple[int, ...]
    dtype: Any
    bytes: int  # of the whole block, of which the value may be a part
    place: str  # of the user's line that saved it first
    others: list[str] = field(default_factory=list)  # who else holds the block
    module: str = ""  # `body.2: Linear(9, 2)`, where params were given
    parameter: str = ""  # the name of the parameter that it is

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes entries of two maps the same."""
        return self.node, self.name, self.shape, self.dtype, self.place

    @property
    def label(self) -> str:
        """Whose it is, in a few words."""
        return self.parameter or self.module or self.node.removeprefix("torch::autograd::")

    def told(self) -> list[str]:
        """How large it is, what it is and who keeps it, without the label's words."""
        dtype = str(self.dtype).removeprefix("torch.")
        kept = "a leaf" if self.node.endswith("AccumulateGrad") else f"saved as {self.name}"
        if self.label != self.node and kept != "a leaf":
            kept = f"{self.node}, {kept}"
        size = f"{shown_bytes(self.bytes)}, {dtype}{list(self.shape)}"
        return [size, kept, *([self.place] if self.place else [])]

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        dtype = str(self.dtype).removeprefix("torch.")
        held = ", ".join(dict.fromkeys(self.others))
        value = f"{dtype}{list(self.shape)}"
        module = self.parameter or self.module
        return shown_bytes(self.bytes), module, self.node, self.name, value, self.place, held


_HEADER = ("bytes", "module", "node", "saved as", "value", "line", "also held by")


class MemoryMap:
    """Blocks of memory, largest first; `a - b` is what `a` has more than `b`.

    >>> import pullback as torch
    >>> x = torch.ones(100, requires_grad=True)
    >>> def kept(steps):
    ...     y = x
    ...     for _ in range(steps):
    ...         y = y.exp()
    ...     return torch.autograd.graph.memory_map(y)
    >>> kept(1).total, (kept(3) - kept(1)).total
    (800, 800)
    """

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = sorted(entries, key=lambda entry: -entry.bytes)

    @property
    def total(self) -> int:
        """Bytes in all, each block counted once."""
        return sum(entry.bytes for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __sub__(self, other: MemoryMap) -> MemoryMap:
        known: dict[tuple[Any, ...], int] = {}
        for entry in other.entries:
            known[entry.key] = known.get(entry.key, 0) + 1
        more = []
        for entry in self.entries:
            if known.get(entry.key, 0):
                known[entry.key] -= 1
            else:
                more.append(entry)
        return MemoryMap(more)

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes of each module, largest first; parameters count to theirs."""
        sums: dict[str, int] = {}
        for entry in self.entries:
            key = entry.module or entry.parameter
            sums[key] = sums.get(key, 0) + entry.bytes
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = [entry.cells() for entry in self.entries]
        if any(row[1] for row in rows):
            return _HEADER, rows
        return (_HEADER[0], *_HEADER[2:]), [(row[0], *row[2:]) for row in rows]

    def _total(self) -> str:
        return f"{shown_bytes(self.total)} in {len(self)} blocks"

    def __repr__(self) -> str:
        header, found = self._rows()
        rows = [header, *found]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"total {self._total()}"])

    def _repr_html_(self) -> str:
        return as_html(self._total(), *self._rows())

    def page(self, title: str = "what the graph keeps in memory") -> Report:
        """The map as a page: a treemap of all blocks, coloured by module, and the table."""
        from pullback.autograd.answers.report import Report, Tile, table, treemap  # slow to load

        tiles = [
            Tile(entry.bytes, entry.label, "\n".join(entry.told()), entry.module or entry.node)
            for entry in self.entries
        ]
        return Report(title, f"<p>{self._total()}</p>{treemap(tiles)}{table(*self._rows())}")

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the page as an .html file."""
        return self.page().save(path)


def shown_bytes(count: float) -> str:
    """`3.906 KiB`."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def memory_map(*roots: Tensor, params: Any = None) -> MemoryMap:
    """What the graph of these tensors keeps in memory: saved values, and the leaves they lead to.

    `params` (a module, a dict, or pairs) names parameters, and the modules whose nodes keep a
    value; `save("memory.html")` draws the map as areas.

    >>> import pullback as torch
    >>> x = torch.ones(1000, requires_grad=True)
    >>> torch.autograd.graph.memory_map(x.exp().sum()).total
    8000
    """
    names = ModuleNames(params)
    blocks: dict[int, Entry] = {}
    # Leaves first, then as they were made: a block belongs to who kept it first.
    nodes = list(walk(node_and_number(edge_of(one))[0] for one in roots))
    paths = names.paths(nodes) if names else {}
    for node in sorted(nodes, key=lambda one: -one._seq):
        for entry in _add_node(blocks, node):
            entry.module = names.of_node(node, paths.get(node))
            if isinstance(node, AccumulateGrad):
                entry.parameter = names.of_tensor(node.variable)
    return MemoryMap(list(blocks.values()))


def _add_node(blocks: dict[int, Entry], node: Any) -> Iterator[Entry]:
    """Count what a node keeps; the blocks that nobody kept before."""
    name = type(node).name(node)
    place = str(node._origin) if node._origin is not None else ""
    for saved_as, array, owner in saved_values(node):
        key, size = _block(array)
        entry = blocks.get(key)
        if entry is None:
            dtype = from_numpy_dtype(array.dtype)
            entry = blocks[key] = Entry(name, saved_as, array.shape, dtype, size, place)
            yield entry
        else:
            entry.others.append(name)
        if owner is not None:
            entry.others.append(owner)


def _block(array: Any) -> tuple[Any, int]:
    """What is the same for all views of one block of memory, and the bytes of the block."""
    library = LIBRARIES.get(type(array))
    if library is not None:
        return library.block(array)
    whole = root(array)
    return id(whole), int(whole.nbytes)


def holders_on(number: int) -> list[tuple[int, str]]:
    """What holds memory on a device, most first: bytes, and a line's values or tensors in words.

    For the error that says that there is none left. Graphs and tensors are found among all objects
    that Python's collector knows, so nobody has to be asked for their roots.
    """
    objects = gc.get_objects()
    # By their type: isinstance asks objects of others for `__class__`, and some do things then.
    nodes = sorted(
        (one for one in objects if issubclass(type(one), Node)), key=lambda one: -one._seq
    )
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    known: set[Any] = set()

    def add(array: Any, what: str, place: str) -> None:
        if type(array) not in LIBRARIES or array.device.id != number:
            return
        key, size = _block(array)
        if key not in known:
            known.add(key)
            count, total = sums.get((what, place), (0, 0))
            sums[what, place] = count + 1, total + size

    for one in objects:  # a parameter is no value that a graph keeps
        if issubclass(type(one), Tensor) and one.requires_grad and one.is_leaf:
            add(one._raw, "parameters and other leaves", "")
    for node in nodes:
        place = "" if node._origin is None else f" at {node._origin}"
        for name, array, _ in saved_values(node):
            add(array, f"{type(node).name(node)}: its `{name}`", place)
    for one in objects:
        if issubclass(type(one), Tensor):
            add(one._raw, f"tensors of shape {tuple(one._raw.shape)} that no graph keeps", "")
    told = [
        (total, f"{what}{place}" if count == 1 else f"{what}{place}, {count} times")
        for (what, place), (count, total) in sums.items()
    ]
    return sorted(told, reverse=True)


def saved_values(node: Node) -> Iterator[tuple[str, Any, str | None]]:
    """Name, array and other owner of each value that a node keeps."""
    if isinstance(node, AccumulateGrad):
        yield "variable", node.variable._array, "the leaf"
        return
    inner = getattr(node, "inner", None)
    if isinstance(inner, Node):  # a write to a view keeps the written operator's node
        yield from saved_values(inner)
    for slot in _slots(type(node)):
        if slot.startswith("s_"):
            for array, owner in _arrays(getattr(node, slot, None)):
                yield slot[2:], array, owner
    for array, owner in _arrays(getattr(node, "_saved", None)):
        yield "saved_tensors", array, owner
    for name, value in getattr(node, "__dict__", {}).items():  # what a forward put on its ctx
        if not name.startswith("_"):
            for array, owner in _arrays(value):
                yield name, array, owner


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _arrays(value: Any) -> Iterator[tuple[Any, str | None]]:
    if isinstance(value, numpy.ndarray) or type(value) in LIBRARIES:
        yield value, None
    elif isinstance(value, Tensor):
        yield value._array, "the leaf" if value.requires_grad and value.is_leaf else None
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _arrays(one)
    else:
        for attribute in ("tensor", "array", "packed", "data"):
            if is_ours(type(value)) and hasattr(value, attribute):
                yield from _arrays(getattr(value, attribute))
                return


ports.fill(memory_holders=holders_on)
