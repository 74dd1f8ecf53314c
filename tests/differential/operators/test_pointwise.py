"""Element by element, against torch: one expression in both libraries, nodes, what they save."""

import math
import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

# `T` makes a tensor, `torch` is the library. Results must agree in dtype and value, errors in type:
# ours may be a subclass of torch's.
EXPRESSIONS = """
T([1, 2]) // 0
T([1, 2]) % 0
T([1, 2]).fmod(0)
T([1, 2]) / 0
T([1, -7]).div(3, rounding_mode='floor')
T([1, -7]).div(3, rounding_mode='trunc')
T([1., -7.]).div(3, rounding_mode='trunc')
T([1., -7.]).div(3, rounding_mode='x')
T([1., -7.]).div(0, rounding_mode='floor')
T([1, -7]).remainder(-3)
T([1, -7]).fmod(-3)
T([5., -5.]).remainder(inf)
T([-4.]).remainder(2)
T([True]).div(3)
T([True, False]) + T([True, True])
T([True, False]) - T([True, True])
T([True, False]) * T([True, True])
-T([True])
T([True]).sign()
T([1, 2]) ** -1
T([0, 1, -1, 2, -1]) ** T([-1, -3, -3, -3, -2])
2 ** T([1, -2])
0 ** T([-1, 0])
T([2, 3]) ** 0.5
T([True, False]) ** 2
T([True, False]) ** T([True, False])
T([1.5]) ** 1j
1.5 ** T([2])
T([-inf, -0.0]) ** 0.5
T([2], dtype=torch.int32) ** T([2], dtype=torch.int8)
T([1, 2]).add(1, alpha=0.5)
T([1., 2.]).add(1, alpha=0.5)
T([1., 2.]).add(1, alpha=2j)
T([True]).add(True, alpha=2)
T([200], dtype=torch.uint8) + 100
T([200], dtype=torch.uint8) + 300
T([128], dtype=torch.uint8).neg()
T([1, 2]).reciprocal()
T([1, 2]).relu()
T([True]).relu()
T([1j]).relu()
T([1, 2]).clamp(0.5, 1.5)
T([1, 2]).clamp(1, 1)
T([1, 2]).clamp()
T([True, False]).clamp(0, 1)
T([1j]).clamp(0, 1)
T([1., nan]).clamp(2, 1)
T([1., nan]).clamp(T([2.]), T([1.]))
T([1., 2.]).clamp(nan, None)
T([1, 5, 3]).clamp(T([[2], [4]]))
T([1]).clamp(T([0.5]))
T([1], dtype=torch.int8).clamp(max=300)
T([1]).clamp_(0.5, 0.7)
T([1]).pow_(0.5)
T([1]).div_(2)
T([2]).exp_()
T([1]).float_power_(2)
T([2.]).float_power(T([2], dtype=torch.int8))
torch.float_power(2, T([3]))
T([1j]) < 1
T([1j]).maximum(T([1j]))
T([1, 2]).maximum(T([1.5, 1.5]))
T([1.5, 2.5, -0.5]).round()
T([15, 25, -5]).round()
T([15, 25, -5]).round(decimals=-1)
T([1.2345]).round(decimals=2)
T([True]).floor()
T([1j]).floor()
T([1, 2]).frac()
T([1.]).logical_and(T([0]))
T([1j]).logical_not()
T([1, 2]) & 1
1 & T([1, 2])
T([1.]) & 1
~T([1, 2])
~T([True])
~T([1.])
T([1, 2]) << 1
T([1., 2.]) << 1
T([1, 2]) >> -1
T([1, 2]) << 64
T([1, -2]) >> 64
T([1, 2]) ^ T([True, False])
T([1, 2]).lerp(T([2, 3]), 0.5)
T([1., 2.]).lerp(T([2, 3]), 0.5)
T([1.]).lerp(T([2.]), T([0.5], dtype=torch.float64))
T([1, 2]).addcmul(T([2, 3]), T([2, 3]), value=2)
T([1, 2]).addcdiv(T([2, 3]), T([2, 3]))
T([1.]).gcd(T([1]))
T([12, 18]).gcd(T([8, -12]))
T([12, 18]).lcm(T([8, -12]))
T([0., -1., 2., nan]).heaviside(T(0.5))
T([1, 2]).ldexp(T([1, 2]))
T([1 + 1j]).ldexp(T([2. + 1j]))
T([1, 2]).copysign(-1)
T([1, 2]).hypot(T([1, 2]))
T([1, 0]).logaddexp(T([2, 1]))
T([1 + 1j]).logaddexp(T([2 + 3j]))
T([-inf + 0j, inf + 0j]).logaddexp(T([-inf + 0j, inf + 0j]))
T([1, 2]).isclose(T([1., 2.]))
T([1., inf, -inf, nan]).isclose(T([1., inf, inf, nan]))
T([1, 100]).isclose(T([2, 101]), rtol=0.01)
T([1., 2.]).isclose(T([1., 2.]), rtol=-1)
T([1j]).isposinf()
T([True]).signbit()
T([-0.0]).signbit()
T([1j]).sign()
T([nan]).sign()
T([3 + 4j, 0]).sgn()
T([nan, inf, -inf]).nan_to_num()
T([nan, inf, -inf]).nan_to_num(1, 2, 3)
T([1, 2]).deg2rad()
T([1j]).sigmoid()
T([-1., 2., nan, 0.]).angle()
T([1, 2]) == None
T([1, 2]) == 'a'
T([1, 2]) < 'a'
T([1.]) + 'a'
torch.eq(T([1]), 'a')
torch.add(2, T([1]))
torch.sub(2, T([1.]))
torch.rsub(T([1.]), 2, alpha=3)
torch.remainder(5, T([3.]))
-7 // T([2])
torch.exp2(T([3]))
torch.exp2(T([1 + 1j]))
torch.exp(3)
torch.pow(2, 3)
torch.pow(T([2.]), 'a')
torch.complex(T([1]), T([1]))
torch.complex(T([1.]), T([1.], dtype=torch.float64))
torch.imag(T([1.]))
torch.isreal(T([1., 1j]))
torch.view_as_real(T([1.]))
torch.view_as_complex(T([[1., 2., 3.]]))
torch.frexp(T([1, 2]))
torch.frexp(T([1., 0., inf]))
torch.igamma(T([1]), T([2]))
torch.digamma(T([0., -1., 1.]))
torch.lgamma(T([0., -1., 1.]))
torch.polygamma(2, T([1, 2]))
torch.polygamma(-1, T([1.]))
torch.mvlgamma(T([5, 6]), 3)
torch.logit(T([0.5, 1.2, 0.]), eps=0.1)
torch.special.zeta(2, T([3.]))
torch.special.zeta(T([2.]), 3)
torch.special.chebyshev_polynomial_t(2., T([3]))
torch.ones(2, 3) + torch.ones(2)
torch.positive(T([True]))
T([1.]).__rpow__(2)
T([1.]).__rdiv__(2)
T([1]).__rlshift__(2)
T([3]).__floordiv__(2)
T([3.]).__ipow__(2)
""".strip().splitlines()


