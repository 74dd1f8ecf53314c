"""From tensors to Python's numbers, lists and truth, and what is asked of the elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.explain.cause import last_exit, remember_exit, warn_of_exit
from pullback.core.origin import getframe
from pullback.core.overriding import Overridden, answers
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.declare import method

FOUND_IN = {"torch": "is_nonzero"}


@method
def item(self: Tensor) -> Any:
    """The single element as a Python number; RuntimeError if there is not exactly one.

    Example:
        >>> import pullback as torch
        >>> torch.tensor([2.5]).item()
        2.5
    """
    array = self._array
    if array.size != 1:
        raise RuntimeError(
            f"item(): only a tensor of one element becomes a number, this one has {array.size} "
            f"(shape {array.shape}). Index or reduce it first, or use tolist()."
        )
    if self._node is not None:
        frame = getframe(1)
        if (
            frame.f_lasti != last_exit.lasti
            or frame.f_code is not last_exit.code
            or last_exit.how != "item()"
        ):
            remember_exit(self, "item()")
    try:
        return self._plain.item()
    except Overridden:
        return _number_of(self)


def _number_of(self: Tensor) -> Any:
    """The one element; the class of the tensor may be the one who knows it."""
    try:
        return self._plain.item()
    except Overridden:
        if answers(self):
            return ports.answered_below("_local_scalar_dense", self)
        return self._array.item()


@method
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for a 0-d tensor.

    >>> import pullback as torch
    >>> torch.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    if self.__class__ is not Tensor and answers(self):
        raise errors.no_array("tolist()", type(self))
    if self._node is not None:
        frame = getframe(1)
        if (
            frame.f_lasti != last_exit.lasti
            or frame.f_code is not last_exit.code
            or last_exit.how != "tolist()"
        ):
            remember_exit(self, "tolist()")
    return self._array.tolist()


def _bool(self: Tensor) -> bool:
    array = self._array
    if array.size == 1:
        return bool(_number_of(self))
    many = "more than one value" if array.size else "no values"
    raise RuntimeError(
        f"The truth of a tensor with {many} is ambiguous (shape {array.shape}). Use .any(), .all() "
        "or .numel()."
    )


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero; RuntimeError if there is not exactly one.

    >>> import pullback as torch
    >>> torch.is_nonzero(torch.tensor([0.0]))
    False
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("is_nonzero", "input", input)
    return _bool(input)


def _one_number(self: Tensor, kind: str) -> Any:
    array = self._array
    if array.size != 1:
        raise ValueError(
            f"{kind}(): only a tensor of one element becomes a number, this one has shape "
            f"{array.shape}."
        )
    if self._node is not None:
        (remember_exit if kind == "int" else warn_of_exit)(self, f"{kind}()")
    return _number_of(self)


def _real_number(self: Tensor, kind: str) -> Any:
    number = _one_number(self, kind)
    if isinstance(number, complex):
        if number.imag:
            raise RuntimeError(
                f"{kind}(): {number} has an imaginary part, which {kind} cannot hold; "
                "take `.real` first."
            )
        return number.real
    return number


def _float(self: Tensor) -> float:
    return float(_real_number(self, "float"))


def _int(self: Tensor) -> int:
    return int(_real_number(self, "int"))


def _complex(self: Tensor) -> complex:
    return complex(_one_number(self, "complex"))


def _index(self: Tensor) -> int:
    array = self._array
    if array.size != 1 or array.dtype.kind not in "iub":
        raise TypeError(
            "only an integer tensor of one element can be an index here, this one has dtype "
            f"{self.dtype} and shape {array.shape}."
        )
    return int(_number_of(self))


# Elements ---------------------------------------------------------------------------------------


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, Tensor):
        element = element._array
    elif not isinstance(element, int | float | complex | numpy.generic):
        kind = type(element).__name__
        raise RuntimeError(
            f"`in` looks for numbers and tensors among the elements, not for {kind}."
        )
    try:
        return bool(numpy.equal(self._array, element).any())
    except OverflowError as error:
        raise errors.too_large("in", error) from None
    except ValueError:
        raise errors.shapes_do_not_broadcast("in", self._array.shape, element.shape) from None


def _iter(self: Any) -> Any:
    if self._array.ndim == 0:
        raise TypeError("A 0-d tensor cannot be iterated over; item() gives its number.")
    return iter(self.unbind(0))


def _reversed(self: Any) -> Any:
    return self.flip(0) if self._array.ndim else self


# Special methods, attached by methods.py.
DUNDERS: dict[str, Callable[..., Any]] = {
    "__bool__": _bool,
    "__complex__": _complex,
    "__contains__": _contains,
    "__float__": _float,
    "__index__": _index,
    "__int__": _int,
    "__iter__": _iter,
    "__reversed__": _reversed,
}
