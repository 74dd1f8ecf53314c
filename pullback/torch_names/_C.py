"""What programs ask of autograd through torch's private module `_C`, under the same names."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad, Node, next_sequence_number
from pullback.core.overriding import disabled_dispatch, disabled_function
from pullback.core.tensor import Tensor
from pullback.core.view import CreationMeta, View
from pullback.engine import task
from pullback.operators.attach import later
from pullback.operators.declare import OPERATORS
from pullback.operators.running.inplace import CopySlices
from pullback.operators.writing.nodes import node_class

_disabled_torch_function_impl = disabled_function
_disabled_torch_dispatch_impl = disabled_dispatch
_current_autograd_node = task.current_node
_current_graph_task_execution_order = task.execution_order
_current_graph_task_id = task.task_id
_will_engine_execute_node = task.will_execute


def _view(tensor: Tensor) -> View:
    if not tensor._is_view():
        raise RuntimeError("Only views have a creation tag, and this tensor is none.")
    return tensor._node


def _get_creation_meta(tensor: Tensor) -> CreationMeta:
    """How a view was made, which decides what may be written through it."""
    return _view(tensor).creation


def _set_creation_meta(tensor: Tensor, tag: CreationMeta) -> None:
    """Change what a view remembers of its making."""
    _view(tensor).creation = tag


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether saved-tensor hooks may be used here."""
    return get_mode().saved_hooks_forbidden is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """What using saved-tensor hooks would say; None where they may be used."""
    return get_mode().saved_hooks_forbidden


class _Functions:
    """The classes of the built-in nodes, by name."""

    def __getattr__(self, name: str) -> type[Node]:
        found = _node_class(name)
        if found is None:
            for family in later.FUNCTIONS:
                import_module(f"pullback.operators.{family}")
            found = _node_class(name)
        if found is None:
            raise AttributeError(f"No operator has a node called {name!r}.")
        return found


def _node_class(name: str) -> type[Node] | None:
    by_hand: dict[str, type[Node]] = {"AccumulateGrad": AccumulateGrad, "CopySlices": CopySlices}
    if name in by_hand:
        return by_hand[name]
    named = (op for op in OPERATORS.values() if op.rules and op.node_name == name)
    return next(map(node_class, named), None)


_functions = _Functions()

_autograd = SimpleNamespace(
    CreationMeta=CreationMeta,
    _get_creation_meta=_get_creation_meta,
    _get_current_graph_task_keep_graph=task.keeps_graph,
    _get_sequence_nr=next_sequence_number,
    _saved_tensors_hooks_get_disabled_error_message=_saved_tensors_hooks_get_disabled_error_message,
    _saved_tensors_hooks_is_enabled=_saved_tensors_hooks_is_enabled,
    _set_creation_meta=_set_creation_meta,
)


_HANDLERS = "pullback.operators.watching.switching"
_STACKS = "pullback.utils._python_dispatch"
_LATER = {
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
    "_set_autograd_fallback_mode": ("pullback.library.call.fallback", "set_autograd_fallback_mode"),
    "_after_ADInplaceOrView_keyset": ("pullback.library.call.kernels", "KEYSET"),
    "_after_autograd_keyset": ("pullback.library.call.kernels", "KEYSET"),
    "DispatchKeySet": ("pullback.library.call.kernels", "DispatchKeySet"),
}


def __getattr__(name: str) -> Any:
    """What belongs to the library of operators, which is not imported before it is needed."""
    if name not in _LATER:
        raise AttributeError(f"module 'pullback._C' has no attribute {name!r}")
    module, attribute = _LATER[name]
    return getattr(import_module(module), attribute)
