"""Plans of cuDNN: a convolution of given shapes, described, chosen and prepared once.

A plan is made through cuDNN's graph interface: tensors, the convolution and the operation are
described, the heuristics name engines in their order, and the first that is as exact as it must be,
and whose workspace is not too large, is prepared. Nothing is timed: the same program takes the
same engine each time. The older interface looks all of this up in every call (100 us of the host).
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "DATA_TYPES",
    "Geometry",
    "Plan",
    "RefusedError",
    "Wanted",
    "checked",
    "find_library",
    "planned",
]

DATA_TYPES = {"f": 0, "d": 1, "e": 2, "E": 9}  # by character of the dtype: cuDNN's number for it
_NAMES = ("libcudnn.so.9", "cudnn64_9.dll")
_MOST_WORKSPACE = 1 << 30  # bytes
_CROSS_CORRELATION = 1

# Types of attributes.
_HANDLE, _DATA_TYPE, _INT64, _FLOAT, _DOUBLE, _POINTER = 0, 1, 3, 4, 5, 6
_CONVOLUTION_MODE, _HEURISTICS, _NOTE, _DESCRIPTOR = 7, 8, 11, 15
# Kinds of descriptors.
_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTIC, _PLAN = 1, 2, 3, 4, 5
_GRAPH, _PACK, _TENSOR = 15, 16, 17
# Heuristics in the order in which they are asked: a decision tree, then whatever computes it.
_MODES = 3, 2
# What an engine says of its arithmetic.
_TENSOR_CORES, _NARROWS_INPUTS, _NARROW_SUMS, _VARIES, _MOST_NOTES = 0, 1, 2, 4, 10

# A direction: the kind of its descriptor, the first of its attributes (factor, old result's factor,
# convolution), and attributes of filters, images and results.
_DIRECTIONS = {
    "forward": (10, 700, {"weight": 703, "x": 704, "y": 705}),
    "data": (12, 706, {"weight": 709, "x": 710, "y": 711}),
    "filter": (11, 712, {"weight": 715, "x": 716, "y": 717}),
}
# Who is number 1, 2 and 3 in a direction: operands, then the result.
_ORDER = {
    "forward": ("x", "weight", "y"),
    "data": ("weight", "y", "x"),
    "filter": ("x", "y", "weight"),
}


class Geometry(NamedTuple):
    """How windows lie: the options of a convolution, padding as (before, after)."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


class Wanted(NamedTuple):
    """What programs ask of the arithmetic."""

    exact: bool  # full single precision: no TensorFloat-32
    deterministic: bool


class Plan:
    """One call but for the addresses; its descriptors live as long as it."""

    __slots__ = ("_channels", "_kept", "_library", "_memory", "_one", "_plan", "_result", "_zero")

    def __init__(self, library: Any, kept: _Descriptors, plan: Any, memory: int) -> None:
        self._library, self._kept, self._plan, self._memory = library, kept, plan, memory
        self._channels: Any = None
        self._result: Any = None
        self._one: Any = None

    def run(self, cupy: Any, handle: Any, *addresses: int) -> None:
        """Queue it on the handle's stream; its workspace goes back to the pool at once."""
        library, pack = self._library, c_void_p()
        room = cupy.ndarray((self._memory,), "u1") if self._memory else None
        at = c_void_p(0 if room is None else room.data.ptr)
        checked("a call", library.cudnnBackendCreateDescriptor(_PACK, byref(pack)))
        try:
            put = library.cudnnBackendSetAttribute
            status = put(pack, 1000, _INT64, 3, _NUMBERS)
            status = status or put(pack, 1001, _POINTER, 3, (c_void_p * 3)(*addresses))
            status = status or put(pack, 1003, _POINTER, 1, byref(at))
            status = status or library.cudnnBackendFinalize(pack)
            checked(
                "a convolution", status or library.cudnnBackendExecute(handle, self._plan, pack)
            )
        finally:
            library.cudnnBackendDestroyDescriptor(pack)

    def adds(self, char: str, shape: tuple[int, ...]) -> Plan:
        """The same plan, prepared to add a number to each channel of results of `shape`."""
        kind, ones = DATA_TYPES[char], (1,) * (len(shape) - 2)
        self._one = (c_double if char == "d" else c_float)(1)
        self._result = _older_tensor(self._library, kind, shape)
        self._channels = _older_tensor(self._library, kind, (1, shape[1], *ones))
        return self

    def add(self, handle: Any, bias: int, out: int) -> None:
        """Add a number for each channel to the result."""
        one = byref(self._one)
        status = self._library.cudnnAddTensor(
            handle, one, self._channels, bias, one, self._result, out
        )
        checked("cudnnAddTensor", status)

    def __del__(self) -> None:
        for one in (self._channels, self._result):
            if one is not None:
                self._library.cudnnDestroyTensorDescriptor(one)


