"""What programs ask of autograd through torch's private module `_C`, under the same names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.autograd.grad_mode import is_grad_enabled, set_grad_enabled
from pullback.core.explain.absent import refusing_class
from pullback.core.mode import change, get_mode
from pullback.core.overriding import disabled_dispatch, disabled_function
from pullback.core.tensor import Tensor
from pullback.engine import task

from . import _autograd, _functions
from ._weak import WeakTensorRef as _WeakTensorRef

__all__ = [
    "_WeakTensorRef",
    "_autograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_functions",
    "_is_fwd_grad_enabled",
    "_set_fwd_grad_enabled",
    "_set_grad_enabled",
    "_will_engine_execute_node",
    "is_grad_enabled",
]

_current_autograd_node = task.current_node
_current_graph_task_execution_order = task.execution_order
_current_graph_task_id = task.task_id
_will_engine_execute_node = task.will_execute


def _set_fwd_grad_enabled(mode: bool) -> None:
    """Let operators of this thread push tangents forward, or not."""
    change(forward_ad=bool(mode))


def _set_grad_enabled(mode: bool) -> None:
    """Let operators of this thread record, or not, from now on."""
    set_grad_enabled(mode)


def _is_fwd_grad_enabled() -> bool:
    """Whether operators of this thread push tangents forward."""
    return get_mode().forward_ad


_disabled_torch_function_impl = disabled_function
_disabled_torch_dispatch_impl = disabled_dispatch


def _get_tracing_state() -> bool | None:
    """Something while `torch.jit.trace` runs a function, else None."""
    return import_module("pullback.jit").is_tracing() or None


# The class of tensors' class.
_TensorMeta = type(Tensor)


def _are_functorch_transforms_active() -> bool:
    """Whether a transform of `torch.func` is running in this thread."""
    inner: Any = import_module("pullback._C._functorch")
    return inner.peek_interpreter_stack() is not None


def _log_api_usage_once(event: str) -> None:
    """Nothing is reported to anybody."""


_HANDLERS = "pullback.operators.dispatch.switching"
_STACKS = "pullback.utils._python_dispatch"
_LATER = {
    "TensorBase": ("pullback", "Tensor"),
    "_TensorBase": ("pullback", "Tensor"),
    "_LinAlgError": ("pullback.linalg", "LinAlgError"),
    "_fft": ("pullback", "fft"),
    "_linalg": ("pullback", "linalg"),
    "_special": ("pullback", "special"),
    "DisableTorchFunction": (_HANDLERS, "DisableTorchFunction"),
    "DisableTorchFunctionSubclass": (_HANDLERS, "DisableTorchFunctionSubclass"),
    "_DisableTorchDispatch": (_HANDLERS, "DisableTorchDispatch"),
    "_EnableTorchFunction": (_HANDLERS, "EnableTorchFunction"),
    "_get_dispatch_stack_at": (_HANDLERS, "dispatch_mode_at"),
    "_get_function_stack_at": (_HANDLERS, "function_mode_at"),
    "_has_torch_function": (_HANDLERS, "has_torch_function"),
    "_has_torch_function_unary": (_HANDLERS, "has_torch_function_unary"),
    "_has_torch_function_variadic": (_HANDLERS, "has_torch_function_variadic"),
    "_is_torch_function_all_disabled": (_HANDLERS, "is_torch_function_all_disabled"),
    "_is_torch_function_enabled": (_HANDLERS, "is_torch_function_enabled"),
    "_is_torch_function_mode_enabled": (_HANDLERS, "is_function_mode_enabled"),
    "_len_torch_dispatch_stack": (_HANDLERS, "len_dispatch_stack"),
    "_len_torch_function_stack": (_HANDLERS, "len_function_stack"),
    "_pop_torch_dispatch_stack": (_STACKS, "_pop_mode"),
    "_push_on_torch_dispatch_stack": (_STACKS, "_push_mode"),
    "_pop_torch_function_stack": ("pullback.overrides", "_pop_mode"),
    "_push_on_torch_function_stack": ("pullback.overrides", "_push_mode"),
    "_AutoDispatchBelowAutograd": ("pullback.library.call.calling", "below_autograd"),
    "_AutoDispatchBelowADInplaceOrView": ("pullback.library.call.calling", "below_autograd"),
    "_get_autograd_fallback_mode": ("pullback.library.call.fallback", "get_autograd_fallback_mode"),
    "_set_autograd_fallback_mode": ("pullback.library.call.fallback", "set_torch_fallback_mode"),
    "_after_ADInplaceOrView_keyset": ("pullback.library.call.kernels", "KEYSET"),
    "_after_autograd_keyset": ("pullback.library.call.kernels", "KEYSET"),
    "_debug_only_are_vmap_fallback_warnings_enabled": (
        "pullback.transforms.vmap_level",
        "loop_warnings_enabled",
    ),
    "_debug_only_display_vmap_fallback_warnings": (
        "pullback.transforms.vmap_level",
        "set_loop_warnings",
    ),
    "FunctionSchema": ("pullback.library.schema", "Schema"),
    "Tag": ("pullback.library", "Tag"),
    "parse_schema": ("pullback.library.schema", "parse_schema"),
    "DispatchKey": ("pullback.library.call.kernels", "DispatchKey"),
    "DispatchKeySet": ("pullback.library.call.kernels", "DispatchKeySet"),
}


_MODULES = ("_functorch", "_nn")
# Types that users know by a shorter path.
_PUBLIC = frozenset(
    [
        *("AcceleratorError", "Future", "Generator", "OutOfMemoryError", "Size", "device"),
        *("dtype", "finfo", "iinfo", "layout", "memory_format", "qscheme"),
    ]
)
# Parts of TorchScript's graphs, by which annotations go.
_SCRIPT = ("Block", "Graph", "Node", "Value")


def __getattr__(name: str) -> Any:
    """What belongs to other modules, which are not imported before they are needed."""
    if name in _MODULES:
        return import_module(f"pullback._C.{name}")
    if name in _PUBLIC:
        return getattr(import_module("pullback"), name)
    if name in _SCRIPT:
        return refusing_class(name)
    if name not in _LATER:
        raise AttributeError(f"module 'pullback._C' has no attribute {name!r}")
    module, attribute = _LATER[name]
    return getattr(import_module(module), attribute)
