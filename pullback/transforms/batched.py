"""A tensor with a hidden dimension: what a function mapped by vmap sees.

Only the innermost wrapper is seen by operators; `exposed` and `hidden` take whole stacks of
wrappers off and put them on, for transforms that work on the batch as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.dtype import OF_NUMBERS
from pullback.core.mode import Mapped, changed, current, get_mode
from pullback.core.nesting import running
from pullback.core.overriding import disabled_function
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, new
from pullback.core.view import edge_of
from pullback.operators.arrays.patterned import Patterned


class Batched(Tensor):
    """One example's view of a batch. `value` holds all examples, along its dimension `bdim`.

    `_array` stands in for one example: shape, dtype and strides are right, and every operator call
    goes to the level before it would look at the values.
    """

    __slots__ = ("bdim", "example", "level", "value")
    __torch_function__ = disabled_function

    value: Tensor
    bdim: int
    level: Any
    example: Array | None

    @property
    def _array(self) -> Array:
        if not self.level.open:
            raise _has_ended()
        example = self.example
        if example is None:
            example = self.example = _one_example(self.value._array, self.bdim)
        return example

    @property
    def _cell(self) -> Any:
        return self.value._cell

    @_cell.setter
    def _cell(self, cell: Any) -> None:
        self.value._cell = cell

    @property  # type: ignore[misc]  # one example cannot be told to require grad
    def requires_grad(self) -> bool:
        """False, as gradients flow to the batch; True for what is differentiated inside."""
        return _is_differentiated(self) or self._inner_history() is not None

    @property
    def grad_fn(self) -> Any:
        """The node of the batch, if a derivative inside the map recorded it."""
        history = self._inner_history()
        return None if history is None else history.grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether no operator inside a derivative inside the map made this tensor."""
        return self._inner_history() is None

    @property
    def _layout(self) -> Any:
        return self.value._layout

    @property
    def layout(self) -> Any:
        """How elements are stored: torch.strided, or a sparse layout."""
        return self.value.layout

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is torch.sparse_coo."""
        return self.value.is_sparse

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements of a sparse example."""
        made = self.value.to_dense(dtype, masked_grad=masked_grad)
        return batched(made, self.bdim, self.level)

    def _inner_history(self) -> Tensor | None:
        """The batch, where its history began within a derivative that runs inside the map."""
        base = base_of(self)
        for derivative in reversed(running.get()):
            if derivative.level is None and derivative.scope and self.level in derivative.levels:
                edge = edge_of(base)
                inside = edge is not None and edge._seq < derivative.scope.start
                return base if inside and id(base) not in differentiated else None
        return None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Refused: a mapped tensor is no leaf."""
        raise RuntimeError(
            "requires_grad_() cannot be used inside vmap: the tensor is one example of a batch. "
            "Pass it to func.grad as an argument instead."
        )

    def _alias(self) -> Tensor:
        return batched(self.value._alias(), self.bdim, self.level)

    def detach(self) -> Tensor:
        """The same example without history."""
        return batched(self.value.detach(), self.bdim, self.level)

    def detach_(self) -> Tensor:
        """Forget the history of the batch, and so of this example."""
        self.value.detach_()
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history; refused where vmap is the innermost transform."""
        if not any(self.level in derivative.levels for derivative in running.get()):
            raise RuntimeError(
                "Reading .data of a tensor inside vmap is not possible; use detach() instead."
            )
        return batched(self.value.data, self.bdim, self.level)

    @data.setter
    def data(self, value: Tensor) -> None:
        raise RuntimeError(
            "Setting .data of a tensor inside vmap is not possible: it is one example of a batch. "
            "Use copy_(), or the value itself."
        )

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """A hook on the gradient, which is one example's as the tensor is."""
        level, bdim = self.level, self.bdim

        def on_batch(g: Any) -> Any:
            was_open, level.open = level.open, True  # a pass after the map still calls the hook
            levels = {*levels_of(self), *levels_of(g)}
            try:
                with with_levels(sorted(levels, key=lambda one: one.number)):
                    made = hook(batched(g, bdim, level))
                    return None if made is None else exposed(made, (level,)).movedim(0, bdim)
            finally:
                level.open = was_open

        return self.value.register_hook(on_batch)

    def _refuse(self, what: str) -> NoReturn:
        check_open(self)
        raise RuntimeError(
            f"{what} on a tensor inside vmap: it stands for {self.level.size} examples, whose "
            "values differ, so there is no one value to go by. Use torch.where for choices, and "
            "return the tensor to read it."
        )

    def item(self) -> Any:
        """Refused: every example has a value of its own."""
        return self._refuse("item()")

    def tolist(self) -> Any:
        """Refused, as `item`."""
        return self._refuse("tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        """Refused: there is no memory of one example to show."""
        return self._refuse("numpy()")

    def data_ptr(self) -> int:
        """Refused, as `numpy`."""
        return self._refuse("data_ptr()")

    def is_nonzero(self) -> bool:
        """Refused, as `item`."""
        return self._refuse("is_nonzero()")

    def __bool__(self) -> bool:
        return self._refuse("bool() (as in `if`, `while` and `and`)")

    def __int__(self) -> int:
        return self._refuse("int()")

    def __float__(self) -> float:
        return self._refuse("float()")

    def __complex__(self) -> complex:
        return self._refuse("complex()")

    def __index__(self) -> int:
        return self._refuse("an index")

    def __contains__(self, element: Any) -> bool:
        return self._refuse("`in`")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._refuse("conversion to a NumPy array")

    def __repr__(self) -> str:
        if not self.level.open:
            return f"Batched({tuple(self.value.shape)}, dim {self.bdim}; its vmap has ended)"
        return str(ports.shown_inside(self))


class Hidden(numpy.ndarray):
    """An array whose shape, dtype and strides may be read, but not its values."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "The values of a tensor inside vmap were asked for: it stands for all examples at "
            "once, so there is no one value to go by. Use torch.where for choices; if no operator "
            "does what is needed, do it outside of vmap."
        )

    def __getitem__(self, key: Any) -> Any:
        return numpy.asarray(super().__getitem__(key)).view(Hidden)

    __array_ufunc__ = __array_function__ = __bool__ = __float__ = __int__ = __index__ = _refuse
    __setitem__ = __iter__ = item = tolist = copy = astype = nonzero = _refuse


