"""What happens where autograd was told nothing: results without history, and writes it cannot see.

A kernel of the lower-level interface runs in the caller's grad mode, so operators inside it are
recorded. Where it left pullback (NumPy, C), its result has no history although an argument requires
grad; then a node is attached that says so when backward comes by.
"""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core import origin
from pullback.core.node import OperatorNode, Output
from pullback.core.origin import getframe, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.library.call.node import no_formula
from pullback.library.registry import Operator

_MODES = ("error", "warn", "nothing")


class _Setting:
    """What to do when a gradient arrives where there is no formula."""

    mode = "error"


def set_autograd_fallback_mode(mode: str) -> None:
    """What backward does at an operator without formula: "error", "warn" or "nothing".

    Concerns operators made with `define` and `impl`; torch's default is "warn", which gives no
    gradient to what lies behind. Those made with `custom_op` always raise.

    >>> import pullback as torch
    >>> torch.library.set_autograd_fallback_mode("error")
    """
    if mode not in _MODES:
        raise ValueError(f"the mode must be one of {', '.join(_MODES)}, got {mode!r}.")
    _Setting.mode = mode


def get_autograd_fallback_mode() -> str:
    """What `set_autograd_fallback_mode` was last given."""
    return _Setting.mode


class WarnNotImplemented(OperatorNode):
    """The node of a result that came from foreign code: raises or warns in backward."""

    __slots__ = ("_g_sizes", "_op")

    _op: str
    _g_sizes: tuple[Any, ...] | None

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        if _Setting.mode == "error":
            raise no_formula(self._op)
        if _Setting.mode == "warn":
            warnings.warn(
                f"{self._op} has no backward formula: what lies behind it gets no gradient. "
                "Register one with pullback.library.register_autograd.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        return (None,) * len(edges)

    _run_tensors = _run


def attach(operator: Operator, tensors: list[Tensor], results: list[Any]) -> None:
    """Lead results that lost their history to a node that says so."""
    lost = [
        result
        for result in results
        if isinstance(result, Tensor)
        and result._node is None
        and result._array.dtype.kind in "fcV"
        and not any(result is tensor for tensor in tensors)
    ]
    if not lost or not any(tensor.requires_grad for tensor in tensors):
        return
    node = WarnNotImplemented()
    node._op = operator.qualname
    node._edges = tuple(edge_of(tensor) for tensor in tensors)
    node._cold = None
    sizes = [(result._array.shape, result._array.dtype) for result in lost]
    node._g_shape, node._g_dtype = sizes[0]
    frame = user_frame(getframe(2))
    node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    node._seq = numbering.next()
    node._g_sizes = None if len(lost) == 1 else tuple(sizes)
    if len(lost) == 1:
        lost[0]._node = node
        return
    for number, result in enumerate(lost):
        result._node = Output(node, number, *sizes[number])


def warn_of_write(operator: Operator, values: list[Any]) -> None:
    """Say once that a write to a tensor that requires grad is not seen by autograd."""
    if operator.warned_of_write:
        return
    for argument, value in zip(operator.schema.arguments, values, strict=True):
        listed = value if isinstance(value, list) else [value]
        if not argument.is_write or not any(
            isinstance(one, Tensor) and one.requires_grad for one in listed
        ):
            continue
        operator.warned_of_write = True
        warnings.warn(
            f"{operator.qualname} writes to its argument {argument.name!r}, which requires grad. "
            "Autograd does not see such a write: gradients will be those of the value before it. "
            "Use an operator that returns its result, or call this one under no_grad.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
        return
