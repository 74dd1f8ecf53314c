"""Insight: backward(), grad() and grad modes, and the tools that check, measure and show passes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pullback.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from pullback.autograd.grad_mode import (
    _unsafe_preserve_version_counter,  # noqa: F401 (torch's name for it is private too)
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.autograd.variable import Variable, variable
from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode
from pullback.core.node import next_sequence_number
from pullback.core.overriding import FUNCTIONS
from pullback.core.ports import ports
from pullback.core.saved import SavedTensor
from pullback.core.tensor import Tensor
from pullback.operators.dispatch.dispatch import offered

if TYPE_CHECKING:  # loaded when first asked for, see `_LATER`
    from pullback.autograd import forward_ad, functional, graph, numbers
    from pullback.autograd.function import Function
    from pullback.autograd.multithreading import (
        enforce_grad_layout_policy,
        is_multithreading_enabled,
        set_multithreading_enabled,
    )
    from pullback.engine.backward import backward, grad

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "detect_nan",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "get_backward_threads",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "numbers",
    "set_backward_threads",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


# Programs use these, private as they are.
_get_sequence_nr = next_sequence_number


def _is_checkpoint_valid() -> bool:
    valid: bool = import_module("pullback.engine.task").is_checkpoint_valid()
    return valid


def _calculate_shape(output: Any, grad: Tensor, is_grads_batched: bool) -> tuple[Any, Any]:
    """Shape of an output (a tensor or a GradientEdge) and of one gradient for it."""
    if isinstance(output, Tensor):
        shape = output.shape
    else:
        shape = type(grad.shape)(output.node._input_metadata[output.output_nr].shape)
    return shape, grad.shape[1:] if is_grads_batched else grad.shape


def _backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute the gradients of this tensor and accumulate them into the `.grad` of its leaves.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x ** 2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if self._overrides & FUNCTIONS or get_mode().functions:
        options = {
            "gradient": gradient,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": inputs,
        }
        taken, _ = offered(Tensor.backward, (self,), options)
        if taken:
            return
    if gradient is None and inputs is None and not (retain_graph or create_graph):
        alone = getattr(self._node, "_run_alone", None)  # of the node of a compiled call
        if alone is not None and alone():
            return
    try:
        run = backward  # as it is now: somebody may look on by standing in for it
    except NameError:  # the engine loads with the first pass: a tenth of what importing took
        run = __getattr__("backward")
    run(self, gradient, retain_graph, create_graph, inputs=inputs)


def _over_batch(*arguments: Any) -> Any:
    # The engine lies below the transforms that batched gradients need.
    return import_module("pullback.transforms.mapping").over_batch(*arguments)


def _drawn(node: Any) -> str:
    shown: str = import_module("pullback.autograd.show").show(node)._repr_html_()
    return shown


ports.fill(over_batch=_over_batch, drawn=_drawn)

_backward.__name__ = _backward.__qualname__ = "backward"
Tensor.backward = _backward  # type: ignore[method-assign, assignment]  # methods attach themselves

# Name -> the module of this package that has it, or with a dot, of pullback.
_LATER = {
    "backward": ".engine.backward",
    "grad": ".engine.backward",
    "Function": "function",
    "_force_original_view_tracking": "grad_mode",
    "_profiler_enabled": "profiler",
    "detect_nan": "check.nan_search",
    "get_backward_threads": "backward_threads",
    "set_backward_threads": "backward_threads",
    "enforce_grad_layout_policy": "multithreading",
    "is_multithreading_enabled": "multithreading",
    "is_view_replay_enabled": "grad_mode",
    "kineto_available": "profiler",
    "precision": "answers.precision",
    "set_multithreading_enabled": "multithreading",
}
_MODULES = (
    *("forward_ad", "function", "functional", "graph", "numbers", "profiler", "profiler_util"),
)


def __getattr__(name: str) -> Any:
    if name == "torch":  # programs find the package through this module, as in torch
        return import_module("pullback")
    if name in _MODULES:
        return import_module(f"pullback.autograd.{name}")
    if name not in _LATER:
        raise absent(__name__, name)
    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found


__dir__ = _only_public(
    globals(),
    "anomaly_mode forward_ad function functional grad_mode graph is_view_replay_enabled "
    "kineto_available numbers profiler profiler_util variable ",
)
