"""exp, log, tanh, erf, sin and their like on vectors, without libm.

Written in sums, products, comparisons and bits over (element type, width), so that another machine
with those words has the same functions. Bounds of error, in units of the last place: 4 in float32,
2 in float64; tests/compiled/llvm measures them and writes the table of docs/compiled.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from pullback.compiled.ir.values import LIBM
from pullback.compiled.llvm.emit import Emitter, vector_type
from pullback.compiled.llvm.libm import asked, function_lines
from pullback.compiled.llvm.machine import can_scale

__all__ = ["FUNCTIONS", "OUTLINED"]

_LONG = numpy.longdouble
_LN2 = {"float": (0.693359375, -2.12194440e-4),
        "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10)}  # fmt: skip
# Adding it rounds to a whole number, which then stands in the lowest bits.
_MAGIC = {"float": 12582912.0, "double": 6755399441055744.0}
_WHOLE = {"float": ("i32", 23, 127), "double": ("i64", 52, 1023)}


@cache
def _exp_tail_fit(bound: float, degree: int) -> list[float]:
    """What follows 1 + x in exp(x), by x^2: the interpolant at Chebyshev's points."""
    n = degree + 1
    k = numpy.arange(n, dtype=_LONG)
    nodes = numpy.cos(numpy.arccos(_LONG(-1)) * (k + _LONG(0.5)) / n)
    x = _LONG(bound) * nodes
    y = _second_order(x)
    c = [2 / _LONG(n) * numpy.sum(y * numpy.cos(j * numpy.arccos(nodes))) for j in range(n)]
    c[0] /= 2
    basis = [numpy.zeros(n, _LONG) for _ in range(n)]
    basis[0][0] = 1
    if n > 1:
        basis[1][1] = 1
    for j in range(2, n):
        basis[j][1:] = 2 * basis[j - 1][:-1]
        basis[j] -= basis[j - 2]
    total = sum(c[j] * basis[j] for j in range(n))
    return [float(total[j] / _LONG(bound) ** j) for j in range(n)]


def _second_order(x: Any) -> Any:
    """(exp(x) - 1 - x) / x^2 by its series, without cancellation."""
    total, term = numpy.zeros_like(x), numpy.full_like(x, _LONG(0.5))
    for k in range(3, 40):
        total = total + term
        term = term * x / k
    return total


def _reduced(em: Emitter, x: str, e: str, w: int) -> tuple[str, str, str]:
    """N and r with x = n ln 2 + r; n also as it stands in the bits of the first result."""
    n = em.number
    t = em.fma(x, n(1.4426950408889634, e, w), n(_MAGIC[e], e, w), e, w)
    whole = em.binary("fsub", t, n(_MAGIC[e], e, w), e, w)
    high, low = _LN2[e]
    r = em.fma(whole, n(-high, e, w), x, e, w)
    return t, em.fma(whole, n(-low, e, w), r, e, w), whole


def _clamped(em: Emitter, x: str, low: float, high: float, e: str, w: int) -> str:
    """Within bounds; NaN stays."""
    n = em.number
    x = em.select(em.compare("ogt", x, n(high, e, w), e, w), n(high, e, w), x, e, w)
    return em.select(em.compare("olt", x, n(low, e, w), e, w), n(low, e, w), x, e, w)


def _powers_of_two(em: Emitter, t: str, e: str, w: int) -> tuple[str, str]:
    """2^n in two factors, so that overflow and denormals come out right."""
    i, shift, bias = _WHOLE[e]
    n = em.number
    h = em.binary("shl", em.bits(t, e, i, w), n(shift, i, w), i, w)
    half = em.binary("ashr", h, n(1, i, w), i, w)
    half = em.binary("and", half, n(-(1 << shift), i, w), i, w)
    rest = em.binary("sub", h, half, i, w)
    one = n(bias << shift, i, w)
    first = em.bits(em.binary("add", half, one, i, w), i, e, w)
    return first, em.bits(em.binary("add", rest, one, i, w), i, e, w)


def _exp_tail(em: Emitter, r: str, e: str, w: int) -> str:
    """exp(r) - 1 for |r| at most ln 2 / 2."""
    q = em.poly2(r, _exp_tail_fit(0.3467, 5 if e == "float" else 10), e, w)
    return em.fma(em.mul(r, r, e, w), q, r, e, w)


