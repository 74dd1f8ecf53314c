"""The same names as `_pytree`: torch's second version is in C++, here there is one."""

from __future__ import annotations

from pullback.utils import _pytree
from pullback.utils._pytree import *  # noqa: F403 (its __all__ is the list)

__all__ = list(_pytree.__all__)
