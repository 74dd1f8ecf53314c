"""How a tensor looks: `tensor([1., 2.], grad_fn=<MulBackward0>)`.

Three steps: choose the elements to show, find one format that suits them all, lay them out in
rows. What the tensor is besides its values follows as suffixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.device import CPU, get_default_device
from pullback.core.dtype import OF_NUMBERS, bool_, default, int64
from pullback.core.forward import visible_levels
from pullback.core.memory.narrow import wide
from pullback.core.nesting import running
from pullback.core.ports import ports
from pullback.core.tensor import Tensor

FOUND_IN = {"torch": "get_printoptions printoptions set_printoptions"}


class _PrintOptions:
    def __init__(self) -> None:
        self.precision: int = 4
        self.threshold: float = 1000
        self.edgeitems: int = 3
        self.linewidth: int = 80
        self.sci_mode: bool | None = None


_options = _PrintOptions()
_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": numpy.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors are printed, in the whole process.

    Args:
        precision: Digits after the point.
        threshold: From more elements than this, only the edges are shown.
        edgeitems: How many elements at each edge.
        linewidth: Characters in a line.
        profile: "default", "short" or "full": the four above at once.
        sci_mode: Always (True) or never (False) `1.0000e+00`; None decides by the values.

    Example:
        >>> import pullback as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.12345])
        tensor([1.12])
        >>> torch.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile {profile!r} is none of {', '.join(_PROFILES)}.")
        for name, value in _PROFILES[profile].items():
            setattr(_options, name, value)
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, number in given.items():
        if number is not None:
            setattr(_options, name, number)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """How tensors are printed now.

    >>> import pullback as torch
    >>> torch.get_printoptions()["precision"]
    4
    """
    return {**vars(_options)}


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Other print options within a block.

    Example:
        >>> import pullback as torch
        >>> with torch.printoptions(precision=1):
        ...     print(torch.tensor([0.25]))
        tensor([0.2])
    """
    before = get_printoptions()
    try:
        set_printoptions(**options)
        yield
    finally:
        vars(_options).update(before)


# Numbers ----------------------------------------------------------------------------------------

Format = Callable[[Any], str]


def _format_for(values: Array) -> tuple[Format, int]:
    """One way to write all of `values`, and the width of the widest."""
    kind = values.dtype.kind
    if values.dtype.char == OF_NUMBERS:  # fractions and the like, as they write themselves
        kind = "O"
    if kind == "c":
        return _complex_format(values)
    if kind in "fV":
        return _float_format(values.astype(numpy.float64))
    width = max((len(str(value)) for value in values.tolist()), default=1)
    return lambda value: str(value).rjust(width), width


def _float_format(values: Array) -> tuple[Format, int]:
    """As torch: zeros, inf and NaN do not count, neither for the format nor for the width."""
    counted = values[numpy.isfinite(values) & (values != 0)]
    write = _float_writer(counted, _options.sci_mode)
    width = max((len(write(value)) for value in counted.tolist()), default=1)
    return lambda value: write(value).rjust(width), width


def _float_writer(counted: Array, scientific: bool | None) -> Format:
    precision = _options.precision
    sizes = numpy.abs(counted)
    whole = bool((sizes == numpy.ceil(sizes)).all())
    if not sizes.size:
        scientific = False
    elif scientific is None:
        smallest, largest = float(sizes.min()), float(sizes.max())
        scientific = largest / smallest > 1000 or largest > 1e8
        scientific = scientific or (not whole and smallest < 1e-4)
    if scientific:
        return lambda value: f"{value:.{precision}e}"
    if whole:
        return lambda value: f"{value:.0f}." if isfinite(value) else f"{value:.0f}"
    return lambda value: f"{value:.{precision}f}"


def _complex_format(values: Array) -> tuple[Format, int]:
    real, real_width = _float_format(values.real.astype(numpy.float64))
    imaginary, imaginary_width = _float_format(values.imag.astype(numpy.float64))

    def write(value: complex) -> str:
        part = imaginary(value.imag).lstrip() + "j"
        return real(value.real) + (part if part[0] in "+-" else "+" + part)

    return write, real_width + imaginary_width + 1


# Rows -------------------------------------------------------------------------------------------


def _edges(array: Array) -> Array:
    """The elements that are shown when only the edges are."""
    edge = _options.edgeitems
    for dim, length in enumerate(array.shape):
        if length > 2 * edge:
            shown = numpy.r_[:edge, length - edge : length]
            array = array.take(shown, dim)
    return array


