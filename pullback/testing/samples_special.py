"""Sample inputs of special functions and of rarer operators that work element by element."""

from __future__ import annotations

from pullback.testing.cases import Case, Draw, Entry, case, entry, kink, real
from pullback.testing.samples_pointwise import binary, floats, unary

# Away from the origin, where many of these have a pole, and where series give way to asymptotics.
WIDE = (0.3, 12.0)


def on_both_sides(low: float, high: float) -> Entry:
    """Two tensors of equal or broadcast shape; no numbers, no integers."""
    return binary(low, high, number=None, mixed=False)


def orders(t: Draw) -> list[Case]:
    """A polynomial's variable, and its degree."""
    return [
        case(t.fixed(2, 3), t.ints(3)),
        case(t.fixed(5), t.ints(5, high=9)),
        case(t.fixed(2, 3), 3),
        case(t.fixed(), t.ints()),
    ]


def wide(t: Draw) -> list[Case]:
    """Numbers without gradient, from near zero to far out."""
    return [case(t.fixed(3, 4, low=0.1, high=25.0)), case(t.fixed()), case(t.fixed(0, 3))]


POLYNOMIALS = [
    *("chebyshev_polynomial_t", "chebyshev_polynomial_u"),
    *("chebyshev_polynomial_v", "chebyshev_polynomial_w"),
    *("shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u"),
    *("shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
]
BESSEL = [
    *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0"),
    *("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
]

SPECIAL_FUNCTIONS: dict[str, Entry] = {
    "special.entr": unary(*WIDE),
    "special.erfcx": unary(),
    "special.expit": unary(),
    "special.i0e": unary(),
    "special.i1": unary(),
    "special.i1e": unary(),
    "special.log1p": unary(-0.7, 2.0),
    "special.log_ndtr": unary(),
    "special.ndtr": unary(),
    "special.ndtri": unary(0.1, 0.9),
    "special.xlog1py": binary(0.3, 2.3),
    "special.zeta": entry(
        lambda t: [case(t.fixed(2, 3, low=1.5, high=5), t.fixed(3, low=0.3, high=3))]
    ),
    "igamma": entry(lambda t: [case(t.fixed(2, 3, low=0.3, high=3), t.fixed(3, low=0.3, high=9))]),
    "igammac": entry(lambda t: [case(t.fixed(2, 3, low=0.3, high=3), t.fixed(3, low=0.3, high=9))]),
    "polygamma": entry(lambda t: [real(order, t.positive(2, 3)) for order in range(5)]),
    "special.polygamma": entry(lambda t: [real(order, t.positive(2, 3)) for order in range(3)]),
    "mvlgamma": entry(
        lambda t: (
            [case(t(2, 3, low=2.3, high=5.0), p) for p in (1, 3, 5)]
            + [case(t(low=2.3, high=5.0), 2)]
        )
    ),
    **{f"special.{name}": entry(orders) for name in POLYNOMIALS},
    **{f"special.{name}": entry(wide) for name in BESSEL},
    "frexp": floats(),
    "ldexp": entry(lambda t: [case(t(2, 3), t.ints(3)), case(t(), t.ints()), case(t(2), t(2))]),
    "nextafter": entry(lambda t: [case(t.fixed(2, 3), t.fixed(3))]),
    "complex": on_both_sides(-2, 2),
    "polar": on_both_sides(0.3, 2.3),
    "renorm": entry(
        lambda t: [
            case(t(3, 2), 2, 0, 1.1),
            case(t(2, 3, 2), 1, -2, 2.1),
            kink(t.of([0.0]), 2, 0, 1),
        ]
    ),
    **{
        name: unary(low, high)
        for name, low, high in (
            ("arccos", -0.9, 0.9),
            ("arccosh", 1.2, 3.0),
            ("arcsin", -0.9, 0.9),
            ("arcsinh", -2.0, 2.0),
            ("arctan", -0.8, 0.8),
            ("arctanh", -0.9, 0.9),
        )
    },
}
