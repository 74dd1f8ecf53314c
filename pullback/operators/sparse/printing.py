"""How a sparse tensor looks: its indices and values as tensors, then what it is besides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.device import CPU, META
from pullback.core.dtype import bool_, default, int64
from pullback.core.layout import sparse_coo
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.pattern import BY_ROW
from pullback.operators.tensor.printing import history, values_text, with_suffixes

__all__ = ["describe"]

_INDENT = " " * 7


def describe(self: Any) -> str:
    """The text that `repr` gives."""
    pattern = pattern_of(self)
    if self._layout is sparse_coo:
        parts = {"indices": pattern.stored}
    elif self._layout in BY_ROW:
        parts = {"crow_indices": pattern.compressed, "col_indices": pattern.plain}
    else:
        parts = {"ccol_indices": pattern.compressed, "row_indices": pattern.plain}
    parts["values"] = self._array.values
    shown = [f"{name}={_part(name, array)}" for name, array in parts.items()]
    between = f",\n{_INDENT}"
    text = f"tensor({between.join(shown)}"
    apart = self._layout is sparse_coo  # others go on behind the values, as in torch
    return with_suffixes(text, len(_INDENT), _facts(self, pattern), on_a_new_line=apart)


def _part(name: str, array: Any) -> str:
    """An index or value tensor; an empty one tells its size."""
    if getattr(array, "_device", CPU) is META:
        return f"tensor(..., device='meta', size={tuple(array.shape)})"
    if array.size == 0:
        return f"tensor([], size={tuple(array.shape)})"
    return f"tensor({values_text(array, len(f'{_INDENT}{name}=tensor('))})"


def _facts(self: Any, pattern: Any) -> Iterator[str]:
    yield f"size={pattern.shape}"
    yield f"nnz={pattern.nnz}"
    own = self.dtype
    usual = own is default.dtype or own in (int64, bool_)
    if not (usual or (own.is_complex and own.to_real() is default.dtype)):
        yield f"dtype={own}"
    yield f"layout={self.layout}"
    if told := history(self):
        yield told