def exp(em: Emitter, x: str, e: str, w: int) -> str:
    """E to the power of x.

    What becomes 0 is set so: getting there by underflow takes 150 cycles a vector, and a causal
    mask makes half of all elements such (32 x 32 x 32 scores: 167 us, and 33 this way).
    """
    low, high = (-104.0, 88.8) if e == "float" else (-745.2, 709.9)
    n = em.number
    x = em.select(em.compare("ogt", x, n(high, e, w), e, w), n(high, e, w), x, e, w)
    nothing = em.compare("olt", x, n(low, e, w), e, w)
    t, r, whole = _reduced(em, em.select(nothing, n(0, e, w), x, e, w), e, w)
    p = em.binary("fadd", _exp_tail(em, r, e, w), n(1, e, w), e, w)
    if can_scale(e, w):
        made = em.scaled(p, whole, e, w)
    else:
        first, second = _powers_of_two(em, t, e, w)
        made = em.binary("fmul", em.binary("fmul", p, first, e, w), second, e, w)
    return em.select(nothing, n(0, e, w), made, e, w)


def _decay(em: Emitter, x: str, e: str, w: int) -> str:
    """exp(x) in single for x between -80 and 0, where 2^n needs no second factor."""
    t, r, _ = _reduced(em, x, e, w)
    q = em.poly(r, _exp_tail_fit(0.3467, 4), e, w)
    p = em.binary("fadd", em.fma(em.mul(r, r, e, w), q, r, e, w), em.number(1, e, w), e, w)
    i, shift, _ = _WHOLE[e]
    n = em.binary("shl", em.bits(t, e, i, w), em.number(shift, i, w), i, w)
    return em.bits(em.binary("add", em.bits(p, e, i, w), n, i, w), i, e, w)


def expm1(em: Emitter, x: str, e: str, w: int) -> str:
    """exp(x) - 1: 2^n (exp(r) - 1) + (2^n - 1), whose second part is exact."""
    low, high = (-20.0, 88.8) if e == "float" else (-40.0, 709.9)
    n = em.number
    y = _clamped(em, x, low, high, e, w)
    t, r, _ = _reduced(em, y, e, w)
    p = _exp_tail(em, r, e, w)
    first, second = _powers_of_two(em, t, e, w)
    # Halved until the end: 2^n itself may not be representable where the result is.
    half = em.binary("fmul", first, n(0.5, e, w), e, w)
    scaled = em.binary("fmul", half, second, e, w)
    s = em.fma(scaled, p, em.binary("fsub", scaled, n(0.5, e, w), e, w), e, w)
    made = em.binary("fadd", s, s, e, w)
    # The sum loses the sign of zero; and of small numbers, nothing but they remain.
    tiny = em.compare("olt", em.abs(x, e, w), n(1e-8 if e == "float" else 1e-17, e, w), e, w)
    return em.select(tiny, x, made, e, w)


_LOG32 = [3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1,
          -1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2]  # fmt: skip
_LOG64 = [6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
          2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
          1.479819860511658591e-01]  # fmt: skip


def log(em: Emitter, x: str, e: str, w: int) -> str:
    """The natural logarithm."""
    single = e == "float"
    n = em.number
    i, shift, _ = _WHOLE[e]
    tiny = em.compare(
        "olt", x, n(1.17549435e-38 if single else 2.2250738585072014e-308, e, w), e, w
    )
    up = 25 if single else 54
    scaled = em.select(tiny, em.mul(x, n(2.0**up, e, w), e, w), x, e, w)
    b = em.bits(scaled, e, i, w)
    # An exponent such that the mantissa lies between the roots of 1/2 and 2.
    root = 0x3F3504F3 if single else 0x3FE6A09E667F3BCD
    k = em.binary("ashr", em.binary("sub", b, n(root, i, w), i, w), n(shift, i, w), i, w)
    m = em.bits(em.binary("sub", b, em.binary("shl", k, n(shift, i, w), i, w), i, w), i, e, w)
    exponent = em.t(f"sitofp {vector_type(i, w)} {k} to {vector_type(e, w)}")
    exponent = em.sub(exponent, em.select(tiny, n(up, e, w), n(0, e, w), e, w), e, w)
    y = (_log_single if single else _log_double)(em, m, exponent, e, w)
    inf = float("inf")
    y = em.select(em.compare("oeq", x, n(inf, e, w), e, w), x, y, e, w)
    y = em.select(em.compare("oeq", x, n(0, e, w), e, w), n(-inf, e, w), y, e, w)
    return em.select(em.compare("ult", x, n(0, e, w), e, w), n("nan", e, w), y, e, w)


def _log_single(em: Emitter, m: str, exponent: str, e: str, w: int) -> str:
    n = em.number
    z = em.sub(m, n(1, e, w), e, w)
    z2 = em.mul(z, z, e, w)
    y = em.mul(em.mul(em.poly2(z, _LOG32, e, w), z, e, w), z2, e, w)
    y = em.fma(exponent, n(_LN2[e][1], e, w), y, e, w)
    y = em.fma(z2, n(-0.5, e, w), y, e, w)
    return em.fma(exponent, n(_LN2[e][0], e, w), em.add(z, y, e, w), e, w)


