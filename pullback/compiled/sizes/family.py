"""Captures of one function at several sizes, joined: what a capture at any other size would be.

Where the captures agree, the family has what they have; a number in which they differ becomes an
expression of the sizes (`fit.py`). Captures that differ in anything else are not joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CellType, FunctionType
from typing import Any

import numpy

from pullback.compiled.capture.capture import Captured, Input, Output
from pullback.compiled.capture.shapes import has_its_shapes, may_round
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.interpreter.sources import same_value as _same
from pullback.compiled.ir.symbols import Symbolic, SymbolicArray
from pullback.compiled.sizes.fit import Fit, NoFit, evaluator, mentions_numbers
from pullback.compiled.sizes.sized import Sized, SizedFloat, plain
from pullback.core.tensor import Tensor, wrap
from pullback.operators.nn.pool.shapes import Geometry

__all__ = ["Joined"]

_SPLITTING = frozenset({"_split", "_unsafe_split"})
_REMEMBERING = (Sized, SizedFloat)


class _Hole:
    """The place of a number that depends on sizes: its number among the expressions."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Joined:
    """The family: `at(sizes)` is the capture for sizes."""

    def __init__(
        self,
        captures: Sequence[Captured],
        points: Sequence[dict[str, int]],
        *,
        draft: bool = False,
        certain: bool = False,
        computed: dict[str, float] | None = None,
    ) -> None:
        """A `draft` may lack expressions; it tells which sizes of values vary.

        `certain`: nobody compares what comes out with what it should be; see `Fit`. So `computed`.
        """
        self.captures = list(captures)
        self.names = list(points[0])
        self.fit = Fit(points, draft=draft, certain=certain, computed=computed)
        self.texts: list[str] = []
        self.conditions: dict[str, bool] = {}  # decisions of operators by sizes
        self._numbers: dict[str, int] = {}
        self.first = first = captures[0]
        self._check_alike()
        self.values: dict[int, Any] = {}
        self._values = [_values_of(one) for one in captures]
        for number in self._values[0]:
            self._join_value(number)
        self.calls = [self._joined_call(calls) for calls in self._zipped("calls")]
        self.constants = {
            place: self._constant([one.inputs[place].place for one in captures])
            for place, one in enumerate(first.inputs)
            if one.kind == "constant"
        }
        self.outputs = [self._joined_output(outputs) for outputs in self._zipped("outputs")]
        self._evaluate = evaluator(self.names, self.texts)
        # Inputs that the function makes, and makes anew for each size.
        self.varying = {place for place, one in self.constants.items() if one.__class__ in _FILLED}
        self._moving = {
            one.number for shape, _, _, _ in self.values.values() for one in shape
            if one.__class__ is _Hole
        }  # fmt: skip
        self._rounding: list[Any] = []
        if not draft:  # those that cannot tell shapes without data are left out
            last = tuple(points[-1].values())
            rounding = [one for one in self.calls if may_round(one[0]) and self._loses(one[0])]
            self._rounding = [one for one in rounding if self._has_its_shapes([one], last)]
        self.captures.clear()
        self._values.clear()

    def _loses(self, call: Call) -> bool:
        """Whether some size that varies may not be among those of the results."""
        given, made = (
            {one.number for v in values for one in self.values[v.number][0]
             if one.__class__ is _Hole}
            for values in (call.inputs, call.results)
        )  # fmt: skip
        is_view = call.op is not None and call.op.kind == "view"
        return bool(given) if is_view else not given <= made

    def has_its_shapes(self, sizes: Sequence[Any]) -> bool:
        """Whether operators that round sizes give the shapes that are told of their results."""
        return self._has_its_shapes(self._rounding, sizes)

    def _has_its_shapes(self, joined: list[Any], sizes: Sequence[Any]) -> bool:
        if not joined:
            return True
        numbers = self._evaluate(*sizes)
        values = _Values(self.values, numbers)
        try:
            calls = [self._call_at(one, values, numbers) for one in joined]
        except (ArithmeticError, ValueError):
            return False
        return all(map(has_its_shapes, calls))

    def sizes_of_values(self) -> dict[int, tuple[str | None, ...]]:
        """Of each value, by number, the expressions of its sizes."""
        return {
            number: tuple(
                self.texts[one.number] if one.__class__ is _Hole else None for one in shape
            )
            for number, (shape, _, _, _) in self.values.items()
        }

    def moving(self, sizes: Sequence[int]) -> frozenset[int]:
        """Sizes of arrays, at these sizes, that are others at others."""
        numbers = self._evaluate(*sizes)
        return frozenset(numbers[n] for n in self._moving)

    # Joining ----------------------------------------------------------------------------------

    def _zipped(self, name: str) -> Any:
        return zip(*[getattr(one, name) for one in self.captures], strict=True)

    def _check_alike(self) -> None:
        def shape_of(one: Captured) -> tuple[Any, ...]:
            return (
                len(one.calls), one.forward, one.is_spent, one.mode, one.default_dtype,
                one.default_device,
                [(i.kind, i.value.number, i.requires_grad, i.is_parameter) for i in one.inputs],
                [i.place for i in one.inputs if i.kind in ("argument", "grad")],
                [id(i.place) for i in one.inputs if i.kind == "held"],
                [(o.kind, o.requires_grad, o.is_leaf) for o in one.outputs],
                [(n, v.number) for n, v in one.writes],
                [(n, v and v.number) for n, v in one.stores],
                [(n, v.number) for n, v in one.tangents],
                [(n, v.number) for n, v in one.gradients],
            )  # fmt: skip

        wanted = shape_of(self.first)
        for one in self.captures[1:]:
            if shape_of(one) != wanted or one.tree != self.first.tree:
                raise NoFit(
                    f"the function does other things at other sizes ({len(self.first.calls)} and "
                    f"{len(one.calls)} operators)"
                )

    def _join_value(self, number: int) -> None:
        ones: list[Any] = [values.get(number) for values in self._values]
        if any(one is None or one.dtype != ones[0].dtype for one in ones):
            raise NoFit("the function does other things at other sizes (another dtype)")
        shape = self._joined([one.shape for one in ones])
        self._check_no_numbers("a size", shape)
        for one in shape:
            if one.__class__ is _Hole:
                self.fit.learn(self.texts[one.number])
        strides, shift = (
            self._joined([getattr(one, name) for one in ones]) for name in ("strides", "shift")
        )
        self.values[number] = (shape, strides, shift, ones[0].dtype)

    def _joined_call(self, calls: Sequence[Call]) -> Any:
        first = calls[0]
        for one in calls[1:]:
            same = one.name == first.name and one.op is first.op and one.random == first.random
            same = same and [v.number for v in one.results] == [v.number for v in first.results]
            if not same or not _is_same(one.kernel, first.kernel):
                raise NoFit(
                    f"the function does other things at other sizes ({first.name} and {one.name})"
                )
        args = self._joined([one.args for one in calls])
        kwargs = self._joined([one.kwargs for one in calls])
        if first.op is None or first.op.kind != "elementwise":
            self._check_no_numbers(first.name, (args, kwargs))
        if first.name in _SPLITTING:
            self._note_parts(len(first.results), kwargs)
        geometry = kwargs.get("geometry")
        if geometry.__class__ is _Named and geometry.kind is Geometry and "input" in kwargs:
            self._note_windows(first, geometry)
        if first.name == "slice_along":
            self._note_slice(first.results[0], kwargs)
        return first, args, kwargs

    def _note_slice(self, result: Value, given: dict[str, Any]) -> None:
        """That a part of a dimension is as long at other sizes as its expression says."""
        shape = self.values[given["input"].number][0]
        dim = given["dim"] % len(shape)
        start, stop, step = (given.get(name) for name in ("start", "stop", "step"))
        made = self.values[result.number][0][dim]
        every = [start, stop, step, shape[dim], made]
        is_whole = start in (None, 0) and stop is None and step in (None, 1)
        if is_whole or not any(one.__class__ is _Hole for one in every):
            return
        first, last, by, length, count = map(self._text, every)
        self.conditions[f"len(range({length})[{first}:{last}:{by}]) == {count}"] = True

    def _note_windows(self, call: Call, geometry: Any) -> None:
        """That a pool has as many windows at other sizes, over as much memory around them."""
        kernel, stride, pads, dilation, number = geometry.items
        shape, made = (
            self.values[one.number][0][-len(kernel) :] for one in (call.inputs[0], call.results[0])
        )
        if [*map(self._text, made)] != [*map(self._text, number)]:  # a gradient's way back
            return
        for n, k, s, (left, right), d, count in zip(
            shape, kernel, stride, pads, dilation, number, strict=True
        ):
            every = (n, k, s, left, right, d, count)
            if not any(one.__class__ is _Hole for one in every):
                continue
            size, window, step, before, behind, apart, many = map(self._text, every)
            room = f"{size} + {before} + {behind} - {apart} * ({window} - 1) - 1"
            self.conditions[f"({room}) // {step} + 1 == {many}"] = True
            self.conditions[f"0 <= {behind} - {before} < {step}"] = True

    def _text(self, number: Any) -> str:
        return self.texts[number.number] if number.__class__ is _Hole else str(number)

    def _note_parts(self, count: int, given: dict[str, Any]) -> None:
        """That a tensor is cut into as many parts at other sizes."""
        shape = self.values[given["input"].number][0]
        length, part = shape[given["dim"] % len(shape)], given["split_size"]
        texts = [self._text(one) for one in (length, part)]
        if length.__class__ is _Hole or part.__class__ is _Hole:
            self.conditions[f"-(-{texts[0]} // {texts[1]}) == {count}"] = True

    def _check_no_numbers(self, name: str, tree: Any) -> None:
        """Numbers vary in elementwise operators alone: of others they may decide what is done."""
        if any(mentions_numbers(self.texts[hole.number]) for hole in _holes(tree)):
            raise NoFit(f"a number that varies is an option of {name}")

    def _joined(self, parts: Sequence[Any]) -> Any:
        """One tree for all, with holes where numbers differ."""
        guess = getattr(parts[-1], "text", None) if isinstance(parts[-1], _REMEMBERING) else None
        if guess is not None:
            parts = plain(list(parts))
        first = parts[0]
        kind = first.__class__
        if any(one.__class__ is not kind for one in parts):
            raise NoFit(f"an argument is of type {kind.__name__} at some sizes only")
        if kind is Value:
            if any(one.number != first.number for one in parts):
                raise NoFit("the function does other things at other sizes")
            return first
        if isinstance(first, tuple) and kind is not tuple:
            return _Named(kind, self._joined([tuple(one) for one in parts]))
        if kind in (tuple, list):
            if any(len(one) != len(first) for one in parts):
                raise NoFit("an argument has another length at other sizes")
            made = [self._joined(one) for one in zip(*parts, strict=True)]
            return made if kind is list else tuple(made)
        if kind is dict:
            if any(one.keys() != first.keys() for one in parts):
                raise NoFit("an argument has other keys at other sizes")
            return {name: self._joined([one[name] for one in parts]) for name in first}
        if kind is slice:
            return slice(*[
                self._joined([getattr(one, name) for one in parts])
                for name in ("start", "stop", "step")
            ])  # fmt: skip
        return self._joined_leaf(parts, guess)

    def _joined_leaf(self, parts: Sequence[Any], guess: str | None) -> Any:
        first = parts[0]
        kind = first.__class__
        if kind in (int, float):
            if all(one == first for one in parts):
                return first
            return self._hole(parts, guess)
        if isinstance(first, numpy.ndarray | numpy.generic):
            return self._joined_number(parts)
        if kind is FunctionType:
            return self._joined_function(parts)
        if isinstance(first, Tensor):
            return _Like(self._joined([one._array.shape for one in parts]), first._array.dtype)
        if all(_is_same(one, first) for one in parts):
            return first
        raise NoFit(f"an argument of type {kind.__name__} is another at other sizes")

    def _joined_number(self, parts: Sequence[Any]) -> Any:
        """An array that stands for a number."""
        first = parts[0]
        if any(one.dtype != first.dtype for one in parts):
            raise NoFit("a number has another dtype at other sizes")
        if all(one.shape == first.shape and numpy.array_equal(one, first) for one in parts):
            return first
        if any(one.ndim for one in parts) or first.dtype.kind not in "if":
            raise NoFit("an array among the arguments is another at other sizes")
        kind = first.dtype.type
        hole = self._hole([one.item() for one in parts], None, lambda x: kind(x).item())
        return _Number(hole, first.dtype)

    def _joined_function(self, parts: Sequence[Any]) -> Any:
        """A function that draws random numbers: sizes may stand in its closure."""
        first = parts[0]
        if all(one is first for one in parts):
            return first
        if any(one.__code__ is not first.__code__ for one in parts):
            raise NoFit("a function among the arguments is another at other sizes")
        cells = [[cell.cell_contents for cell in one.__closure__ or ()] for one in parts]
        defaults = self._joined([one.__defaults__ or () for one in parts])
        return _Drawing(first, self._joined([tuple(one) for one in cells]), defaults)

    def _hole(self, numbers: Sequence[Any], guess: str | None = None, *kind: Any) -> _Hole:
        text = self.fit.text(numbers, guess, *kind)
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return _Hole(self._numbers[text])

    def _constant(self, arrays: Sequence[Any]) -> Any:
        """An array that the function made: the same at all sizes, of one number, or 0, 1, 2 ..."""
        first = arrays[0]
        if any(one.dtype != first.dtype or one.ndim != first.ndim for one in arrays):
            raise NoFit("a tensor that the function makes has another dtype at other sizes")
        if all(one.shape == first.shape and _equal(one, first) for one in arrays):
            return first
        shape = self._joined([one.shape for one in arrays])
        if all(one.size and _equal(one, numpy.full_like(one, one.flat[0])) for one in arrays):
            filling = self._joined_number([numpy.asarray(one.flat[0]) for one in arrays])
            return _Filled(shape, filling, first.dtype)
        if first.ndim == 1 and first.size > 1:
            start, step = first[0], first[1] - first[0]
            for one in arrays:
                if not _equal(one, _counted(start, step, one.size, one.dtype)):
                    break
            else:
                return _Counted(shape, start, step, first.dtype)
        raise NoFit(
            f"a tensor of shape {first.shape} that the function makes depends on sizes in a way "
            "that cannot be told from examples"
        )

    def _joined_output(self, outputs: Sequence[Output]) -> Any:
        first = outputs[0]
        if first.kind == "object":
            return first, self._joined([one.place for one in outputs])
        if first.kind != "value" and any(one.place != first.place for one in outputs):
            raise NoFit("a result is another input at other sizes")
        places = None
        if first.steps is not None:
            places = [(self._place_of(call), number) for call, number in first.steps]
        return first, places

    def _place_of(self, call: Call) -> int:
        return next(place for place, one in enumerate(self.first.calls) if one is call)

    # Asking -----------------------------------------------------------------------------------

    def at(self, sizes: Sequence[int], world: Any) -> Captured:
        """The capture for these sizes, in the order of `names`."""
        return self._at(self._evaluate(*sizes), world)

    @property
    def keeps_values(self) -> bool:
        """Whether other numbers that are no sizes change nothing but arguments of calls."""
        return not self.varying and all(first.kind != "object" for first, _ in self.outputs)

    def with_numbers(self, captured: Captured, sizes: Sequence[Any]) -> Captured:
        """A capture for the same sizes, with other numbers in its calls."""
        calls: Any = _Calls(lambda: list(self.at(sizes, captured.world).calls))
        return replace(captured, calls=calls)

    def symbolic(self, sizes: Sequence[Any], world: Any) -> Captured:
        """The same for sizes that vary (`ir/symbols.py`): what programs for all of them compute."""
        return self._at(self._evaluate(*sizes), world)

    def call_at(self, place: int, sizes: Sequence[Any]) -> Call:
        """One call of the capture for these sizes."""
        numbers = self._evaluate(*sizes)
        return self._call_at(self.calls[place], _Values(self.values, numbers), numbers)

    def _at(self, numbers: Any, world: Any) -> Captured:
        values = _Values(self.values, numbers)
        calls: Any = _Calls(lambda: [self._call_at(one, values, numbers) for one in self.calls])
        first = self.first

        def now(value: Value | None) -> Any:
            return None if value is None else values[value.number]

        return replace(
            first,
            calls=calls,
            inputs=[self._input_at(n, one, values, numbers) for n, one in enumerate(first.inputs)],
            outputs=[self._output_at(one, calls, values, numbers) for one in self.outputs],
            writes=[(n, now(v)) for n, v in first.writes],
            stores=[(n, now(v)) for n, v in first.stores],
            tangents=[(n, now(v)) for n, v in first.tangents],
            gradients=[(n, now(v)) for n, v in first.gradients],
            world=world,
        )

    def _call_at(self, joined: Any, values: dict[int, Value], numbers: Any) -> Call:
        first, args, kwargs = joined
        call = Call(first.name, first.kernel, _filled(args, numbers, values),
                    _filled(kwargs, numbers, values), first.op)  # fmt: skip
        call.single, call.random, call.origin = first.single, first.random, first.origin
        call.results = tuple([values[one.number] for one in first.results])
        for one in call.results:
            one.call = call
        return call

    def _input_at(self, place: int, one: Input, values: dict[int, Value], numbers: Any) -> Input:
        where = _filled(self.constants[place], numbers) if one.kind == "constant" else one.place
        return replace(one, value=values[one.value.number], place=where)

    def _output_at(self, joined: Any, calls: list[Call], values: Any, numbers: Any) -> Output:
        first: Output
        first, more = joined
        if first.kind == "object":
            return replace(first, place=_filled(more, numbers))
        if first.kind == "value":
            return replace(first, value=values[first.value.number])
        steps = None if more is None else [(calls[place], number) for place, number in more]
        return replace(first, steps=steps)


