"""What happens where autograd was told nothing: results without history, and writes it cannot see.

A kernel of the lower-level interface runs in the caller's grad mode, so operators inside it are
recorded. Nobody said that they are all there is, so backward warns when it comes by such a result.
Where the kernel left pullback (NumPy, C), its result has no history although an argument requires
grad; then a node is attached that says so.
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

_MODES = ("nothing", "warn", "error")


class _Setting:
    """What to do when a gradient arrives where there is no formula."""

    mode = "warn"


def set_autograd_fallback_mode(mode: str) -> None:
    """What backward does at an operator without formula: "nothing", "warn" or "error".

    Concerns operators made with `define` and `impl`: with "nothing" their results are left as the
    kernel gave them. "error" is ours alone: a result that came from foreign code raises. Operators
    made with `custom_op` always raise.

    >>> import pullback as torch
    >>> torch.library.set_autograd_fallback_mode("warn")
    """
    if mode not in _MODES:
        raise RuntimeError(f"the mode must be one of {', '.join(_MODES)}, got {mode!r}.")
    _Setting.mode = mode


def set_torch_fallback_mode(mode: str) -> None:
    """As `set_autograd_fallback_mode`, with the two modes that torch has."""
    if mode == "error":
        raise RuntimeError("torch's modes are 'nothing' and 'warn', got 'error'.")
    set_autograd_fallback_mode(mode)


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
            _warn(self._op, "what lies behind it gets no gradient")
        return (None,) * len(edges)

    _run_tensors = _run


def _warn(op: str, so: str) -> None:
    warnings.warn(
        f"{op} has no backward formula: {so}. Register one with "
        "pullback.library.register_autograd.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


def attach(operator: Operator, tensors: list[Tensor], results: list[Any]) -> None:
    """Let backward say that nobody told it of this operator, as the mode wants."""
    if _Setting.mode == "nothing" or not any(tensor.requires_grad for tensor in tensors):
        return
    if _Setting.mode == "warn":
        for result in results:
            if isinstance(result, Tensor) and result.requires_grad:
                _warn_behind(operator, result)
    _attach_lost(operator, tensors, results)


def _warn_behind(operator: Operator, result: Tensor) -> None:
    """Warn when a gradient arrives at a result that the kernel gave a history."""
    name = operator.qualname

    def tell(g: Any) -> None:
        _warn(name, "the gradients behind it are those of what its kernel called")

    result.register_hook(tell)
    base = result._base if operator.schema.is_mutable else None
    if base is not None and base.requires_grad:
        base.register_hook(tell)


def _attach_lost(operator: Operator, tensors: list[Tensor], results: list[Any]) -> None:
    """Lead results that lost their history to a node that says so."""
    lost = [
        result
        for result in results
        if isinstance(result, Tensor)
        and result._node is None
        and result._array.dtype.kind in "fcVW"
        and not any(result is tensor for tensor in tensors)
    ]
    if not lost:
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
