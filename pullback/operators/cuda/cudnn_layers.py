"""A recurrent layer in one direction by cuDNN: LSTM and GRU, forward and back.

Weights lie one behind the other in one piece of memory there: those of inputs, of states, then both
biases, in torch's order of gates. That this is so is asked of the library once for each layer.
Arrays are (time, batch, features) in order; what runs from the last time on is turned round.
"""

from __future__ import annotations

from ctypes import byref, c_float, c_int, c_size_t, c_ulonglong, c_void_p
from typing import Any, NamedTuple

from pullback.operators.cuda.cudnn_plans import DATA_TYPES, RefusedError, checked

__all__ = ["Layers", "Shape"]

_KINDS = {"LSTM": (2, 4), "GRU": (3, 3)}  # the library's number, and gates
_LINEAR, _ONE_DIRECTION, _BOTH_BIASES, _NO_BIAS = 0, 0, 2, 0
# Narrow layers can keep their weights in registers for all times: a third of the time at width 64.
# Sigmoids are approximate then (errors of 1e-5): it is for those who allow TensorFloat-32.
_STANDARD, _IN_REGISTERS, _WIDEST = 0, 3, 128
_DEFAULT_MATH, _FMA = 0, 3
_MOST_KNOWN = 256


class Shape(NamedTuple):
    """What a layer's descriptors depend on."""

    device: int
    kind: str
    char: str
    times: int
    batch: int
    inputs: int
    width: int
    has_bias: bool
    exact: bool