class _Values(dict[int, Value]):
    """Values at some sizes, made when they are asked for."""

    def __init__(self, known: Any, numbers: Any) -> None:
        super().__init__()
        self.known, self.numbers = known, numbers

    def __missing__(self, number: int) -> Value:
        shape, strides, shift, dtype = self.known[number]
        numbers = self.numbers
        made = Value(number, _filled(shape, numbers), dtype, _filled(strides, numbers), None)
        made.shift = _filled(shift, numbers)
        self[number] = made
        return made


class _Calls(Sequence[Call]):
    """The calls of a capture, made when somebody looks: casts of moulds need few of them."""

    def __init__(self, make: Callable[[], list[Call]]) -> None:
        self._make = make
        self._made: list[Call] | None = None

    @property
    def _all(self) -> list[Call]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, place: Any) -> Any:
        return self._all[place]

    def __len__(self) -> int:
        return len(self._all)


class _Like:
    """A tensor without values in a closure: only its shape and dtype matter."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def filled(self, numbers: Any) -> Any:
        return wrap(numpy.empty(_filled(self.shape, numbers), self.dtype))


class _Named:
    """A tuple of a class of its own: a Size, or one whose items have names."""

    def __init__(self, kind: Any, items: Any) -> None:
        self.kind, self.items = kind, items

    def filled(self, numbers: Any) -> Any:
        items = _filled(self.items, numbers)
        return self.kind(*items) if hasattr(self.kind, "_fields") else self.kind(items)

    def symbolic(self, numbers: Any) -> Any:
        items = _filled(self.items, numbers)
        return self.kind(*items) if hasattr(self.kind, "_fields") else items


class _Number:
    """An array of no dimensions."""

    def __init__(self, hole: _Hole, dtype: Any) -> None:
        self.hole, self.dtype = hole, dtype

    def filled(self, numbers: Any) -> Any:
        return numpy.array(numbers[self.hole.number], self.dtype)

    def symbolic(self, numbers: Any) -> Any:
        return SymbolicArray(numbers[self.hole.number], self.dtype)


class _Filled:
    """An array of one number."""

    def __init__(self, shape: Any, filling: Any, dtype: Any) -> None:
        self.shape, self.filling, self.dtype = shape, filling, dtype

    def filled(self, numbers: Any) -> Any:
        return numpy.full(_filled(self.shape, numbers), _filled(self.filling, numbers), self.dtype)

    def symbolic(self, numbers: Any) -> Any:
        """Of one element, which tells what all are; None where that varies."""
        filling = _filled(self.filling, numbers)
        return None if filling.__class__ is SymbolicArray else numpy.asarray(filling)


class _Counted:
    """An array that counts."""

    def __init__(self, shape: Any, start: Any, step: Any, dtype: Any) -> None:
        self.shape, self.start, self.step, self.dtype = shape, start, step, dtype

    def filled(self, numbers: Any) -> Any:
        (count,) = _filled(self.shape, numbers)
        return _counted(self.start, self.step, count, self.dtype)

    def symbolic(self, numbers: Any) -> Any:
        """Nothing: it is an input like others."""


class _Drawing:
    """A function whose closure has sizes in it."""

    def __init__(self, function: Any, cells: Any, defaults: Any) -> None:
        self.function, self.cells, self.defaults = function, cells, defaults

    def filled(self, numbers: Any) -> Any:
        old = self.function
        cells = tuple(CellType(one) for one in _filled(self.cells, numbers))
        made = FunctionType(old.__code__, old.__globals__, old.__name__,
                            _filled(self.defaults, numbers) or None, cells)  # fmt: skip
        made.__kwdefaults__ = old.__kwdefaults__
        return made


_FILLED = frozenset({_Like, _Named, _Number, _Filled, _Counted, _Drawing})


def _filled(tree: Any, numbers: Any, values: Any = None) -> Any:
    kind = tree.__class__
    if kind is _Hole:
        return numbers[tree.number]
    if kind is Value:
        return values[tree.number]
    if kind is tuple:
        return tuple([_filled(one, numbers, values) for one in tree])
    if kind is dict:
        return {name: _filled(one, numbers, values) for name, one in tree.items()}
    if kind is list:
        return [_filled(one, numbers, values) for one in tree]
    if kind is slice:
        return slice(_filled(tree.start, numbers), _filled(tree.stop, numbers),
                     _filled(tree.step, numbers))  # fmt: skip
    if kind not in _FILLED:
        return tree
    if any(isinstance(one, Symbolic) for one in numbers):
        return tree.symbolic(numbers) if hasattr(tree, "symbolic") else tree
    return tree.filled(numbers)


def _holes(tree: Any) -> Iterator[_Hole]:
    """The places of numbers that vary in a joined tree."""
    kind = tree.__class__
    if kind is _Hole:
        yield tree
    elif kind is dict:
        yield from _holes(tuple(tree.values()))
    elif kind in (tuple, list):
        for one in tree:
            yield from _holes(one)
    elif kind is slice:
        yield from _holes((tree.start, tree.stop, tree.step))
    elif kind in _FILLED:
        yield from _holes(tuple(vars(tree).values()))


def _values_of(captured: Captured) -> dict[int, Value]:
    found = {one.value.number: one.value for one in captured.inputs}
    found |= {value.number: value for _, value in captured.tangents}
    for call in captured.calls:
        found |= {one.number: one for one in call.results}
    return found


def _counted(start: Any, step: Any, count: int, dtype: Any) -> Any:
    return (numpy.arange(count) * step + start).astype(dtype)


def _equal(one: Any, other: Any) -> bool:
    return numpy.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _is_same(one: Any, other: Any) -> bool:
    if one is other or _same(one, other):
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):
        return False
