"""`torch._tensor_str`: how tensors are printed, for classes of tensors that print themselves."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.tensor import printing
from pullback.operators.tensor.printing import printoptions, set_printoptions

__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]

PRINT_OPTS = printing._options


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements in brackets, from column `indent` on."""
    return printing.values_text(self.detach().resolve_conj().resolve_neg()._array, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    return printing.with_suffixes(tensor_str, indent, iter(suffixes), on_a_new_line=force_newline)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """What `repr` gives, or the same around other contents."""
    if tensor_contents is None:
        return printing.describe(self)
    return printing.with_suffixes(f"tensor({tensor_contents}", 7, printing._suffixes(self))


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    return _str(inp, tensor_contents=tensor_contents)
