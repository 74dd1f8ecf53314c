"""Automatic differentiation: backward(), grad(), grad modes, and tools around them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback import _C  # noqa: F401 (importing it makes it an attribute of the package)
from pullback.autograd import forward_ad, function_vmap, graph
from pullback.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from pullback.autograd.function import Function
from pullback.autograd.function_saved import SavedTensor as _FunctionSavedTensor
from pullback.autograd.grad_mode import (
    _unsafe_preserve_version_counter,  # noqa: F401 (torch's name for it is private too)
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.autograd.multithreading import (
    enforce_grad_layout_policy,
    is_multithreading_enabled,
    set_multithreading_enabled,
)
from pullback.autograd.variable import Variable, variable
from pullback.core.node import next_sequence_number
from pullback.core.saved import SavedTensor
from pullback.core.tensor import Tensor
from pullback.engine.backward import backward, grad
from pullback.engine.task import is_checkpoint_valid
from pullback.transforms import (
    mapping,  # noqa: F401 (gives the engine its batched passes)
    vmap_level,
)

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


SavedTensor.register(_FunctionSavedTensor)

# Programs use these, private as they are.
_get_sequence_nr = next_sequence_number
_is_checkpoint_valid = is_checkpoint_valid


def _backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor to the `.grad` of the leaves it was computed from.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x ** 2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _function_on_batch(
    cls: Any, size: int, randomness: str, in_dims: Any, args: tuple[Any, ...], run: Any
) -> tuple[Any, Any]:
    info = function_vmap.VmapInfo(size, randomness)
    return function_vmap.batched(cls, info, in_dims, args, run)


# The layers below know nothing of custom Functions.
vmap_level.function_rule = _function_on_batch

_backward.__name__ = _backward.__qualname__ = "backward"
Tensor.backward = _backward  # type: ignore[attr-defined]  # methods attach themselves


def __getattr__(name: str) -> Any:
    if name == "functional":  # loaded when first asked for
        return import_module("pullback.autograd.functional")
    raise AttributeError(f"module 'pullback.autograd' has no attribute {name!r}")
