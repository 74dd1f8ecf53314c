"""The functions of two masked tensors, by name: from these lists programs see what works."""

__all__ = ["BINARY_NAMES", "INPLACE_BINARY_NAMES"]

BINARY_NAMES = [
    *("add", "atan2", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift"),
    *("bitwise_right_shift", "div", "divide", "floor_divide", "fmod", "logaddexp", "logaddexp2"),
    *("mul", "multiply", "nextafter", "remainder", "sub", "subtract", "true_divide", "eq", "ne"),
    *("le", "ge", "greater", "greater_equal", "gt", "less_equal", "lt", "less", "maximum"),
    *("minimum", "fmax", "fmin", "not_equal"),
]
# torch has no such form of the others.
_ONLY_NEW = ("logaddexp", "logaddexp2", "equal", "fmin", "minimum", "maximum", "fmax")
INPLACE_BINARY_NAMES = [f"{name}_" for name in BINARY_NAMES if name not in _ONLY_NEW]
