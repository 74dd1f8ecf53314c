"""Random numbers written into tensors that are already there: `uniform_`, `normal_` and so on."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import LIBRARIES, Array
from pullback.core.dtype import NumpyDtype, from_numpy_dtype
from pullback.core.forward import LEVELS
from pullback.core.layout import empty_like
from pullback.core.limits import finfo
from pullback.core.mode import fast, get_mode, settle
from pullback.core.overriding import answers
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import INFERENCE_CELL, bump
from pullback.operators.create import sizes
from pullback.operators.create.sizes import zeros_like
from pullback.operators.declare import Namespace, method, primitive
from pullback.operators.dispatch.dispatch import overloaded
from pullback.operators.options import as_number
from pullback.operators.random import samplers as draw
from pullback.operators.random.draws import (
    bernoulli,
    check_p,
    check_probabilities,
    check_std,
    no_gradient,
)
from pullback.operators.random.generator import Generator, drawn, drawn_like
from pullback.operators.random.tensors import Fill, exact_integers, integer_bounds, needs, source_of
from pullback.operators.running.by_example import level_reading
from pullback.operators.running.inplace import call_inplace, starts_write

__all__: list[str] = []


def _filler(name: str, node: str) -> Any:
    """The operator behind an in-place fill, for when it must be recorded: it cuts the gradient."""

    @primitive(
        input=no_gradient,
        name=name,
        node=node,
        has_out=False,
        jvp=lambda d_input: zeros_like(d_input),
    )
    def fill(xp: Namespace, input: Array, fill: Any) -> Array:
        """The input's memory, filled anew."""
        result = empty_like(xp, input)
        fill(result)
        return result

    return fill


_fillers: dict[str, Any] = {}


def _fill(self: Tensor, called: str, generator: Any, fill: Fill, overload: int = 0) -> Tensor:
    """Fill a tensor in place; by way of an operator only where history or transforms want one."""
    mode = settle()
    if self.__class__ is Tensor and (mode is fast.plain or mode is fast.no_grad):
        array = self._array
        if (
            self._node is None
            and array.base is None
            and type(array) is numpy.ndarray
            and self._cell is not INFERENCE_CELL
        ):  # a tensor of its own that nobody differentiates
            fill(source_of(called, generator), array)
            bump(self, called)
            return self
    if not isinstance(self, Tensor):
        raise errors.not_a_tensor(called, "self", self)
    if self._overrides:  # its class is asked with what the user gave, not with what draws
        kwargs = {} if generator is None else {"generator": generator}
        taken, answer = overloaded(getattr(Tensor, called), (self, *_given(fill)), kwargs)
        if taken:
            filled_by_class: Tensor = answer
            return filled_by_class
    if mode.levels:

        def filled(like: Tensor) -> Tensor:
            return drawn(called, lambda: _fill(_memory_like(like), called, generator, fill))

        return self.copy_(drawn_like(called, self, filled))
    if generator is None and mode.tracing is not None and not _given_arrays(fill):
        drawing: Any = _Drawing(called, fill)
        return call_inplace(_filler_of(called, overload), called, (self, drawing), {})
    source = source_of(called, generator)
    plain = not (mode.levels or mode.dispatch or mode.tracing or LEVELS or answers(self))
    if plain and not starts_write(called, self, {"input": self}, mode):
        if type(self._array) is numpy.ndarray:
            fill(source, self._array)
        elif type(self._array) in LIBRARIES:
            ports.filled_there(self._array, fill, generator)
        bump(self, called)
        return self
    drawing = functools.partial(fill, source)
    drawing.generator = generator  # for those who are told of the call
    return call_inplace(_filler_of(called, overload), called, (self, drawing), {})


class _Drawing:
    """A fill that takes its numbers from the default generator each time it is called."""

    def __init__(self, called: str, fill: Any) -> None:
        self.called, self.fill, self.generator = called, fill, None

    def __call__(self, array: Array) -> None:
        source = source_of(self.called, None)
        if not hasattr(array, "_device"):  # of a tensor without data, which asks for its shape
            self.fill(source, array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Drawing) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self.called)

    def _parts(self) -> tuple[Any, ...]:
        fill = self.fill
        return self.called, getattr(fill, "func", fill), getattr(fill, "keywords", None)