_NUMBERS = (c_int64 * 3)(1, 2, 3)


class _Descriptors:
    """Descriptors that are given back together."""

    __slots__ = ("_known", "_library")

    def __init__(self, library: Any) -> None:
        self._library, self._known = library, []  # type: Any, list[Any]

    def new(self, kind: int) -> Any:
        made = c_void_p()
        checked("a descriptor", self._library.cudnnBackendCreateDescriptor(kind, byref(made)))
        self._known.append(made)
        return made

    def put(self, at: Any, name: int, kind: int, *values: Any) -> None:
        """Set an attribute."""
        ctype = _CTYPES[kind]
        given = (ctype * len(values))(*values)
        status = self._library.cudnnBackendSetAttribute(at, name, kind, len(values), given)
        checked(f"attribute {name}", status)

    def end(self, made: Any) -> Any:
        checked("a description", self._library.cudnnBackendFinalize(made))
        return made

    def __del__(self) -> None:
        for one in reversed(self._known):
            self._library.cudnnBackendDestroyDescriptor(one)


_CTYPES: dict[int, Any] = {
    _HANDLE: c_void_p,
    _DATA_TYPE: c_int,
    _INT64: c_int64,
    _FLOAT: c_float,
    _DOUBLE: c_double,
    _CONVOLUTION_MODE: c_int,
    _HEURISTICS: c_int,
    _NOTE: c_int,
    _DESCRIPTOR: c_void_p,
}


class RefusedError(RuntimeError):
    """CuDNN does not take a description, or has no engine for it."""


def planned(
    library: Any,
    handle: Any,
    direction: str,
    char: str,
    shapes: dict[str, tuple[int, ...]],
    geometry: Geometry,
    wanted: Wanted,
) -> Plan | None:
    """The plan by the first engine that will do; None where there is none."""
    made = _Descriptors(library)
    try:
        graph = _graph(made, handle, direction, char, shapes, geometry)
        for mode in _MODES:
            for configuration in _configurations(made, graph, mode):
                if not _will_do(made, configuration, char, wanted):
                    continue
                found = _prepared(made, handle, configuration)
                if found is not None:
                    return Plan(library, made, *found)
    except RefusedError:
        pass
    return None


def _graph(
    made: _Descriptors,
    handle: Any,
    direction: str,
    char: str,
    shapes: dict[str, tuple[int, ...]],
    geometry: Geometry,
) -> Any:
    kind, first, attributes = _DIRECTIONS[direction]
    numbers = {name: number for number, name in enumerate(_ORDER[direction], 1)}
    operation = made.new(kind)
    factor = _DOUBLE if char == "d" else _FLOAT
    made.put(operation, first, factor, 1.0)
    made.put(operation, first + 1, factor, 0.0)
    made.put(operation, first + 2, _DESCRIPTOR, _convolution(made, char, geometry))
    for name, attribute in attributes.items():
        tensor = _tensor(made, char, spatial(shapes[name]), numbers[name])
        made.put(operation, attribute, _DESCRIPTOR, tensor)
    graph = made.new(_GRAPH)
    made.put(graph, 800, _HANDLE, handle)
    made.put(graph, 801, _DESCRIPTOR, made.end(operation))
    return made.end(graph)


def _tensor(made: _Descriptors, char: str, shape: tuple[int, ...], number: int) -> Any:
    tensor = made.new(_TENSOR)
    made.put(tensor, 901, _DATA_TYPE, DATA_TYPES[char])
    made.put(tensor, 902, _INT64, *shape)
    made.put(tensor, 903, _INT64, *_in_order(shape))
    made.put(tensor, 906, _INT64, number)
    made.put(tensor, 900, _INT64, ALIGNMENT)
    return made.end(tensor)


# Bytes of which addresses are multiples; arrays that lie otherwise are not for cuDNN.
ALIGNMENT = 16


def _convolution(made: _Descriptors, char: str, geometry: Geometry) -> Any:
    stride, dilation = list(geometry.stride), list(geometry.dilation)
    before, after = map(list, zip(*geometry.padding, strict=True))
    if len(stride) == 1:
        stride, dilation, before, after = [1, *stride], [1, *dilation], [0, *before], [0, *after]
    convolution = made.new(_CONVOLUTION)
    made.put(convolution, 100, _DATA_TYPE, 1 if char == "d" else 0)  # halves: in single
    made.put(convolution, 101, _CONVOLUTION_MODE, _CROSS_CORRELATION)
    for name, values in ((102, dilation), (103, stride), (104, after), (105, before)):
        made.put(convolution, name, _INT64, *values)
    made.put(convolution, 106, _INT64, len(stride))
    return made.end(convolution)


