"""How masked tensors are written: dashes where elements do not count."""

from __future__ import annotations

from pullback.core.arrays import Array

__all__ = ["described"]

_WIDTH = 8


def described(data: Array, mask: Array) -> str:
    """The text that `repr` gives."""
    if not data.ndim:
        return f"MaskedTensor({_written(data) if mask else '--'}, {bool(mask)})"
    return f"MaskedTensor(\n{_block(data, mask, '  ')}\n)"


def _block(data: Array, mask: Array, indent: str) -> str:
    """Brackets in brackets, a row a line."""
    if data.ndim == 1:
        row = [
            _written(one) if counts else "--".rjust(_WIDTH)
            for one, counts in zip(data, mask, strict=True)
        ]
        return f"{indent}[{', '.join(row)}]"
    inner = [_block(one, other, indent + "  ") for one, other in zip(data, mask, strict=True)]
    return f"{indent}[\n" + ",\n".join(inner) + f"\n{indent}]"


def _written(value: Array) -> str:
    number = value.item()
    return f"{number:{_WIDTH}.4f}" if isinstance(number, float) else str(number)