def outcome(library, expression):
    """The result as arrays, or the error."""
    names = {"torch": library, "T": library.tensor, "inf": math.inf, "nan": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(expression, names)
        except Exception as error:
            return error
    parts = result if isinstance(result, tuple) else (result,)
    return [part.numpy() if hasattr(part, "numpy") else part for part in parts]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_has_the_same_outcome(expression):
    ours, theirs = outcome(pullback, expression), outcome(torch, expression)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), ours
        return
    assert not isinstance(ours, Exception), repr(ours)
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, numpy.ndarray):
            assert one is other
            continue
        assert one.dtype == other.dtype
        numpy.testing.assert_allclose(one, other, rtol=2e-6)


X = [0.3, 0.6]

ONE = """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp
    exp2 expm1 floor frac lgamma log log10 log1p log2 logit nan_to_num neg rad2deg reciprocal relu
    round rsqrt sigmoid sign sin sinc sinh special.entr special.ndtri sqrt square tan tanh trunc
    view_as_complex
"""
TWO = """
    add atan2 copysign div fmax fmin heaviside hypot ldexp logaddexp logaddexp2 maximum minimum mul
    nextafter polar pow sub xlogy
"""
CALLS = [
    *(f"torch.{name}(x)" for name in ONE.split()),
    *(f"torch.{name}(x, y)" for name in TWO.split()),
    *("x ** 2", "2 - x", "2 / x", "x // y", "x.clamp(0, 1)", "x.clamp(y, y)", "x.clamp_min(0)"),
    *("x.clamp_min(y)", "x.clamp_max(0)", "x.lerp(y, 0.5)", "x.lerp(y, y)"),
    *("torch.addcmul(x, x, y)", "torch.polygamma(1, x)", "torch.mvlgamma(x + 5, 2)"),
]


def node_of(library, expression):
    """What recorded the expression's result."""
    x = library.tensor(X, dtype=library.float64, requires_grad=True)
    y = library.tensor(X[::-1], dtype=library.float64, requires_grad=True)
    return eval(expression, {"torch": library, "x": x, "y": y}).grad_fn


@pytest.mark.parametrize("expression", CALLS)
def test_node_has_torchs_name_and_keeps_nothing_that_torchs_does_not(expression):
    ours, theirs = node_of(pullback, expression), node_of(torch, expression)
    assert type(ours).__name__ == type(theirs).__name__
    theirs_kept = {name for name in dir(theirs) if name.startswith("_saved_")}
    plan = type(ours).plan
    kept = {"self" if param.name == "input" else param.name for param in plan.inputs}
    kept |= {"result" for _ in plan.outputs}
    assert {f"_saved_{name}" for name in kept} <= theirs_kept