def _laid_out(array: Array, indent: int, format: Format, width: int, *, edges_only: bool) -> str:
    """Brackets within brackets, rows broken at the width of a line."""
    if array.ndim == 0:
        return format(array.item())
    if array.ndim == 1:
        return _row(array, indent, format, width, edges_only=edges_only)
    parts = [
        _laid_out(part, indent + 1, format, width, edges_only=edges_only)
        if part is not None
        else "..."
        for part in _shown(array, edges_only=edges_only)
    ]
    between: str = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def _shown(array: Array, *, edges_only: bool) -> list[Any]:
    """The parts along the first dimension; None stands for those left out."""
    edge, length = _options.edgeitems, len(array)
    if not edges_only or length <= 2 * edge:
        return [array[i, ...] for i in range(length)]
    first = [array[i, ...] for i in range(edge)]
    return [*first, None, *(array[i, ...] for i in range(length - edge, length))]


def _row(array: Array, indent: int, format: Format, width: int, *, edges_only: bool) -> str:
    if edges_only and not _options.edgeitems:
        texts = ["..."]
    else:
        parts = _shown(array, edges_only=edges_only)
        texts = [" ..." if part is None else format(part.item()) for part in parts]
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def values_text(array: Array, indent: int) -> str:
    """The elements in brackets, from column `indent` on."""
    if array.size == 0:
        return "[]"
    array = wide(array)
    edges_only = array.size > _options.threshold
    chosen = _edges(array) if edges_only else array
    format, width = _format_for(chosen.reshape(-1))
    return _laid_out(array, indent, format, width, edges_only=edges_only)


# The whole --------------------------------------------------------------------------------------


def describe(tensor: Tensor, prefix: str = "tensor") -> str:
    """The text that `repr` gives; subclasses may pass another word in front."""
    array = tensor._array
    opening = f"{prefix}("
    if type(array) in LIBRARIES:
        array = ports.placed(array, CPU)
    text = opening + ("..." if _has_no_data(array) else values_text(array, len(opening)))
    return with_suffixes(text, len(opening), _suffixes(tensor))


def with_suffixes(
    text: str, indent: int, suffixes: Iterator[str], *, on_a_new_line: bool = False
) -> str:
    """The text and what follows it, lines broken before the width is reached."""
    last_line = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if on_a_new_line or last_line + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            last_line = indent + len(suffix)
            on_a_new_line = False
        else:
            text += ", " + suffix
            last_line += len(suffix) + 2
    return text + ")"


def _has_no_data(array: Array) -> bool:
    """Whether it is an array of device "meta"; one whose values are not known yet refuses here."""
    if (refuse := getattr(array, "refuse_text", None)) is not None:
        refuse()
    return hasattr(array, "_device")


def _suffixes(tensor: Tensor) -> Iterator[str]:
    array, own = tensor._array, tensor.dtype
    if tensor.device != get_default_device() and tensor.device.type != "cpu":
        yield f"device='{tensor.device}'"
    if _has_no_data(array) or ((array.ndim != 1) if array.size == 0 else not _options.edgeitems):
        yield f"size={array.shape}"
    usual = own is default.dtype
    if array.size and not _has_no_data(array):
        usual = usual or own is int64 or own is bool_
        usual = usual or (own.is_complex and own.to_real() is default.dtype)
    if not usual:  # numbers of another type by the class that `dtype=` takes
        yield f"dtype={getattr(own.numpy, 'written', own)}"
    if told := history(tensor):
        yield told
    for level in visible_levels()[-1:]:
        tangent = level.get(tensor)
        if tangent is not None:
            yield f"tangent={tangent!r}"


def history(tensor: Tensor) -> str:
    """What is shown of a tensor's place in the graph."""
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was written where that is forbidden
        return "grad_fn=<Invalid>"
    if node is not None:
        return f"grad_fn=<{type(node).__name__}>"
    return "requires_grad=True" if tensor.requires_grad else ""


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The tensor as text; with `tensor_contents`, that stands where its elements would."""
    name = "tensor" if type(self) is Tensor else type(self).__name__
    if tensor_contents is not None:
        text = with_suffixes(f"{name}({tensor_contents}", len(name) + 1, _suffixes(self))
    elif running.get() and (inside := ports.shown_inside(self)):
        return inside
    else:
        text = describe(self, name)
    return f"Parameter({text})" if vars(self).get("_is_param") else text


def _format(self: Tensor, spec: str) -> str:
    """A 0-d tensor is written as its number."""
    if self._array.ndim == 0 and type(self) is Tensor and not self.is_meta:
        return format(self._array.item(), spec)
    return object.__format__(self, spec)


# Special methods, attached by methods.py.
DUNDERS: dict[str, Callable[..., Any]] = {"__format__": _format, "__repr__": _repr}