def _log_double(em: Emitter, m: str, exponent: str, e: str, w: int) -> str:
    n = em.number
    g = em.sub(m, n(1, e, w), e, w)
    s = em.div(g, em.add(m, n(1, e, w), e, w), e, w)
    z = em.mul(s, s, e, w)
    r = em.mul(z, em.poly2(z, _LOG64, e, w), e, w)
    half = em.mul(em.mul(g, g, e, w), n(0.5, e, w), e, w)
    low = em.mul(exponent, n(_LN2[e][1], e, w), e, w)
    t = em.fma(s, em.add(half, r, e, w), low, e, w)
    y = em.sub(g, em.sub(half, t, e, w), e, w)
    return em.fma(exponent, n(_LN2[e][0], e, w), y, e, w)


def log1p(em: Emitter, x: str, e: str, w: int) -> str:
    """log(1 + x): of the rounded sum, and what rounding lost divided by it."""
    n = em.number
    u = em.binary("fadd", x, n(1, e, w), e, w)
    # What rounding took from the sum; exact whichever of the two is larger.
    back = em.binary("fsub", u, x, e, w)
    lost = em.binary(
        "fadd",
        em.binary("fsub", n(1, e, w), back, e, w),
        em.binary("fsub", x, em.binary("fsub", u, back, e, w), e, w), e, w,
    )  # fmt: skip
    y = em.binary("fadd", log(em, u, e, w), em.div(lost, u, e, w), e, w)
    inf = float("inf")
    y = em.select(em.compare("oeq", x, n(inf, e, w), e, w), x, y, e, w)
    y = em.select(em.compare("oeq", u, n(0, e, w), e, w), n(-inf, e, w), y, e, w)
    tiny = em.compare("olt", em.abs(x, e, w), n(1e-8 if e == "float" else 1e-17, e, w), e, w)
    return em.select(tiny, x, y, e, w)


_TANH_P = [-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1]
_TANH_Q = [4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0]


def tanh(em: Emitter, x: str, e: str, w: int) -> str:
    """The hyperbolic tangent: a fraction near 0, by exp further out."""
    n = em.number
    a = em.abs(x, e, w)
    if e == "float":
        # (exp(2 a) - 1) / (exp(2 a) + 1); from 9 on it is 1, so 2^n is never large
        doubled = em.add(a, a, e, w)
        most = n(20, e, w)
        bounded = em.select(em.compare("ogt", doubled, most, e, w), most, doubled, e, w)
        t, r, _ = _reduced(em, bounded, e, w)
        i, shift, bias = _WHOLE[e]
        power = em.binary("shl", em.bits(t, e, i, w), n(shift, i, w), i, w)
        power = em.bits(em.binary("add", power, n(bias << shift, i, w), i, w), i, e, w)
        less = em.binary("fsub", power, n(1, e, w), e, w)
        grown = em.fma(power, _exp_tail(em, r, e, w), less, e, w)
        far = em.div(grown, em.add(grown, n(2, e, w), e, w), e, w)
        return em.intrinsic("copysign", (far, x), e, w)
    doubled = em.add(a, a, e, w)
    one = n(1, e, w)
    far = em.sub(one, em.div(n(2, e, w), em.add(exp(em, doubled, e, w), one, e, w), e, w), e, w)
    far = em.intrinsic("copysign", (far, x), e, w)
    z = em.mul(x, x, e, w)
    slope = em.div(em.poly(z, _TANH_P, e, w), em.poly(z, _TANH_Q, e, w), e, w)
    near = em.fma(em.mul(x, z, e, w), slope, x, e, w)
    near = em.intrinsic("copysign", (near, x), e, w)  # of zero, the sum may have another sign
    return em.select(em.compare("olt", a, n(0.625, e, w), e, w), near, far, e, w)


def sigmoid(em: Emitter, x: str, e: str, w: int) -> str:
    """1 / (1 + exp(-x)), by exp of what is negative, so that nothing overflows."""
    n = em.number
    one = n(1, e, w)
    z = exp(em, em.neg(em.abs(x, e, w), e, w), e, w)
    top = em.select(em.compare("oge", x, n(0, e, w), e, w), one, z, e, w)
    d = em.binary("fadd", one, z, e, w)
    made = em.div(top, d, e, w)
    if e == "double":
        # What the sum and the quotient lost, taken in again.
        lost = em.binary("fsub", z, em.binary("fsub", d, one, e, w), e, w)
        rest = em.fma(em.neg(made, e, w), d, top, e, w)
        rest = em.fma(em.neg(made, e, w), lost, rest, e, w)
        made = em.binary("fadd", made, em.div(rest, d, e, w), e, w)
    return em.select(em.compare("uno", x, x, e, w), x, made, e, w)


