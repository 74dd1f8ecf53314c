"""Switches for behaviour that may become the default one day.

>>> import pullback as torch
>>> torch.__future__.get_swap_module_params_on_conversion()
False
"""

from __future__ import annotations

from pullback.nn.base.swapping import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
    set_overwrite_module_params_on_conversion,
    set_swap_module_params_on_conversion,
)

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]