def _filler_of(called: str, overload: int) -> Any:
    # Torch's node names count the overloads of a function.
    node = "".join(part.capitalize() for part in called.split("_")) + f"Backward{overload}"
    if node not in _fillers:
        _fillers[node] = _filler(f"_{called}{overload}", node)
    return _fillers[node].op


def _memory_like(like: Tensor) -> Tensor:
    """Memory to be filled; a mode that watches is to see where it comes from."""
    if get_mode().dispatch or answers(like):
        seen: Tensor = sizes.empty_like(like)
        return seen
    return wrap(empty_like(numpy, like._array))


def _given_arrays(fill: Any) -> bool:
    return any(isinstance(one, numpy.ndarray) for one in getattr(fill, "keywords", {}).values())


def _given(fill: Any) -> list[Any]:
    """The user's arguments that a fill was made from."""
    values = getattr(fill, "keywords", {}).values()
    return [wrap(one) if isinstance(one, numpy.ndarray) else one for one in values]


def _from_to(
    op: str, positional: tuple[Any, ...], named: dict[str, Any], defaults: tuple[Any, Any]
) -> tuple[Any, Any]:
    """The bounds `from` and `to`; the first is a word that Python does not allow as a parameter."""
    if not positional and not named:
        return defaults
    given = dict(zip(("from", "to"), positional, strict=False))
    if len(positional) > 2 or given.keys() & named.keys() or named.keys() - {"from", "to"}:
        raise TypeError(f"{op}() takes `from`, `to` and generator.")
    given |= named
    return given.get("from", defaults[0]), given.get("to", defaults[1])


_PLAIN = frozenset((int, float))


def _real(op: str, name: str, value: Any) -> Any:
    """A parameter as a real number; text, lists and arrays are none."""
    if type(value) in _PLAIN:
        return value
    found = as_number(value, op, name)
    if isinstance(found, complex):
        raise errors.not_a_number(op, name, value)
    return found


@method
def uniform_(
    self: Tensor, *bounds: float, generator: Generator | None = None, **named: float
) -> Tensor:
    """Fill with numbers from `from` (0) up to but without `to` (1).

    >>> import pullback as torch
    >>> bool((torch.empty(100).uniform_(2, 3) >= 2).all())
    True
    """
    low, high = _from_to("uniform_", bounds, named, (0.0, 1.0))
    low, high = _real("uniform_", "from", low), _real("uniform_", "to", high)
    dtype = self._array.dtype
    needs("uniform_", dtype, "fcVW")
    largest = _largest(draw.real_of(dtype))
    if not (abs(low) <= largest and abs(high) <= largest):
        raise RuntimeError(f"uniform_(): the bounds {low} and {high} do not fit {self.dtype}.")
    if low > high:
        raise RuntimeError(f"uniform_(): `from` must not exceed `to`, got {low} and {high}.")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_(): from {low} to {high} is further than {self.dtype} reaches ({largest}); "
            "fill over half of it and multiply."
        )
    return _fill(self, "uniform_", generator, functools.partial(draw.uniform, low=low, high=high))


@functools.cache
def _largest(dtype: NumpyDtype) -> float:
    return finfo(from_numpy_dtype(dtype)).max


@method
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers.

    >>> import pullback as torch
    >>> torch.empty(3).normal_(mean=2.0, std=0.0)
    tensor([2., 2., 2.])
    """
    if self._array.size:  # as in randn
        needs("normal_", self._array.dtype, "fcVW")
    mean, std = _real("normal_", "mean", mean), _real("normal_", "std", std)
    check_std(std)
    return _fill(self, "normal_", generator, functools.partial(draw.normal, mean=mean, std=std))


@method
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p`, a number or a tensor that broadcasts, else 0.

    >>> import pullback as torch
    >>> torch.empty(3).bernoulli_(1.0)
    tensor([1., 1., 1.])
    """
    overload = 2
    if level_reading(p) is not None:
        # Drawn for all examples together; a target that they share cannot take it.
        return self.copy_(bernoulli(p.expand(self._array.shape), generator=generator))
    if isinstance(p, Tensor):
        overload = 1
        p = p._array
        needs("bernoulli_", p.dtype, "fV")
        check_probabilities("bernoulli_", p)
        try:
            p = numpy.broadcast_to(p, self._array.shape)
        except ValueError:
            raise errors.shapes_do_not_broadcast("bernoulli_", self._array.shape, p.shape) from None
    else:
        p = _real("bernoulli_", "p", p)
        check_p("bernoulli_", p)
    return _fill(self, "bernoulli_", generator, functools.partial(draw.bernoulli, p=p), overload)


