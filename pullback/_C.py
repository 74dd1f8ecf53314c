"""What torch keeps in its C++ module and programs reach for all the same."""

from __future__ import annotations

from types import SimpleNamespace

from pullback.core.tensor import Tensor
from pullback.core.view import CreationMeta, View

__all__: list[str] = []


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
    _set_creation_meta=_set_creation_meta,
)