# erf(x) / x in x^2 below 1; 1 - exp(-x^2) times a fraction above (Cephes).
_ERF_T = [5.55923013010394962768e4, 7.00332514112805075473e3, 2.23200534594684319226e3,
          9.00260197203842689217e1, 9.60497373987051638749e0]  # fmt: skip
_ERF_U = [4.92673942608635921086e4, 2.26290000613890934246e4, 4.59432382970980127987e3,
          5.21357949780152679795e2, 3.35617141647503099647e1, 1.0]  # fmt: skip
_ERF_P = [
    5.57535335369399327526e2,
    1.02755188689515710272e3,
    9.34528527171957607540e2,
    5.26445194995477358631e2,
    1.96520832956077098242e2,
    4.86371970985681366614e1,
    7.46321056442269912687e0,
    5.64189564831068821977e-1,
    2.46196981473530512524e-10,
]
_ERF_Q = [5.57535340817727675546e2, 1.65666309194161350182e3, 2.24633760818710981792e3,
          1.82390916687909736289e3, 9.75708501743205489753e2, 3.54937778887819891062e2,
          8.67072140885989742329e1, 1.32281951154744992508e1, 1.0]  # fmt: skip
# The fraction less its value at 0, times which x is added exactly.
_ERF_AT_0 = _ERF_T[0] / _ERF_U[0]
_ERF_REST = [
    float(_LONG(t) - _LONG(_ERF_AT_0) * _LONG(u))
    for t, u in zip([*_ERF_T, 0.0], _ERF_U, strict=True)
]
# In single: x + x p(x^2) below 0.92, 1 - exp(q(|x|)) above (N. Juffa's fits).
_ERF_NEAR = [1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3,
             -5.96761703e-4]  # fmt: skip
_ERF_FAR = [-1.28717512e-1, -6.34846687e-1, -1.06777877e-1, 2.42546219e-2, -3.88396438e-3,
            3.83197126e-4, -1.72853470e-5]  # fmt: skip


def erf(em: Emitter, x: str, e: str, w: int) -> str:
    """The error function."""
    n = em.number
    z = em.mul(x, x, e, w)
    a = em.abs(x, e, w)
    if e == "float":
        near = em.fma(em.poly(z, _ERF_NEAR, e, w), x, x, e, w)
        t = em.select(em.compare("olt", a, n(4, e, w), e, w), a, n(4, e, w), e, w)
        power = em.fma(em.poly2(t, _ERF_FAR, e, w), t, em.neg(t, e, w), e, w)
        far = em.binary("fsub", n(1, e, w), _decay(em, power, e, w), e, w)
        bound = 0.921875
    else:
        slope = em.div(em.poly(z, _ERF_REST, e, w), em.poly(z, _ERF_U, e, w), e, w)
        near = em.fma(x, n(_ERF_AT_0, e, w), em.mul(x, slope, e, w), e, w)
        near = em.intrinsic("copysign", (near, x), e, w)
        t = em.select(em.compare("olt", a, n(6, e, w), e, w), a, n(6, e, w), e, w)
        decay = exp(em, em.neg(em.mul(t, t, e, w), e, w), e, w)
        tail = em.div(em.poly(t, _ERF_P, e, w), em.poly(t, _ERF_Q, e, w), e, w)
        far = em.fma(em.neg(decay, e, w), tail, n(1, e, w), e, w)
        bound = 1.0
    far = em.intrinsic("copysign", (far, x), e, w)
    far = em.select(em.compare("uno", x, x, e, w), x, far, e, w)
    return em.select(em.compare("olt", a, n(bound, e, w), e, w), near, far, e, w)


_SIN32 = [-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4]
_COS32 = [4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5]
_SIN64 = [
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
]
_COS64 = [
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
]
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
# Beyond, three parts of pi / 2 are not enough, and libm is asked. What float32 needs of the
# remainder, taken in double, is right much further.
LARGEST_ANGLE = {"double": 1e5, "float": 1e9}