class _HiddenNumbers(Hidden):
    """The same of fractions and other numbers, which say themselves what their dtype is."""

    numbers: Any = None

    def __array_finalize__(self, of: Any) -> None:
        self.numbers = getattr(of, "numbers", None)

    @property
    def dtype(self) -> Any:  # see core/numbers
        return self.numbers.numpy

    def __getitem__(self, key: Any) -> Any:
        part = numpy.asarray(numpy.ndarray.view(self, numpy.ndarray)[key], object)
        made: Any = part.view(_HiddenNumbers)
        made.numbers = self.numbers
        return made


class _HiddenTraced(Hidden):
    """The same of an array whose class shows sizes that remember what they come from."""

    whole: Any = None
    bdim = 0

    @property  # type: ignore[misc]  # nobody gives an example another shape
    def shape(self) -> Any:
        """The sizes of one example, of the batch's."""
        if self.whole is None:
            return _shape_of(self)
        sizes = self.whole.shape
        return sizes[: self.bdim] + sizes[self.bdim + 1 :]


class _HiddenSparse(Hidden):
    """The same of a sparse tensor, whose places are not those of one example."""

    @property
    def pattern(self) -> Any:
        """Refused."""
        raise RuntimeError(
            "Indices or values of a sparse tensor inside vmap were asked for. It can be returned, "
            "multiplied by numbers and made dense, by to_dense(); do the rest with that, or "
            "outside of vmap."
        )


class _Unread(Hidden):
    """What a written line finds in place of an example, before the mode tells it to leave.

    Making an example takes as long as a small operator. Where the mode does not, the map is over.
    """

    def _ended(self, *_: Any, **__: Any) -> Any:
        raise _has_ended()

    __array_ufunc__ = _ended


Batched._plain = numpy.zeros(0, "V1").view(_Unread)  # see core/overriding.py


def _one_example(array: Array, bdim: int) -> Array:
    kind = array.__class__
    if not bdim and (kind is numpy.ndarray or kind is Hidden) and len(array):
        # As most are: half of the time of what follows.
        return array[_FIRST].view(Hidden) if kind is numpy.ndarray else _part(array, _FIRST)
    library = LIBRARIES.get(kind)
    if array.dtype.char == OF_NUMBERS:
        shape = array.shape[:bdim] + array.shape[bdim + 1 :]
        example: Any = numpy.empty(shape, object).view(_HiddenNumbers)
        example.numbers = array.dtype.numbers
        return example
    if library is None and array.shape[bdim] and not isinstance(array, Patterned):
        part = array.view(numpy.ndarray)[(slice(None),) * bdim + (0, ...)]
        if kind.shape is _SHAPE:
            return part.view(Hidden)
        shown = part.view(_HiddenTraced)
        shown.whole, shown.bdim = array, bdim
        return shown
    shape = array.shape[:bdim] + array.shape[bdim + 1 :]
    if isinstance(array, Patterned):
        return numpy.broadcast_to(numpy.zeros((), array.dtype), shape).view(_HiddenSparse)
    made: Any = numpy.zeros(shape, array.dtype).view(Hidden)
    if library is not None:  # whose arrays know no classes of ours
        made._device = library.device(array)
    return made


