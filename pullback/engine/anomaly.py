"""What anomaly mode does during a pass: look for NaN, show the forward call of a failed node."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from pullback.core import origin
from pullback.core.arrays import OtherArray
from pullback.core.overriding import DISPATCH
from pullback.core.tensor import Tensor


class NaNFound(RuntimeError):  # noqa: N818 (the user gets a plain one, as from torch)
    """A gradient contains NaN; until it leaves the pass, so that it can be told from others."""

    def told(self) -> RuntimeError:
        """What the user gets."""
        error = RuntimeError(*self.args)
        for note in getattr(self, "__notes__", ()):
            error.add_note(note)
        return error


def check_nan(node: Any, results: tuple[Any, ...]) -> None:
    """Raise if any gradient that a node returned contains NaN."""
    for index, result in enumerate(results):
        if result is not None and holds_nan(result):
            raise NaNFound(
                f"{type(node).name(node)} returned nan values in its output {index} (the gradient "
                "of its input "
                f"{index}). The warning above shows the forward call; look there for 0/0, log of "
                "a negative number "
                "or an overflow."
            )


def holds_nan(result: Any) -> bool:
    """Whether a gradient, array or tensor, contains NaN."""
    array = result._array if isinstance(result, Tensor) else result
    if isinstance(array, OtherArray):
        array = array.values
    if array.dtype.kind not in "fcVW":
        return False
    if isinstance(result, Tensor) and result._overrides & DISPATCH:
        return bool(result.isnan().any())
    return bool(numpy.isnan(array).any())


def show_forward(node: Any) -> None:
    """Warn with the stack that made `node`, then with those of the nodes that it was made by."""
    first = True
    while node is not None:
        stack = node.metadata.get("traceback_")
        name = type(node).name(node)
        if stack is None:
            text = (
                f"Error detected in {name}. No forward call is known: anomaly mode was off then. "
                "Switch it on "
                "before the forward pass."
            )
        elif first:
            told = f"Error detected in {name}. Traceback of forward call that caused the error:"
            text = f"{told}\n{''.join(stack)}"
        else:
            told = f"Previous calculation was induced by {name}. Traceback of its forward call:"
            text = f"{told}\n{''.join(stack)}"
        warnings.warn(text, UserWarning, stacklevel=origin.stacklevel())
        first = False
        node = node.metadata.get("parent_")