class Layers:
    """Layers by their shapes; `owner` has the library, and a handle for each thread."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._known: dict[Shape, _Layer | None] = {}

    def layer(self, kind: str, x: Any, width: int, *, has_bias: bool, exact: bool) -> Any:
        """What computes a layer of such inputs; None where the library does not."""
        owner = self._owner
        library = owner.library()
        if library is None or x.dtype.char not in DATA_TYPES:
            return None
        times, batch, inputs = x.shape
        number = owner.cupy.cuda.runtime.getDevice()
        key = Shape(number, kind, x.dtype.char, times, batch, inputs, width, has_bias, exact)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            made = self._known[key] = self._made(library, key)
            return made

    def _made(self, library: Any, shape: Shape) -> _Layer | None:
        """By the quickest algorithm that takes such shapes: which ones it does not is not told."""
        narrow = shape.width <= _WIDEST and shape.char == "f" and not shape.exact
        for algorithm in (_IN_REGISTERS, _STANDARD) if narrow else (_STANDARD,):
            made = _Layer(self._owner, library, shape, algorithm)
            if made.is_as_expected() and (algorithm == _STANDARD or made.does()):
                return made
        return None


class _Layer:
    """Descriptors of one shape, and the calls."""

    def __init__(self, owner: Any, library: Any, shape: Shape, algorithm: int) -> None:
        self._owner, self._library, self._shape = owner, library, shape
        self._made: list[tuple[str, Any]] = []
        kind, self._gates = _KINDS[shape.kind]
        handle, number = owner.handle(), DATA_TYPES[shape.char]
        dropout = self._new("Dropout")
        checked("no dropout", library.cudnnSetDropoutDescriptor(
            dropout, handle, c_float(0), None, c_size_t(0), c_ulonglong(0)
        ))  # fmt: skip
        self._net = self._new("RNN")
        math = _FMA if shape.exact and shape.char == "f" else _DEFAULT_MATH
        bias = _BOTH_BIASES if shape.has_bias else _NO_BIAS
        checked("a recurrent layer", library.cudnnSetRNNDescriptor_v8(
            self._net, algorithm, kind, bias, _ONE_DIRECTION, _LINEAR, number,
            1 if shape.char == "d" else 0, math, shape.inputs, shape.width, shape.width, 1,
            dropout, 0,
        ))  # fmt: skip
        self._x, self._y = self._rows(shape.inputs), self._rows(shape.width)
        self._state = self._new("Tensor")
        sides = (1, shape.batch, shape.width), (shape.batch * shape.width, shape.width, 1)
        checked("a state", library.cudnnSetTensorNdDescriptor(
            self._state, number, 3, *((c_int * 3)(*one) for one in sides)
        ))  # fmt: skip
        size = c_size_t()
        checked("weights", library.cudnnGetRNNWeightSpaceSize(handle, self._net, byref(size)))
        self._weights = size.value

    def _new(self, what: str) -> Any:
        made = c_void_p()
        create = getattr(self._library, f"cudnnCreate{what}Descriptor")
        checked(what, create(byref(made)))
        self._made.append((what, made))
        return made

    def _rows(self, width: int) -> Any:
        shape, made = self._shape, self._new("RNNData")
        lengths = (c_int * shape.batch)(*(shape.times,) * shape.batch)
        checked("a sequence", self._library.cudnnSetRNNDataDescriptor(
            made, DATA_TYPES[shape.char], 0, shape.times, shape.batch, width, lengths, None
        ))  # fmt: skip
        return made

    def is_as_expected(self) -> bool:
        """Whether weights lie as they are put together here."""
        shape, gates = self._shape, self._gates
        owner, library = self._owner, self._library
        room = owner.cupy.ndarray((self._weights,), "u1")
        base, one = room.data.ptr, self._item()
        matrix, vector, matrix_at, vector_at = (
            self._new("Tensor"), self._new("Tensor"), c_void_p(), c_void_p(),
        )  # fmt: skip
        states = gates * shape.width * shape.inputs
        biases = states + gates * shape.width * shape.width
        whole = biases + (2 * gates * shape.width if shape.has_bias else 0)
        if whole * one != self._weights:
            return False
        for number in range(2 * gates):
            status = library.cudnnGetRNNWeightParams(
                owner.handle(), self._net, 0, c_size_t(self._weights), c_void_p(base), number,
                matrix, byref(matrix_at), vector, byref(vector_at),
            )  # fmt: skip
            gate = number % gates * shape.width
            first = gate * shape.inputs if number < gates else states + gate * shape.width
            if status or matrix_at.value != base + first * one:
                return False
            if shape.has_bias and vector_at.value != base + (biases + number * shape.width) * one:
                return False
        return True

    def does(self) -> bool:
        """Whether both ways run."""
        cupy, shape = self._owner.cupy, self._shape
        dtype = {"d": "f8", "f": "f4"}.get(shape.char, "f2")
        x = cupy.zeros((shape.times, shape.batch, shape.inputs), dtype)
        first = cupy.zeros((shape.batch, shape.width), dtype)
        cell = first if shape.kind == "LSTM" else None
        joined = cupy.zeros(self._weights // self._item(), dtype)
        try:
            out, *_, kept = self.forward(x, first, cell, joined, training=True)
            self.backward(x, first, cell, joined, out, kept, (out, None, None))
        except RefusedError:
            return False
        return True

    def _item(self) -> int:
        return {"d": 8, "f": 4}.get(self._shape.char, 2)

    def joined(self, weights: list[Any]) -> Any:
        """Weights in one piece."""
        cupy = self._owner.cupy
        return cupy.concatenate([one.reshape(-1) for one in weights if one is not None])

    def forward(self, x: Any, hidden: Any, cell: Any, joined: Any, *, training: bool) -> Any:
        """Outputs, the last hidden state and cell, and what the way back needs."""
        cupy, shape, library = self._owner.cupy, self._shape, self._library
        out = cupy.ndarray((shape.times, shape.batch, shape.width), x.dtype)
        last, inside = cupy.ndarray(hidden.shape, x.dtype), None
        if cell is not None:
            inside = cupy.ndarray(hidden.shape, x.dtype)
        handle = self._owner.handle(x)
        work, kept = self._rooms(handle, training=training)
        checked("a recurrent layer", library.cudnnRNNForward(
            handle, self._net, int(training), None, self._x, _at(x), self._y, _at(out),
            self._state, _at(hidden), _at(last), self._state, _at(cell), _at(inside),
            *self._weighed(joined), *_room(work), *_room(kept),
        ))  # fmt: skip
        return out, last, inside, kept

    def backward(
        self, x: Any, hidden: Any, cell: Any, joined: Any, out: Any, kept: Any, g: tuple[Any, ...]
    ) -> tuple[Any, Any, Any, Any]:
        """Gradients of inputs, first state and cell, and of the weights in one piece.

        `g` arrives at the outputs, the last state and the last cell; None is 0, except at outputs.
        What is kept is written to on the way, so that a pass has a copy of its own.
        """
        cupy, library = self._owner.cupy, self._library
        of_x, of_hidden = cupy.ndarray(x.shape, x.dtype), cupy.ndarray(hidden.shape, x.dtype)
        of_cell = None if cell is None else cupy.ndarray(hidden.shape, x.dtype)
        handle = self._owner.handle(x)
        work, _ = self._rooms(handle, training=True)
        kept = kept.copy()
        g_out, g_hidden, g_cell = g
        checked("the way back", library.cudnnRNNBackwardData_v8(
            handle, self._net, None, self._y, _at(out), _at(g_out), self._x, _at(of_x),
            self._state, _at(hidden), _at(g_hidden), _at(of_hidden), self._state, _at(cell),
            _at(g_cell), _at(of_cell), *self._weighed(joined), *_room(work), *_room(kept),
        ))  # fmt: skip
        of_weights = cupy.zeros(joined.shape, joined.dtype)
        checked("gradients of weights", library.cudnnRNNBackwardWeights_v8(
            handle, self._net, 0, None, self._x, _at(x), self._state, _at(hidden), self._y,
            _at(out), *self._weighed(of_weights), *_room(work), *_room(kept),
        ))  # fmt: skip
        return of_x, of_hidden, of_cell, of_weights

    def apart(self, of_weights: Any) -> list[Any]:
        """Gradients of weights one by one: of inputs, of states, of both biases."""
        shape, rows = self._shape, self._gates * self._shape.width
        sizes = [(rows, shape.inputs), (rows, shape.width), (rows,), (rows,)]
        parts, start = [], 0
        for size in sizes if shape.has_bias else sizes[:2]:
            count = size[0] * (size[1] if len(size) > 1 else 1)
            parts.append(of_weights[start : start + count].reshape(size).copy())
            start += count
        return parts if shape.has_bias else [*parts, None, None]

    def _weighed(self, joined: Any) -> tuple[Any, Any]:
        return c_size_t(self._weights), _at(joined)

    def _rooms(self, handle: Any, *, training: bool) -> tuple[Any, Any]:
        """Room to work in, and for what the way back needs."""
        work, kept = c_size_t(), c_size_t()
        checked("room", self._library.cudnnGetRNNTempSpaceSizes(
            handle, self._net, int(training), self._x, byref(work), byref(kept)
        ))  # fmt: skip
        cupy = self._owner.cupy
        rooms = [cupy.ndarray((one.value,), "u1") if one.value else None for one in (work, kept)]
        return rooms[0], rooms[1]

    def __del__(self) -> None:
        for what, made in self._made:
            getattr(self._library, f"cudnnDestroy{what}Descriptor")(made)


def _at(array: Any) -> Any:
    """Its address; nothing where there is none."""
    return None if array is None else c_void_p(array.data.ptr)


def _room(array: Any) -> tuple[Any, Any]:
    return c_size_t(0 if array is None else array.nbytes), _at(array)
