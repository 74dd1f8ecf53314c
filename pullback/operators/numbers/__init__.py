"""Operators whose kernels are made for floats, once more for numbers of any type (core/numbers).

Plain textbook forms, loaded when a program first computes with such numbers. Each enters itself
under the name of its operator, and takes the type of the numbers and what the operator's forward
takes.
"""

from collections.abc import Callable
from typing import Any

from pullback.operators.numbers import elimination, norms, special

KERNEL_OVERRIDES: dict[str, Callable[..., Any]] = {
    **elimination.KERNEL_OVERRIDES,
    **norms.KERNEL_OVERRIDES,
    **special.KERNEL_OVERRIDES,
}