def _configurations(made: _Descriptors, graph: Any, mode: int) -> Iterator[Any]:
    """Engines with their settings, the most promising first."""
    heuristic = made.new(_HEURISTIC)
    made.put(heuristic, 201, _DESCRIPTOR, graph)
    made.put(heuristic, 200, _HEURISTICS, mode)
    library, count = made._library, c_int64()
    if library.cudnnBackendFinalize(heuristic):
        return
    get = library.cudnnBackendGetAttribute
    checked("heuristics", get(heuristic, 202, _DESCRIPTOR, 0, byref(count), None))
    found = (c_void_p * count.value)(*(made.new(_CONFIGURATION).value for _ in range(count.value)))
    checked("heuristics", get(heuristic, 202, _DESCRIPTOR, count.value, byref(count), found))
    yield from map(c_void_p, found[: count.value])


def _will_do(made: _Descriptors, configuration: Any, char: str, wanted: Wanted) -> bool:
    """Whether an engine's arithmetic is as exact, and its sums in the order, as they must be."""
    get, count = made._library.cudnnBackendGetAttribute, c_int64()
    engine = (c_void_p * 1)(made.new(_ENGINE).value)
    if get(configuration, 300, _DESCRIPTOR, 1, byref(count), engine):
        return False
    notes = (c_int * _MOST_NOTES)()
    if get(engine[0], 1303, _NOTE, _MOST_NOTES, byref(count), notes):
        return False
    refused = {_NARROW_SUMS}
    if char in "fd":
        refused.add(_NARROWS_INPUTS)
    if char == "f" and wanted.exact:
        refused.add(_TENSOR_CORES)
    if wanted.deterministic:
        refused.add(_VARIES)
    return refused.isdisjoint(notes[: count.value])


def _prepared(made: _Descriptors, handle: Any, configuration: Any) -> tuple[Any, int] | None:
    plan = made.new(_PLAN)
    made.put(plan, 400, _HANDLE, handle)
    made.put(plan, 401, _DESCRIPTOR, configuration)
    if made._library.cudnnBackendFinalize(plan):
        return None
    count, memory = c_int64(), c_int64()
    get = made._library.cudnnBackendGetAttribute
    checked("its workspace", get(plan, 402, _INT64, 1, byref(count), byref(memory)))
    return None if memory.value > _MOST_WORKSPACE else (plan, memory.value)


def spatial(shape: Any) -> tuple[int, ...]:
    """With two spatial dimensions at the least: cuDNN has no fewer."""
    shape = tuple(map(int, shape))
    return shape if len(shape) > 3 else (*shape[:2], 1, *shape[2:])


def _in_order(shape: tuple[int, ...]) -> list[int]:
    steps = [1]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * n)
    return steps[::-1]


def _older_tensor(library: Any, kind: int, shape: Any) -> Any:
    """A tensor as functions outside of graphs describe it."""
    shape = spatial(shape)
    made, numbers = c_void_p(), c_int * len(shape)
    checked("a tensor", library.cudnnCreateTensorDescriptor(byref(made)))
    given = len(shape), numbers(*shape), numbers(*_in_order(shape))
    checked("a tensor", library.cudnnSetTensorNdDescriptor(made, kind, *given))
    return made


def checked(what: str, status: int) -> None:
    """Raise where cuDNN says that it could not."""
    if status:
        raise RefusedError(f"cuDNN could not do {what}: status {status}.")


def find_library() -> Any:
    """Version 9, with the types of what is called; None where it is not there."""
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        address, number = c_void_p, c_int
        for name, given in (
            ("CreateDescriptor", (number, address)),
            ("DestroyDescriptor", (address,)),
            ("Finalize", (address,)),
            ("SetAttribute", (address, number, number, c_int64, address)),
            ("GetAttribute", (address, number, number, c_int64, address, address)),
            ("Execute", (address, address, address)),
        ):
            getattr(library, f"cudnnBackend{name}").argtypes = given
        library.cudnnAddTensor.argtypes = (address,) * 7
        for name in ("Tensor", "RNN", "RNNData", "Dropout"):
            getattr(library, f"cudnnDestroy{name}Descriptor").argtypes = (address,)
        library.cudnnGetVersion.restype = c_size_t
        return library
    return None


def _candidates() -> list[str]:
    """Where it may lie: in the package of pip, which torch takes as well, or where systems look."""
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:  # no package of that vendor
        spec = None
    folders = () if spec is None else spec.submodule_search_locations or ()
    parts = [Path(folder) / part for folder in folders for part in ("lib", "bin")]
    return [*(str(part / name) for part in parts for name in _NAMES), *_NAMES]
