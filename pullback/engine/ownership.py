"""Copies that nobody else can see."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array


def private_copy(value: Any) -> Array:
    """A row-major array of its own, from an array or a NumPy scalar."""
    return numpy.array(value, order="C")
