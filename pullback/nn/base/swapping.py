"""What conversions of modules do to parameters: write into them, replace them, or swap them.

The choices are process-wide, and are made by way of `torch.__future__`.
"""

from __future__ import annotations

_chosen = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether conversions put new parameters in place of the old ones."""
    _chosen["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions put new parameters in place of the old ones; no, unless chosen."""
    return _chosen["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions and load_state_dict swap parameters with what they make."""
    _chosen["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and load_state_dict swap parameters; no, unless chosen."""
    return _chosen["swap"]
