"""Where torch keeps the formulas of its older interface; ours are in library/legacy/formulas.py."""

from __future__ import annotations

from pullback.library.legacy.formulas import LegacyFormula, arguments_tuple
from pullback.library.legacy.gradients import by_position

__all__ = ["LegacyFormula", "arguments_tuple", "by_position"]
