"""The package under the name that its users give it: distributions call it as they would.

Typed Any, as its names are collected at run time.
"""

from __future__ import annotations

from typing import Any

import pullback

__all__ = ["torch"]

torch: Any = pullback
