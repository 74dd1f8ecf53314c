"""`torch.onnx`: libraries may register how their operators are exported; exporting is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]

# (name of the operator, version) -> the function that would write it.
_symbolics: dict[tuple[str, int], Callable[..., Any]] = {}


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never here.

    >>> import pullback as torch
    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Note how an operator would be exported, so that libraries that say it can be imported.

    >>> import pullback as torch
    >>> torch.onnx.register_custom_op_symbolic("mine::twice", lambda g, x: x, 11)
    >>> torch.onnx.unregister_custom_op_symbolic("mine::twice", 11)
    """
    space, _, name = symbolic_name.partition("::")
    if not space or not name:
        raise ValueError(f"An operator is named 'namespace::name', got {symbolic_name!r}.")
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget what `register_custom_op_symbolic` noted."""
    _symbolics.pop((symbolic_name, opset_version), None)


refuse_others(globals())
__dir__ = _only_public(globals())
