"""The vmap level: how an operator call on batched tensors becomes one call on whole batches.

From the kind and the annotations where that is enough: elementwise by alignment, one tensor by
shifting its `Dim`, `Dims` and `Shape` options. Operators of several tensors say `batch=`
(operators/batching.py). What has no rule runs in a loop over the examples, with one warning.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.core import origin
from pullback.core.forward import LEVELS, visible_levels
from pullback.core.mode import Mapped, Mode, changed, current, get_mode
from pullback.core.tensor import Tensor
from pullback.operators.arrays.strides import extent
from pullback.operators.batching import aligned, filled, one_tensor
from pullback.operators.declare import Op
from pullback.operators.random.generator import drawn, drawn_like
from pullback.operators.shape.joining import stack
from pullback.operators.shape.reshaping import select
from pullback.transforms.batched import (
    Batched,
    base_of,
    batched,
    check_open,
    exposed,
    is_batched_at,
    levels_of,
)
from pullback.transforms.vmap_fast_path import is_random

_warned: set[str] = set()
_numbers = itertools.count(1)


class _Loops:
    """Whether each call that loops over the examples warns, or an operator's first alone."""

    always_told = False


def set_loop_warnings(enabled: bool) -> None:
    """Warn of every loop over examples, or of the first that an operator makes."""
    _Loops.always_told = bool(enabled)


def loop_warnings_enabled() -> bool:
    """What `set_loop_warnings` was last given."""
    return _Loops.always_told


def next_number() -> int:
    """The number of a level that opens; it grows inwards."""
    return next(_numbers)


