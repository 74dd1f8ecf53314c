"""How exact products of float32 matrices are to be: always fully, whatever is asked for.

torch may use fewer bits on devices that are faster that way. The setting is kept for programs that
read it back.
"""

from __future__ import annotations

import warnings

from pullback.core.origin import stacklevel

__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]

_LEVELS = ("highest", "high", "medium")
_chosen = "highest"


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` chose.

    >>> import pullback as torch
    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _chosen


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 matrices fewer bits; here they keep all, and the word is kept."""
    global _chosen
    if precision not in _LEVELS:
        warnings.warn(
            f"set_float32_matmul_precision: {precision!r} is none of {', '.join(_LEVELS)}; it "
            f"stays {_chosen!r}.",
            UserWarning,
            stacklevel=stacklevel(),
        )
        return
    _chosen = precision
