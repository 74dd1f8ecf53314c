"""The functions of one masked tensor, by name: from these lists programs see what works."""

__all__ = ["INPLACE_UNARY_NAMES", "UNARY_NAMES"]

UNARY_NAMES = [
    *("abs", "absolute", "acos", "arccos", "acosh", "arccosh", "angle", "asin", "arcsin", "asinh"),
    *("arcsinh", "atan", "arctan", "atanh", "arctanh", "bitwise_not", "ceil", "clamp", "clip"),
    *("conj_physical", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2"),
    *("expm1", "fix", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "logit", "i0"),
    *("isnan", "nan_to_num", "neg", "negative", "positive", "pow", "rad2deg", "reciprocal"),
    *("round", "rsqrt", "sigmoid", "sign", "sgn", "signbit", "sin", "sinc", "sinh", "sqrt"),
    *("square", "tan", "tanh", "trunc"),
]
# Those that give numbers of another type, or the input itself, have none.
INPLACE_UNARY_NAMES = [
    f"{name}_" for name in UNARY_NAMES if name not in ("angle", "isnan", "positive", "signbit")
]
