"""Where digits are lost: forward and backward beside a shadow that computes in float64.

Every operator call, those of the backward pass too, is made twice: on the values, and on their
shadows in double precision. The shadow of a tensor that comes from outside is its exact value, so
what differs later was lost on the way. What an operator adds to the error it was given is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.autograd.answers.report import Report, table
from pullback.autograd.graph.table import as_text
from pullback.core.dtype import complex128, dtype, float64, from_numpy_dtype
from pullback.core.limits import finfo
from pullback.core.mode import changed, current, settle
from pullback.core.node import AccumulateGrad
from pullback.core.origin import Origin, getframe, user_frame
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_map
from pullback.engine import node_observers
from pullback.operators.random.generator import default_generator

__all__ = ["Lost", "Precision", "precision"]

_HEADER = ("growth", "error in", "error out", "digits left", "operator", "in", "calls", "line", "")


@dataclass(slots=True)
class Lost:
    """One operator at one line: the worst of its calls."""

    operator: str
    phase: str  # "forward" or "backward"
    origin: Origin | None
    calls: int
    error_in: float  # relative, of the worst of its arguments
    error_out: float

    growth: float  # by how much the error grew, counted from the rounding of the dtype

    @property
    def digits(self) -> float:
        """Decimal digits of the result that are right."""
        return float(-numpy.log10(self.error_out)) if self.error_out else 16.0

    def _cells(self) -> tuple[str, ...]:
        place = ("", "") if self.origin is None else (str(self.origin), self.origin.source)
        return (
            f"{self.growth:.3g}x",
            f"{self.error_in:.1e}",
            f"{self.error_out:.1e}",
            f"{max(0.0, self.digits):.1f}",
            self.operator,
            self.phase,
            str(self.calls),
            *place,
        )


class Precision:
    """Operators by how much the relative error grew in them; prints as a table.

    `error` is that of the function's result, `gradients` those of the leaves that require grad,
    `result` what the function returned.
    """

    def __init__(
        self, entries: list[Lost], error: float, gradients: list[float], result: Any
    ) -> None:
        self.entries = sorted(entries, key=lambda one: -one.growth)
        self.error = error
        self.gradients = gradients
        self.result = result

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Lost]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> Lost:
        return self.entries[index]

    def _title(self) -> str:
        worst = f", of gradients up to {max(self.gradients):.1e}" if self.gradients else ""
        return f"relative error of the result {self.error:.1e}{worst}; operators by growth"

    def __repr__(self) -> str:
        return as_text(self._title(), _HEADER, [one._cells() for one in self.entries[:15]])

    def page(self, title: str = "where digits are lost") -> Report:
        """The whole table as a page; operators that lost more than three digits stand out."""
        marked = [at for at, one in enumerate(self.entries) if one.growth > 1e3]
        rows = [one._cells() for one in self.entries]
        return Report(title, f"<p>{self._title()}</p>{table(_HEADER, rows, marked)}")

    def save(self, path: Any) -> str:
        """Write the page as an .html file."""
        return self.page().save(path)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def precision(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Precision:
    """Run `fn(*args, **kwargs)` and its backward beside a float64 shadow; who loses digits, where.

    A tensor that it returns with a history is differentiated (its sum), unless it called backward()
    itself. Gradients add to `.grad` as they always do. Errors are relative, in the Euclidean norm.

    >>> import pullback as torch
    >>> x = torch.tensor([1e-4, 2e-4], requires_grad=True)
    >>> found = torch.autograd.precision(lambda: (1 - x.cos()).sum())  # a classic: 0.5 * x * x
    >>> found[0].operator, found[0].digits < 2
    ('rsub', True)
    """
    shadows = _Shadows()
    with shadows.on():
        result = fn(*args, **kwargs)
        if not shadows.went_back and isinstance(result, Tensor) and result.grad_fn is not None:
            (result if result.numel() == 1 else result.sum()).backward()
    outputs = [one for one in _tensors(result) if one.dtype.is_floating_point]
    error = max((shadows.error(one) for one in outputs), default=0.0)
    return Precision(list(shadows.found.values()), error, shadows.gradient_errors(), result)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for one in value for t in _tensors(one)] if isinstance(value, tuple | list) else []


class _Shadows:
    """The handler of operator calls, and who is told of nodes."""

    def __init__(self) -> None:
        self.found: dict[Any, Lost] = {}
        # What arrived at each leaf, and what its shadow would have got.
        self._arrived: dict[Any, list[Any]] = {}
        self.went_back = False
        # By place in memory, with the array itself, so that the place is not used again.
        self._known: dict[Any, tuple[Any, Tensor]] = {}
        self._nodes: list[Any] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside, operators run twice."""
        before = settle()
        current.set(changed(before, dispatch=(*before.dispatch, self)))
        node_observers.add(self)
        try:
            yield
        finally:
            node_observers.remove(self)
            current.set(changed(settle(), dispatch=before.dispatch))

    # What the engine tells.

    def start(self, node: Any) -> Any:
        """Before a node."""
        self._nodes.append(node)
        self.went_back = True
        return node

    def ran(self, node: Any, gradients: Any, results: Any) -> Any:
        """After it: what it gives to leaves is added up, as they do."""
        listed = results if isinstance(results, tuple | list) else (results,)
        for edge, result in zip(node._edges, listed, strict=False):
            if isinstance(edge, AccumulateGrad) and isinstance(result, Tensor):
                exact = self.shadow(result)._array
                known = self._arrived.get(edge)
                if known is None:
                    self._arrived[edge] = [result._array, exact]
                elif known[0].shape == result._array.shape:
                    known[0], known[1] = known[0] + result._array, known[1] + exact
        return node

    def gradient_errors(self) -> list[float]:
        """Of each leaf that got one."""
        return [_distance(values, exact) for values, exact in self._arrived.values()]

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go."""
        if self._nodes:
            self._nodes.pop()

    # What operators call.

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The operator on its arguments, and on their shadows."""
        kwargs = kwargs or {}
        given = [one for one in _tensors([*args, *kwargs.values()]) if _is_float(one)]
        if not given or "empty" in str(func):  # of what is not yet written nothing can be said
            return func(*args, **kwargs)
        error_in = max(self.error(one) for one in given)
        doubles = tree_map(self._doubled, (args, kwargs))
        drawn = _stream()
        out = func(*args, **kwargs)
        if not numpy.array_equal(drawn, _stream()):
            # Its shadow would draw other numbers: what follows starts from its result.
            for one in _tensors(out):
                self._known.pop(_place(one), None)
            return out
        try:
            shadow = func(*doubles[0], **doubles[1])
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            return out  # an operator for one dtype alone: what follows starts from its result
        self._note(func, error_in, out, shadow)
        return out

    def _doubled(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.shadow(value) if _is_float(value) else value
        if isinstance(value, dtype) and value.is_floating_point:
            return float64
        if isinstance(value, dtype) and value.is_complex:
            return complex128
        return value

    def shadow(self, tensor: Tensor) -> Tensor:
        """The tensor in double precision; exact, where nothing else is known."""
        known = self._known.get(_place(tensor))
        if known is not None:
            return known[1]
        wide = complex128 if tensor.dtype.is_complex else float64
        made = tensor.detach().to(wide, copy=True)
        self._known[_place(tensor)] = (tensor._array, made)
        return made

    def error(self, tensor: Tensor) -> float:
        """How far a tensor is from its shadow."""
        known = self._known.get(_place(tensor))
        return 0.0 if known is None else _distance(tensor._array, known[1]._array)

    def _note(self, func: Any, error_in: float, out: Any, shadow: Any) -> None:
        worst, rounding = 0.0, None
        for one, double in zip(_tensors(out), _tensors(shadow), strict=False):
            if not _is_float(one) or one._array.shape != double._array.shape:
                continue
            self._known[_place(one)] = (one._array, double)
            error = _distance(one._array, double._array)
            if error >= worst:
                worst, rounding = error, from_numpy_dtype(one._array.dtype)
        if rounding is None:
            return
        growth = worst / max(error_in, float(finfo(rounding).eps))
        node = self._nodes[-1] if self._nodes else None
        place = _user_line() if node is None else node._origin
        name = getattr(func, "__name__", str(func)).partition(".")[0].removeprefix("_")
        if node is not None:
            name = f"{type(node).__name__}: {name}"
        phase = "forward" if node is None else "backward"
        key = (name, phase, place)
        seen = self.found.get(key)
        if seen is None:
            self.found[key] = Lost(name, phase, place, 1, error_in, worst, growth)
            return
        seen.calls += 1
        if growth > seen.growth:
            seen.error_in, seen.error_out, seen.growth = error_in, worst, growth


def _user_line() -> Origin | None:
    frame = user_frame(getframe(2))
    return None if frame is None else Origin(frame.f_code, frame.f_lasti)


def _is_float(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _stream() -> Any:
    """Where the stream of random numbers is."""
    return default_generator.get_state()._array


def _place(tensor: Tensor) -> Any:
    array = tensor._array
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def _distance(values: Any, exact: Any) -> float:
    """Relative, in the Euclidean norm; of what is not finite in both, nothing is said."""
    wide = values.astype(exact.dtype)
    both = numpy.isfinite(wide) & numpy.isfinite(exact)
    if not both.all():
        if (numpy.isfinite(wide) != numpy.isfinite(exact)).any():
            return float("inf")
        wide, exact = wide[both], exact[both]
    size = float(numpy.linalg.norm(exact))
    off = float(numpy.linalg.norm(wide - exact))
    if size == 0.0:
        return float("inf") if off else 0.0
    return off / size