def _turns(shift: int) -> Callable[[Emitter, str, str, int], str]:
    def sine(em: Emitter, x: str, e: str, w: int) -> str:
        """sin(x + shift * pi / 2) for |x| below `LARGEST_ANGLE`."""
        n = em.number
        wide, d = x, "double"
        if e == "float":  # the remainder needs more digits than float32 has
            wide = em.t(f"fpext {vector_type(e, w)} {x} to {vector_type(d, w)}")
        t = em.fma(wide, n(0.6366197723675814, d, w), n(_MAGIC[d], d, w), d, w)
        whole = em.binary("fsub", t, n(_MAGIC[d], d, w), d, w)
        r = wide
        for part in _HALF_PI:
            r = em.fma(whole, n(-part, d, w), r, d, w)
        q = em.binary("add", em.bits(t, d, "i64", w), n(shift, "i64", w), "i64", w)
        i, top = "i64", 63
        if e == "float":
            r = em.t(f"fptrunc {vector_type(d, w)} {r} to {vector_type(e, w)}")
            q = em.t(f"trunc {vector_type('i64', w)} {q} to {vector_type('i32', w)}")
            i, top = "i32", 31
        z = em.mul(r, r, e, w)
        of_sin, of_cos = (_SIN32, _COS32) if e == "float" else (_SIN64, _COS64)
        s = em.fma(em.mul(z, r, e, w), em.poly(z, of_sin, e, w), r, e, w)
        first = em.fma(z, n(-0.5, e, w), n(1, e, w), e, w)
        c = em.fma(em.mul(z, z, e, w), em.poly(z, of_cos, e, w), first, e, w)
        odd = em.compare("ne", em.binary("and", q, n(1, i, w), i, w), n(0, i, w), i, w)
        r = em.select(odd, c, s, e, w)
        flip = em.binary("and", q, n(2, i, w), i, w)
        flip = em.binary("shl", flip, n(top - 1, i, w), i, w)
        made = em.bits(em.binary("xor", em.bits(r, e, i, w), flip, i, w), i, e, w)
        if shift:
            return made
        zero = em.compare("oeq", x, n(0, e, w), e, w)
        return em.select(zero, x, made, e, w)  # whose sign the sums lose

    return sine


def _or_libm(name: str, near: Callable[[Emitter, str, str, int], str]) -> Any:
    """A whole function: `near`, and libm for those elements whose angle is large."""

    def lines(em: Emitter, e: str, w: int) -> list[str]:
        kind, mask = vector_type(e, w), vector_type("i1", w)
        size = em.abs("%x", e, w)
        far = em.compare("ogt", size, em.number(LARGEST_ANGLE[e], e, w), e, w)
        if w == 1:
            em.raw(f"  br i1 {far}, label %far, label %near")
            em.raw("far:")
            em.raw(f"  ret {kind} {asked(em, name, ['%x'], e)}")
        else:
            reduce = f"@llvm.vector.reduce.or.v{w}i1"
            em.declared.add(f"declare i1 {reduce}({mask})")
            any_far = em.t(f"call i1 {reduce}({mask} {far})")
            em.raw(f"  br i1 {any_far}, label %far, label %near")
            em.raw("far:")
            made = near(em, "%x", e, w)
            em.raw("  br label %each")
            em.raw("each:\n  %k = phi i32 [ 0, %far ], [ %following, %next ]")
            em.raw(f"  %sofar = phi {kind} [ {made}, %far ], [ %after, %next ]")
            is_far = em.t(f"extractelement {mask} {far}, i32 %k")
            em.raw(f"  br i1 {is_far}, label %ask, label %next")
            em.raw("ask:")
            one = asked(em, name, [em.t(f"extractelement {kind} %x, i32 %k")], e)
            put = em.t(f"insertelement {kind} %sofar, {e} {one}, i32 %k")
            em.raw("  br label %next")
            em.raw(f"next:\n  %after = phi {kind} [ %sofar, %each ], [ {put}, %ask ]")
            em.raw("  %following = add i32 %k, 1")
            em.raw(f"  %more = icmp ult i32 %following, {w}")
            em.raw(f"  br i1 %more, label %each, label %end\nend:\n  ret {kind} %after")
        # Written twice: the usual way keeps nothing for later calls, and needs no stack.
        em.raw("near:")
        em.raw(f"  ret {kind} {near(em, '%x', e, w)}")
        return em.lines

    return lines


# Written into the place of their use.
FUNCTIONS: dict[str, Callable[[Emitter, str, str, int], str]] = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "tanh": tanh, "erf": erf,
    "sigmoid": sigmoid,
}  # fmt: skip
# Always functions of their own: they branch.
OUTLINED: dict[str, Any] = {
    "sin": _or_libm("sin", _turns(0)), "cos": _or_libm("cos", _turns(1)),
    **{name: function_lines(name) for name in LIBM},
}  # fmt: skip
