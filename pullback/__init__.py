"""pullback: PyTorch's autograd in Python you can read, on NumPy."""

from __future__ import annotations

from pullback.core.dtype import *  # noqa: F403
from pullback.core.tensor import Tensor
from pullback.operators import build as _build
from pullback.operators.arithmetic import add, mul, sub
from pullback.operators.methods import attach_methods as _attach_methods

_attach_methods()