@method
def random_(self: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Fill with integers from `from` (0) up to but without `to` (as many as the dtype tells apart).

    One number alone is `to`.

    >>> import pullback as torch
    >>> bool((torch.empty(100).random_(5) < 5).all())
    True
    """
    dtype = self._array.dtype
    needs("random_", dtype, "iubfV")
    overload = 0 if bounds or named else 2
    if len(bounds) == 1 and not named:
        bounds, overload = (0, *bounds), 1
    low, high = _from_to("random_", bounds, named, (0, None))
    if high is None:
        low, high = integer_bounds("random_", low, _highest(dtype), dtype)[0], _highest(dtype) + 1
    else:
        low, high = integer_bounds("random_", low, high, dtype)
    fill: Any = functools.partial(draw.integers, low=low, high=high)
    if overload == 2 and dtype == numpy.int32:
        fill = draw.bits  # the one case in which the number of words is another
    return _fill(self, "random_", generator, fill, overload)


def _highest(dtype: NumpyDtype) -> int:
    """The largest integer such that the dtype tells all below it apart."""
    if dtype.kind == "b":
        return 1
    return int(numpy.iinfo(dtype).max) if dtype.kind in "iu" else exact_integers(dtype)


def _check_positive(op: str, name: str, value: float) -> None:
    if not value > 0:
        raise RuntimeError(f"{op}(): {name} must be greater than 0, got {value}.")


def _check_continuous(op: str, self: Tensor) -> None:
    if self._array.dtype.kind not in "fV":
        raise RuntimeError(f"{op}(): the numbers are not whole, so {self.dtype} cannot hold them.")


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponentially distributed numbers of mean 1 / lambd.

    >>> import pullback as torch
    >>> bool((torch.empty(100).exponential_() >= 0).all())
    True
    """
    _check_continuous("exponential_", self)
    lambd = _real("exponential_", "lambd", lambd)
    _check_positive("exponential_", "lambd", lambd)
    return _fill(self, "exponential_", generator, functools.partial(draw.exponential, rate=lambd))


@method
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers of the Cauchy distribution.

    >>> import pullback as torch
    >>> torch.empty(3).cauchy_().shape
    torch.Size([3])
    """
    _check_continuous("cauchy_", self)
    median, sigma = _real("cauchy_", "median", median), _real("cauchy_", "sigma", sigma)
    _check_positive("cauchy_", "sigma", sigma)
    fill = functools.partial(draw.cauchy, median=median, sigma=sigma)
    return _fill(self, "cauchy_", generator, fill)


@method
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with e to the power of normal numbers.

    >>> import pullback as torch
    >>> bool((torch.empty(100).log_normal_() > 0).all())
    True
    """
    needs("log_normal_", self._array.dtype, "fV")
    mean, std = _real("log_normal_", "mean", mean), _real("log_normal_", "std", std)
    _check_positive("log_normal_", "std", std)
    return _fill(
        self, "log_normal_", generator, functools.partial(draw.log_normal, mean=mean, std=std)
    )


@method
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials until the first success of probability `p`.

    >>> import pullback as torch
    >>> bool((torch.empty(100).geometric_(0.5) >= 1).all())
    True
    """
    needs("geometric_", self._array.dtype, "iufV")
    p = _real("geometric_", "p", p)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_(): p must lie between 0 and 1, both excluded, got {p}.")
    return _fill(self, "geometric_", generator, functools.partial(draw.geometric, p=p))
