"""Sample inputs of operators that work element by element, and of activations."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from pullback.testing.cases import Case, Draw, Entry, case, entry, kink, real, real_kink

# Where functions have their zeros, kinks, bounds and poles.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 6.0, inf, -inf, nan)


def unary(low: float = -2.0, high: float = 2.0, *more: Any, **options: Any) -> Entry:
    """One tensor, its values between `low` and `high`; `more` functions make further cases."""

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 3, low=low, high=high), **options),
            case(t(low=low, high=high), **options),
            case(t(0, 3), **options),
            real(t.ints(2, 3, low=-3, high=4), **options),
            real_kink(t.of(*SPECIAL), **options),
            *(one for make in more for one in make(t)),
        ]

    return entry(cases, expands=True)


def floats(low: float = -2.0, high: float = 2.0, *more: Any, **options: Any) -> Entry:
    """One tensor, and no integers: for operators that refuse them."""

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 3, low=low, high=high), **options),
            case(t(low=low, high=high), **options),
            case(t(0, 3), **options),
            real_kink(t.of(*SPECIAL), **options),
            *(one for make in more for one in make(t)),
        ]

    return entry(cases, expands=True)


def bits(t: Draw) -> list[Case]:
    """Two tensors of integers or booleans."""
    return [
        case(t.ints(2, 3), t.ints(3)),
        case(t.bools(2, 1), t.bools(1, 3)),
        case(t.ints(2, 3), 3),
        case(t.ints(0, 3), t.ints()),
    ]


def shapes_of_two(t: Draw, low: float, high: float, other: tuple[float, float]) -> list[Case]:
    """Two tensors: equal shapes, broadcasting both ways, 0-d, empty."""
    pairs = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((0, 3), (3,))]
    return [case(t(*a, low=low, high=high), t(*b, low=other[0], high=other[1])) for a, b in pairs]


def binary(
    low: float = -2.0,
    high: float = 2.0,
    *more: Any,
    other: tuple[float, float] | None = None,
    number: float | None = 1.5,
    mixed: bool = True,
) -> Entry:
    """Two tensors, or a tensor and a number; also integers, alone and mixed in."""

    def cases(t: Draw) -> list[Case]:
        found = shapes_of_two(t, low, high, other or (low, high))
        if number is not None:
            found += [case(t(2, 3, low=low, high=high), number), case(t(low=low, high=high), 2)]
        if mixed:
            found += [
                case(t(2, 3, low=low, high=high), t.ints(3, low=1)),
                real(t.ints(2, 3, low=1), t(3, low=low, high=high)),
                real(t.ints(2, 3, low=1), t.ints(2, 3, low=1)),
            ]
        return [*found, *(one for make in more for one in make(t))]

    return entry(cases, expands=True)


def compared(t: Draw) -> list[Case]:
    """Two tensors that share some values."""
    return [
        case(t.of(1, 2, 0, 2), t.of(1, 3, 2, 0)),
        case(t(2, 3), t(3)),
        case(t(0, 3), t(3)),
        case(t.ints(2, 3), t.ints(3)),
        case(t.bools(2, 3), t.bools(3)),
        real_kink(t.of(nan, inf, nan, 0.0), t.of(nan, inf, 1.0, -0.0)),
    ]


def compared_with_numbers(t: Draw) -> list[Case]:
    """Also a tensor and a number."""
    return [*compared(t), case(t(2, 3), 1.5), real(t.ints(2, 3), 2.5)]


def ties(t: Draw) -> list[Case]:
    """Equal pairs and NaN, at which a gradient is a convention."""
    return [real_kink(t.of(1.0, 2.0, nan, 0.5, nan), t.of(1.0, 3.0, 1.0, nan, nan))]


def signs(t: Draw) -> list[Case]:
    """Both signs on both sides, and zeros."""
    return [
        real_kink(t.of(3.5, -3.5, 3.5, -3.5, 0.0, -0.0), t.of(2.0, 2.0, -2.0, -2.0, 1.0, 1.0)),
        real_kink(t.of(1.0, -1.0, 0.0, nan), t.of(0.0, 0.0, 0.0, 1.0)),
    ]


def powers(t: Draw) -> list[Case]:
    """Bases and exponents with a rule of their own, numbers on either side."""
    return [
        *(case(t(2, 3), power) for power in (0, 1, 2, 3, 2.0)),
        case(t.positive(2, 3), 0.5),
        case(t.positive(2, 3), -1.5),
        case(2.5, t(2, 3)),
        real_kink(t.of(0.0, 0.0, 0.0, -1.0, 2.0), t.of(0.0, 1.0, 0.5, 2.0, 0.0)),
        real_kink(t.of(0.0, -2.0, 3.0), 2),
        real_kink(t.of(0.0, 1.0), 0.5),
        real_kink(t.of(0.0, 1.0, -2.0), 0),
    ]


def roundings(t: Draw) -> list[Case]:
    """Quotients rounded down and towards zero."""
    return [
        real(t(2, 3), t.positive(3), rounding_mode=mode) for mode in ("floor", "trunc", None)
    ] + [
        real(t.ints(2, 3, low=-7, high=8), t.ints(3, low=1), rounding_mode="floor"),
        real(t.ints(2, 3, low=-7, high=8), 2, rounding_mode="trunc"),
        real(t.ints(2, 3), t.ints(3, low=1)),
    ]


def scaled(t: Draw) -> list[Case]:
    """`alpha` other than one."""
    return [case(t(2, 3), t(3), alpha=2), case(t(2, 3), t(3), alpha=-0.5), case(t(2), 3, alpha=2)]


def bounds(t: Draw) -> list[Case]:
    """Bounds that are numbers, tensors, missing, crossed, met exactly."""
    return [
        case(t(2, 3), -0.75, 0.8),
        case(t(2, 3), min=-0.6),
        case(t(2, 3), max=0.7),
        case(t(2, 3), t(3, low=-1.5, high=-0.2), t(2, 1, low=0.2, high=1.5)),
        case(t(2, 3), min=t(2, 3)),
        case(t(), -0.25, 0.25),
        case(t(0, 3), -1, 1),
        case(t(2, 3), 1.25, -1.25),
        case(t.ints(2, 3), 1, 3),
        kink(t.of(-1.0, 0.0, 1.0, nan, 2.0), -1.0, 1.0),
        kink(t.of(-1.0, 0.0, 1.0, 3.0), t.of(-1.0, 0.5, 2.0, 1.0), t.of(1.0, 1.0, 1.0, 2.0)),
    ]


UNARY = {
    "abs": unary(),
    "absolute": unary(),
    "acos": unary(-0.9, 0.9),
    "acosh": unary(1.2, 3.0),
    "angle": unary(),
    "asin": unary(-0.9, 0.9),
    "asinh": unary(),
    "atan": unary(-0.8, 0.8),
    "atanh": unary(-0.9, 0.9),
    "ceil": unary(),
    "conj": unary(),
    "conj_physical": unary(),
    "cos": unary(),
    "cosh": unary(),
    "deg2rad": unary(),
    "digamma": unary(0.3, 2.3),
    "erf": unary(),
    "erfc": unary(),
    "erfinv": unary(-0.9, 0.9),
    "exp": unary(),
    "exp2": unary(),
    "expm1": unary(),
    "fix": unary(),
    "floor": unary(),
    "frac": floats(),
    "i0": unary(),
    "isfinite": unary(),
    "isinf": unary(),
    "isnan": unary(),
    "isneginf": unary(),
    "isposinf": unary(),
    "isreal": unary(),
    "lgamma": unary(0.3, 2.3),
    "log": unary(0.3, 2.3),
    "log10": unary(0.3, 2.3),
    "log1p": unary(-0.7, 2.0),
    "log2": unary(0.3, 2.3),
    "logical_not": unary(),
    "logit": unary(0.1, 0.9, lambda t: [case(t.unit(2, 3), 0.2)]),
    "nan_to_num": unary(
        -2, 2, lambda t: [real_kink(t.of(nan, inf, -inf, 1.0), nan=2.0, posinf=3.0, neginf=-3.0)]
    ),
    "neg": unary(),
    "negative": unary(),
    "positive": unary(),
    "rad2deg": unary(),
    "reciprocal": unary(0.3, 2.3),
    "resolve_conj": unary(),
    "resolve_neg": unary(),
    "round": unary(-2, 2, lambda t: [real(t(2, 3), decimals=1), real(t(2, 3), decimals=-1)]),
    "rsqrt": unary(0.3, 2.3),
    "sgn": unary(),
    "sigmoid": unary(),
    "sign": unary(),
    "signbit": unary(),
    "sin": unary(),
    "sinc": unary(),
    "sinh": unary(),
    "sqrt": unary(0.3, 2.3),
    "square": unary(),
    "tan": unary(-0.9, 0.9),
    "tanh": unary(),
    "trunc": unary(),
    "bitwise_not": entry(lambda t: [case(t.ints(2, 3)), case(t.bools(2, 3)), case(t.ints())]),
}

COMPARISONS = [
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("greater", "greater_equal", "less", "less_equal", "not_equal"),
]
LOGIC = ["logical_and", "logical_or", "logical_xor"]

# On the right of a number, x is the operand whose method runs.
REFLECTED = {
    "Tensor.__radd__": entry(lambda t: [case(t(2, 3), 2.5), case(t(), 2)]),
    "Tensor.__rsub__": entry(lambda t: [case(t(2, 3), 2.5), case(t(), 2)]),
    "Tensor.__rmul__": entry(lambda t: [case(t(2, 3), 2.5), case(t(), 2)]),
    "Tensor.__rdiv__": entry(lambda t: [case(t.positive(2, 3), 2.5), case(t.positive(), 2)]),
    "Tensor.__rpow__": entry(lambda t: [case(t(2, 3), 2.5), case(t(), 2)]),
    **{
        f"Tensor.__r{name}__": entry(lambda t: [case(t.ints(2, 3), 5), case(t.bools(2), 1)])
        for name in ("and", "or", "xor")
    },
    "Tensor.__rmod__": entry(lambda t: [case(t.fixed(2, 3), 2.6), case(t.ints(3, low=1), 7)]),
}

BINARY = {
    "add": binary(-2, 2, scaled),
    "sub": binary(-2, 2, scaled),
    "subtract": binary(-2, 2, scaled),
    "rsub": binary(-2, 2, scaled),
    "mul": binary(),
    "multiply": binary(),
    "div": binary(0.3, 2.3, roundings, signs),
    "divide": binary(0.3, 2.3, roundings),
    "true_divide": binary(0.3, 2.3),
    "floor_divide": binary(0.3, 2.3, signs),
    "pow": binary(0.3, 2.3, powers, other=(-2, 2)),
    "float_power": binary(0.3, 2.3, powers, other=(-2, 2)),
    "remainder": binary(-2, 2, signs, other=(0.6, 1.9)),
    "fmod": binary(-2, 2, signs, other=(0.6, 1.9)),
    "atan2": binary(0.3, 2.3, signs, number=None),
    "arctan2": binary(0.3, 2.3, number=None),
    "hypot": binary(0.3, 2.3, signs, number=None, mixed=False),
    "copysign": binary(-2, 2, signs),
    "logaddexp": binary(-2, 2, ties, number=None, mixed=False),
    "logaddexp2": binary(-2, 2, ties, number=None, mixed=False),
    "xlogy": binary(0.3, 2.3, signs),
    "maximum": binary(-2, 2, ties, number=None),
    "minimum": binary(-2, 2, ties, number=None),
    "fmax": binary(-2, 2, ties, number=None),
    "fmin": binary(-2, 2, ties, number=None),
    "heaviside": binary(-2, 2, signs, number=None, mixed=False),
    "bitwise_and": entry(bits),
    "bitwise_or": entry(bits),
    "bitwise_xor": entry(bits),
    "bitwise_left_shift": entry(lambda t: [case(t.ints(2, 3), t.ints(3)), case(t.ints(3), 2)]),
    "bitwise_right_shift": entry(lambda t: [case(t.ints(2, 3), t.ints(3)), case(t.ints(3), 2)]),
    "gcd": entry(lambda t: [case(t.ints(2, 3, high=30), t.ints(3, high=30))]),
    "lcm": entry(lambda t: [case(t.ints(2, 3, high=30), t.ints(3, high=30))]),
    **{name: entry(compared_with_numbers) for name in COMPARISONS},
    **{name: entry(compared) for name in LOGIC},
}

TERNARY = {
    "addcmul": entry(
        lambda t: [
            case(t(2, 3), t(2, 3), t(2, 3)),
            case(t(2, 3), t(3), t(2, 1), value=0.5),
            case(t(3), t(), t(2, 3), value=-2),
            case(t(0, 3), t(3), t(3)),
            case(t(), t(), t()),
        ],
        expands=True,
    ),
    "addcdiv": entry(
        lambda t: [
            case(t(2, 3), t(2, 3), t.positive(2, 3)),
            case(t(2, 3), t(3), t.positive(2, 1), value=0.5),
            case(t(3), t(), t.positive(2, 3), value=-2),
            case(t(0, 3), t(3), t.positive(3)),
            case(t(), t(), t.positive()),
        ],
        expands=True,
    ),
    "lerp": entry(
        lambda t: [
            case(t(2, 3), t(2, 3), 0.3),
            case(t(2, 3), t(3), 0.8),
            case(t(2, 3), t(3), t(2, 1)),
            case(t(), t(), t()),
            case(t(0, 3), t(3), 0.5),
        ],
        expands=True,
    ),
    "clamp": entry(bounds, expands=True),
    "clip": entry(bounds),
    "clamp_min": entry(lambda t: [case(t(2, 3), 0.3), case(t(2, 3), t(3)), case(t(), -0.25)]),
    "clamp_max": entry(lambda t: [case(t(2, 3), 0.3), case(t(2, 3), t(3)), case(t(), -0.25)]),
    "where": entry(
        lambda t: [
            case(t.bools(2, 3), t(2, 3), t(2, 3)),
            case(t.bools(2, 1), t(3), t(2, 3)),
            case(t.bools(), t(2, 3), t()),
            case(t.bools(2, 3), t(2, 3), 0.5),
            case(t.bools(2, 3), 1.5, t(3)),
            case(t.bools(0, 3), t(3), t(0, 3)),
            case(t.bools(2, 3), t(2, 3), t.ints(3)),
            case(t.bools(2, 3)),
        ],
        expands=True,
    ),
    "isclose": entry(
        lambda t: [
            case(t(2, 3), t(3)),
            case(t.of(1.0, 2.0), t.of(1.0, 2.0 + 1e-7)),
            real(t.of(1.0, nan, inf), t.of(1.1, nan, inf), rtol=0.2, equal_nan=True),
        ]
    ),
}

ACTIVATIONS = {
    "relu": floats(),
    "nn.functional.relu": floats(),
    "nn.functional.relu6": floats(-1, 8),
    "nn.functional.sigmoid": floats(),
    "nn.functional.tanh": floats(),
    "nn.functional.gelu": floats(
        -2, 2, lambda t: [case(t(2, 3), approximate="tanh"), case(t(), approximate="tanh")]
    ),
    "nn.functional.silu": entry(lambda t: [real(t(2, 3)), real(t()), real_kink(t.of(*SPECIAL))]),
    "nn.functional.mish": floats(),
    "nn.functional.elu": floats(-2, 2, lambda t: [case(t(2, 3), 0.5)]),
    "nn.functional.selu": floats(),
    "nn.functional.celu": floats(-2, 2, lambda t: [case(t(2, 3), 0.5)]),
    "nn.functional.leaky_relu": floats(-2, 2, lambda t: [case(t(2, 3), 0.2)]),
    "nn.functional.logsigmoid": floats(),
    "nn.functional.softplus": floats(-2, 2, lambda t: [case(t(2, 3), beta=2, threshold=1.1)]),
    "nn.functional.softsign": floats(),
    "nn.functional.tanhshrink": floats(),
    "nn.functional.hardtanh": floats(-2, 2, lambda t: [case(t(2, 3), -0.6, 0.7)]),
    "nn.functional.hardsigmoid": floats(-4, 4),
    "nn.functional.hardswish": floats(-4, 4),
    "nn.functional.hardshrink": floats(),
    "nn.functional.softshrink": floats(),
    "nn.functional.threshold": entry(
        lambda t: [case(t(2, 3), 0.3, 5.0), case(t(), 0.3, 5.0), kink(t.of(0.5, 0.4, nan), 0.5, 9)]
    ),
    "nn.functional.prelu": entry(
        lambda t: [
            case(t(2, 3), t(1)),
            case(t(2, 3, 2), t(3)),
            kink(t.of(0.0, -0.0, 1), t.of(0.25)),
        ]
    ),
    "nn.functional.glu": entry(lambda t: [case(t(2, 4)), case(t(4, 3), 0), case(t(2, 6), -1)]),
}

# Those that are found at the top level too.
ACTIVATIONS |= {
    name: ACTIVATIONS[f"nn.functional.{name}"]
    for name in ("celu", "hardshrink", "prelu", "selu", "threshold")
}

POINTWISE: dict[str, Entry] = UNARY | REFLECTED | BINARY | TERNARY | ACTIVATIONS