class VmapLevel:
    """One running vmap."""

    transform = "vmap"

    __slots__ = ("for_tangents", "number", "open", "randomness", "size")

    def __init__(self, size: int, randomness: str = "error", *, for_tangents: bool = False) -> None:
        self.size = size
        self.randomness = randomness
        self.open = True
        # Grows inwards: a level is inside of those with smaller numbers.
        self.number = next_number()
        # Whether only tangents are batched here, never a value that the mapped function sees.
        self.for_tangents = for_tangents

    def close(self) -> None:
        """End."""
        self.open = False

    def below(self, mode: Mode) -> Mode:
        """The mode in which operator calls go to the levels outside of this one."""
        if mode.__class__ is Mapped and mode.level is self:
            return mode.below
        return changed(mode, levels=mode.levels[: mode.levels.index(self)])

    def process(self, op: Op, bound: dict[str, Any]) -> Any:
        """Run an operator call for all examples at once."""
        split = {param.name: self._split(bound[param.name]) for param in op.inputs}
        before = get_mode()
        try:
            current.set(self.below(before))
            if not any(_is_batched(pair) for pair in split.values()) and not is_random(op):
                return op.function(**bound)
            options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
            if LEVELS and not is_random(op):  # examples share a draw whose tangents differ
                split = {name: self._with_mapped_tangent(pair) for name, pair in split.items()}
            results = self._batched_call(op, split, options)
        finally:
            current.set(before)
        if results is None:  # one draw for all examples
            return self.random(op.name, lambda: op.function(**bound))
        if len(op.outputs) == 1 and op.outputs != ("*",):
            return batched(results, 0, self)
        return tuple(batched(result, 0, self) for result in results)

    def _split(self, value: Any) -> Any:
        """(tensor, its hidden dimension or None); a list of these for a sequence."""
        if value.__class__ is Batched:
            return (value.value, value.bdim) if is_batched_at(value, self) else (value, None)
        if isinstance(value, tuple | list):
            return [self._split(one) for one in value]
        return (value, None)

    def _with_mapped_tangent(self, pair: Any) -> Any:
        """A value whose tangent is mapped here is mapped as well, once it meets one that is."""
        if isinstance(pair, list):
            return [self._with_mapped_tangent(one) for one in pair]
        value, bdim = pair
        if bdim is not None or not isinstance(value, Tensor):
            return pair
        pushed = [(level, level.get(value)) for level in visible_levels()]
        mapped = [(level, one) for level, one in pushed if self in levels_of(one)]
        if not mapped:
            return pair
        made = value.unsqueeze(0).expand((self.size, *value.shape))
        for level, tangent in mapped:  # which may be batched at others, too
            level.put(made, exposed(tangent, (self,)))
        return made, 0

    def _batched_call(self, op: Op, split: dict[str, Any], options: dict[str, Any]) -> Any:
        if is_random(op):
            return self._random_call(op, split, options)
        if op.batch is not None:
            results = op.batch(op, self.size, split, options)
            return self._loop(op, split, options) if results is NotImplemented else results
        if op.kind == "elementwise":
            return aligned(op, self.size, split, options)
        present = [pair for pair in split.values() if isinstance(pair, list) or pair[0] is not None]
        if len(present) == 1 and not isinstance(present[0], list) and op.shifts:
            return one_tensor(op, self.size, split, options)
        return self._loop(op, split, options)

    def _loop(self, op: Op, split: dict[str, Any], options: dict[str, Any]) -> Any:
        if op.kind == "view":
            raise RuntimeError(
                f"vmap: {op.name} is a view and has no batching rule; use an operator that copies."
            )
        if op.name not in _warned or _Loops.always_told:
            _warned.add(op.name)
            warnings.warn(
                f"vmap runs {op.name} in a loop over the examples: it has no batching rule, so it "
                "is slow.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        return self._each(op, split, options)

    def _each(self, op: Op, split: dict[str, Any], options: dict[str, Any]) -> Any:
        runs = []
        for example in range(self.size):
            one = {name: _example(pair, example) for name, pair in split.items()}
            runs.append(op.function(**one, **options))
        if len(op.outputs) == 1 and op.outputs != ("*",):
            return stack(runs)
        return [stack(results) for results in zip(*runs, strict=True)]

    def each_example(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function that looks at values for each example, outside of this level."""
        before = get_mode()
        try:
            current.set(self.below(before))
            split = [self._split(arg) for arg in args]
            named = {name: self._split(arg) for name, arg in kwargs.items()}
            runs = [
                function(
                    *(_example(pair, number) for pair in split),
                    **{name: _example(pair, number) for name, pair in named.items()},
                )
                for number in range(self.size)
            ]
            if len({tuple(one.shape) for one in runs}) > 1:
                raise RuntimeError(
                    f"vmap: the size of what {function.__name__} returns depends on the values of "
                    "a mapped tensor, and differs between the examples."
                )
            whole = stack(runs)
        finally:
            current.set(before)
        return batched(whole, 0, self)

    # Random numbers
    # --------------------------------------------------------------------------------

    def _random_call(self, op: Op, split: dict[str, Any], options: dict[str, Any]) -> Any:
        """A draw whose parameters are tensors; None where all examples share it."""
        self._check_randomness(op.name)
        batch = any(_is_batched(pair) for pair in split.values())
        if self.randomness == "same":
            if batch:
                raise RuntimeError(
                    f"vmap: {op.name} of a mapped tensor with randomness='same' has no meaning: "
                    "the examples differ, so their draws must. Use randomness='different'."
                )
            return None
        whole = {name: (filled(pair, self.size), 0) for name, pair in split.items()}
        if op.batch is not None:
            return op.batch(op, self.size, whole, options)
        return aligned(op, self.size, whole, options)

    def _check_randomness(self, op: str) -> None:
        if self.randomness == "error":
            raise RuntimeError(
                f"vmap: {op.strip('_')} draws random numbers, and it is not said whether the "
                "examples share them. Call vmap with randomness='different' or randomness='same'."
            )

    def random(self, op: str, draw: Callable[[], Any], many: Any = None) -> Any:
        """Random numbers that no mapped tensor determines: one draw, or one per example.

        `many` draws for all examples at once, given the sizes to put in front.
        """
        self._check_randomness(op)
        before = get_mode()
        try:
            current.set(self.below(before))
            if self.randomness == "same":
                return drawn(op, draw, many)
            if many is not None:
                size = (self.size,)
                made = drawn(op, lambda: many(size), lambda front: many((*front, *size)))
                return batched(made, 0, self)
            return batched(stack([drawn(op, draw) for _ in range(self.size)]), 0, self)
        finally:
            current.set(before)

    def random_like(self, op: str, like: Any, draw: Callable[[Any], Any]) -> Any:
        """The same of what `draw` makes like a tensor, given all examples as they lie in memory."""
        self._check_randomness(op)
        before = get_mode()
        try:
            current.set(self.below(before))
            pair = self._split(like)
            if self.randomness == "same":
                return drawn_like(op, _example(pair, 0), draw)
            return batched(drawn_like(op, filled(pair, self.size), draw), 0, self)
        finally:
            current.set(before)

    # Custom Functions
    # ------------------------------------------------------------------------------

    def refuse_function(self, cls: Any) -> None:
        """Nothing: Functions are mapped by their rules."""

    # In-place
    # --------------------------------------------------------------------------------------

    def process_inplace(self, op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> Tensor:
        """Run an in-place call: the result of every example goes into the memory of its example."""
        split = {param.name: self._split(bound[param.name]) for param in op.inputs}
        before = get_mode()
        if not any(_is_batched(pair) for pair in split.values()):
            try:
                current.set(self.below(before))
                return _written(op, called, bound)
            finally:
                current.set(before)
        if not is_batched_at(target, self):
            raise _shared_target(called)
        result = self.process(op, _kept_from_writing(target, bound) if before.grad else bound)
        if result._array.shape != target._array.shape:
            raise RuntimeError(
                f"{called}: the result of one example has shape {result._array.shape}, the tensor "
                f"written to {target._array.shape}; an in-place write cannot broadcast its target."
            )
        try:
            current.set(self.below(before))
            batched: Any = target
            memory = batched.value if batched.bdim == 0 else batched.value.movedim(batched.bdim, 0)
            memory.copy_(result.value)
        finally:
            current.set(before)
        return target

    def new_memory(
        self, like: Any, size: tuple[int, ...], stride: tuple[int, ...], options: dict[str, Any]
    ) -> Any:
        """Memory of its own for each example, with these strides."""
        step = extent((size, stride, 0))
        before = get_mode()
        try:
            current.set(self.below(before))
            whole = like.value.new_empty_strided((self.size, *size), (step, *stride), **options)
        finally:
            current.set(before)
        return batched(whole, 0, self)

    def reshape_inplace(
        self,
        target: Any,
        function: Callable[[Any], Any],
        reshape: Callable[[Any, Callable[[Any], Any]], Any],
    ) -> Any:
        """Change the shape of every example, by changing that of the batch with `reshape`."""
        check_open(target)
        size, bdim = self.size, target.bdim
        behind = 0 if bdim == 0 else bdim - target.value.ndim  # counted from the nearer end

        def on_batch(value: Any) -> Any:
            (made,), (dim,) = run_on_examples(
                lambda one: (function(one),), (value,), (bdim,), _Examples(size, "error")
            )
            return made.movedim(dim, behind) if made.ndim > -behind else made

        before = get_mode()
        try:
            current.set(self.below(before))
            reshape(target.value, on_batch)
        finally:
            current.set(before)
        target.bdim, target.example = behind % target.value.ndim, None
        return target

    def resize_inplace(self, target: Any, shape: tuple[int, ...], memory_format: Any) -> Any:
        """Resize every example, its memory that of the batch; examples must be in front."""
        check_open(target)
        if target.bdim:
            raise RuntimeError(
                "resize_: inside vmap, the examples must be along the first dimension; use "
                "in_dims=0, or reshape()."
            )
        if memory_format is not None:
            raise RuntimeError("resize_: memory_format cannot be given inside vmap.")
        before = get_mode()
        try:
            current.set(self.below(before))
            target.value.resize_((self.size, *shape))
        finally:
            current.set(before)
        target.example = None
        return target


class _Examples(NamedTuple):
    """What `run_on_examples` asks of a batch."""

    batch_size: int
    randomness: str


def run_on_examples(
    function: Callable[..., Any], args: tuple[Any, ...], in_dims: tuple[Any, ...], info: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Call `function` once, each argument that has a dim seen as one example of it."""
    before = get_mode()
    level = VmapLevel(info.batch_size, info.randomness)
    try:
        current.set(changed(before, levels=(*before.levels, level)))
        inside = [
            batched(arg, dim, level) if dim is not None and isinstance(arg, Tensor) else arg
            for arg, dim in zip(args, in_dims, strict=True)
        ]
        results = function(*inside)
    finally:
        current.set(before)
        level.close()
    mapped = [result.__class__ is Batched and result.level is level for result in results]
    return (
        tuple(r.value if m else r for r, m in zip(results, mapped, strict=True)),
        tuple(r.bdim if m else None for r, m in zip(results, mapped, strict=True)),
    )


def _kept_from_writing(target: Any, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with a copy in the target's place: the graph may keep what is written over."""
    tensors = [one for one in bound.values() if isinstance(one, Tensor)]
    if not any(base_of(one).requires_grad for one in tensors):
        return bound
    kept = target.clone()
    return {name: kept if one is target else one for name, one in bound.items()}


def _written(op: Op, called: str, bound: dict[str, Any]) -> Tensor:
    from pullback.operators.running.inplace import call_inplace

    return call_inplace(op, called, (), bound)


def _shared_target(called: str) -> RuntimeError:
    return RuntimeError(
        f"{called}: inside vmap, a tensor that all examples share cannot be written with values "
        "that differ between them: it would have to hold more values than it has elements. Make "
        "the target from a mapped tensor (x.new_zeros(...), torch.zeros_like(x)), or use the "
        "out-of-place form."
    )


def _is_batched(pair: Any) -> bool:
    if isinstance(pair, list):
        return any(_is_batched(one) for one in pair)
    return pair[1] is not None


def _example(pair: Any, number: int) -> Any:
    if isinstance(pair, list):
        return [_example(one, number) for one in pair]
    value, bdim = pair
    return value if bdim is None else select(value, bdim, number)
