# ruff: noqa: N999 (torch's name)
"""What programs ask of autograd through torch's private module `_C`, under the same names."""

from __future__ import annotations

from types import SimpleNamespace

from pullback.core.node import next_sequence_number
from pullback.core.tensor import Tensor
from pullback.core.view import CreationMeta, View
from pullback.engine import task

_current_autograd_node = task.current_node
_current_graph_task_execution_order = task.execution_order
_current_graph_task_id = task.task_id
_will_engine_execute_node = task.will_execute


def _view(tensor: Tensor) -> View:
    if not tensor._is_view():
        raise RuntimeError("Only views have a creation tag, and this tensor is none.")
    return tensor._node  # type: ignore[no-any-return]  # the slot is untyped for speed


def _get_creation_meta(tensor: Tensor) -> CreationMeta:
    """How a view was made, which decides what may be written through it."""
    return _view(tensor).creation


def _set_creation_meta(tensor: Tensor, tag: CreationMeta) -> None:
    """Change what a view remembers of its making."""
    _view(tensor).creation = tag


_autograd = SimpleNamespace(
    CreationMeta=CreationMeta,
    _get_creation_meta=_get_creation_meta,
    _get_current_graph_task_keep_graph=task.keeps_graph,
    _get_sequence_nr=next_sequence_number,
    _set_creation_meta=_set_creation_meta,
)