_FIRST = (0, ...)
_SHAPE: Any = numpy.ndarray.shape
_shape_of = _SHAPE.__get__
_part = numpy.ndarray.__getitem__  # which `Hidden` puts something before


def batched(value: Tensor, bdim: int, level: Any) -> Batched:
    """Hide dimension `bdim` of `value`."""
    made = new(Batched)
    made.value = value
    made.bdim = bdim
    made.level = level
    made.example = None
    made._node = None
    return made


def _is_differentiated(tensor: Any) -> bool:
    """Whether a reverse transform that runs inside the map entered this tensor."""
    while isinstance(tensor, Batched):
        tensor = tensor.value
    return id(tensor) in differentiated


# Batches that a reverse transform entered, by identity; their examples say that they require grad.
differentiated: set[int] = set()


def check_open(value: Batched) -> None:
    """Refuse a tensor of a vmap that has ended."""
    if not value.level.open:
        raise _has_ended()


def _has_ended() -> RuntimeError:
    return RuntimeError(
        "A tensor of a vmap that has ended was used: it escaped from the mapped function, e.g. "
        "through a list or an attribute. Return it instead."
    )


def is_batched_at(value: Any, level: Any) -> bool:
    """Whether `value` hides a dimension that belongs to `level`."""
    if value.__class__ is not Batched:
        return False
    if value.level is level:
        return True
    check_open(value)
    return False


def base_of(tensor: Any) -> Any:
    """The plain tensor inside all wrappers."""
    while tensor.__class__ is Batched:
        tensor = tensor.value
    return tensor


def levels_of(tensor: Any) -> list[Any]:
    """The levels at which a tensor is batched, innermost first."""
    levels = []
    while tensor.__class__ is Batched:
        levels.append(tensor.level)
        tensor = tensor.value
    return levels


class with_levels:  # noqa: N801 (a context)
    """Inside, operator calls go to these vmap levels."""

    __slots__ = ("before", "levels")

    def __init__(self, levels: Sequence[Any]) -> None:
        self.levels = tuple(levels)

    def __enter__(self) -> None:
        mode = self.before = get_mode()
        while mode.__class__ is Mapped and len(mode.levels) > len(self.levels):
            mode = mode.below  # which is there already
        if mode.levels != self.levels:
            mode = changed(mode, levels=self.levels)
        if mode is not self.before:
            current.set(mode)

    def __exit__(self, *_: object) -> None:
        current.set(self.before)


def _opened(tensor: Any) -> tuple[Any, list[Any]]:
    """The plain tensor with all hidden dimensions in front, and the level of each."""
    if tensor.__class__ is not Batched:
        return tensor, []
    check_open(tensor)
    value, levels = _opened(tensor.value)
    place = len(levels)
    if tensor.bdim:
        value = value.movedim(place + tensor.bdim, place)
    return value, [*levels, tensor.level]


def _closed(base: Any, dims: list[Any], levels: Sequence[Any]) -> Any:
    """`base`, whose first dimensions belong to `dims`, with those of `levels` hidden."""
    for level in sorted(levels, key=lambda level: level.number):
        place = dims.index(level)
        base = batched(base, place, level)
        dims = dims[:place] + dims[place + 1 :]
    return base


def exposed(tensor: Any, levels: Sequence[Any]) -> Any:
    """`tensor` with the dimensions of `levels` in front, in this order, expanded where it has none.

    It stays batched at other levels.
    """
    if not levels:
        return tensor
    with with_levels(()):
        base, dims = _opened(tensor)
        for level in levels:
            if level not in dims:
                base = base.unsqueeze(0).expand((level.size, *base.shape))
                dims = [level, *dims]
        others = [level for level in dims if level not in levels]
        # The hidden ones before, where the fast path through their levels finds them.
        wanted = [*others, *levels]
        if dims != wanted:
            order = [dims.index(level) for level in wanted]
            base = base.permute((*order, *range(len(dims), base.ndim)))
        return _closed(base, wanted, others)


def hidden(tensor: Any, levels: Sequence[Any]) -> Any:
    """The inverse of `exposed`: the first dimensions of `tensor` become those of `levels`."""
    if not levels:
        return tensor
    with with_levels(()):
        base, dims = _opened(tensor)
        return _closed(base, [*dims, *levels], [*dims, *levels])


def hidden_like(tensor: Any, model: Any) -> Any:
    """`tensor`, shaped as the plain tensor inside `model`, with the wrappers that `model` has."""
    wrappers: list[tuple[Any, int]] = []
    while model.__class__ is Batched:
        wrappers.insert(0, (model.level, model.bdim))
        model = model.value
    if not wrappers:
        return tensor
    with with_levels(sorted(levels_of(tensor), key=lambda level: level.number)):
        for place, (_, bdim) in enumerate(wrappers):
            tensor = tensor.movedim(place + bdim, place) if bdim else tensor
    return hidden(tensor, [level for level, _ in wrappers])
