"""Sums, products, quotients and powers: the operators behind Python's signs."""

from __future__ import annotations

from typing import Any

from pullback.operators.declare import Array, Namespace, elementwise


def is_complex(input: Any) -> bool:
    """Whether a number, array or tensor is complex."""
    dtype = getattr(input, "dtype", None)
    if dtype is None:
        return isinstance(input, complex)
    return dtype.is_complex if hasattr(dtype, "is_complex") else dtype.kind == "c"


@elementwise(input=lambda g: conj(g), node="ConjPhysicalBackward0")
def conj_physical(xp: Namespace, input: Array) -> Array:
    """Conjugate each element, in memory of its own."""
    return xp.conjugate(input)


def conj(input: Any) -> Any:
    """The conjugate; what is real comes back as it is. Takes numbers and arrays too, for rules."""
    return conj_physical(input) if is_complex(input) else input


def _times(g: Any, alpha: Any) -> Any:
    return g if alpha == 1 else g * conj(alpha)


@elementwise(input=lambda g: g, other=lambda g, alpha: _times(g, alpha))
def add(xp: Namespace, input: Array, other: Array, *, alpha: Any = 1) -> Array:
    """Add element by element, with broadcasting: `input + alpha * other`."""
    return xp.add(input, other) if alpha == 1 else xp.add(input, other * alpha)


@elementwise(input=lambda g: g, other=lambda g, alpha: -_times(g, alpha))
def sub(xp: Namespace, input: Array, other: Array, *, alpha: Any = 1) -> Array:
    """Subtract element by element, with broadcasting: `input - alpha * other`."""
    return xp.subtract(input, other) if alpha == 1 else xp.subtract(input, other * alpha)


@elementwise(input=lambda g, other: g * conj(other), other=lambda g, input: g * conj(input))
def mul(xp: Namespace, input: Array, other: Array) -> Array:
    """Multiply element by element, with broadcasting."""
    return xp.multiply(input, other)
