"""What `torch._C._autograd` knows: creation tags of views, versions, saved-tensor hooks."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.autograd.profiler import _profiler_enabled, kineto_available
from pullback.core.mode import get_mode
from pullback.core.node import next_sequence_number
from pullback.core.saved import SavedTensor
from pullback.core.tensor import Tensor
from pullback.core.version import own_cell
from pullback.core.view import CreationMeta, View
from pullback.engine import task

__all__ = [
    "CreationMeta",
    "SavedTensor",
    "_get_creation_meta",
    "_get_current_graph_task_keep_graph",
    "_get_sequence_nr",
    "_profiler_enabled",
    "_saved_tensors_hooks_get_disabled_error_message",
    "_saved_tensors_hooks_is_enabled",
    "_set_creation_meta",
    "_unsafe_set_version_counter",
    "kineto_available",
]

_get_current_graph_task_keep_graph = task.keeps_graph
_get_sequence_nr = next_sequence_number


def _view(tensor: Tensor) -> View:
    if not tensor._is_view():
        raise RuntimeError("Only views have a creation tag, and this tensor is none.")
    view: View = tensor._node
    return view


def _get_creation_meta(tensor: Tensor) -> CreationMeta:
    """How a view was made, which decides what may be written through it."""
    return _view(tensor).manner.creation


def _set_creation_meta(tensor: Tensor, tag: CreationMeta) -> None:
    """Change what a view remembers of its making."""
    _view(tensor).change(creation=tag)


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether saved-tensor hooks may be used here."""
    return get_mode().saved_hooks_forbidden is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """What using saved-tensor hooks would say; None where they may be used."""
    return get_mode().saved_hooks_forbidden


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set the version of each tensor: what was saved at that version counts as unchanged."""
    if len(tensors) != len(versions):
        raise RuntimeError(
            f"One version for each tensor is needed, got {len(versions)} for {len(tensors)}."
        )
    for version in versions:
        if version < 0:
            raise RuntimeError(f"A version counts writes, so it cannot be {version}.")
    for tensor, version in zip(tensors, versions, strict=True):
        own_cell(tensor)[0] = version
