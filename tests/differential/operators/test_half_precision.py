"""Half precision is computed in single and rounded once: no result is further off than torch's."""

import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")

import pullback

# Expressions of vectors x, y and z, the library t and its nn.functional F.
PROGRAMS = """
    abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2
    expm1 floor frac i0 lgamma log log10 log1p log2 logit neg rad2deg reciprocal relu round rsqrt
    sigmoid sign sin sinc sinh sqrt square tan tanh trunc
    special.i0e special.i1 special.i1e special.ndtri special.log_ndtr special.erfcx special.entr
    nn.functional.silu nn.functional.mish nn.functional.softplus nn.functional.softsign
    nn.functional.elu nn.functional.selu nn.functional.celu nn.functional.hardswish
    nn.functional.hardsigmoid nn.functional.leaky_relu nn.functional.logsigmoid
    nn.functional.tanhshrink nn.functional.softshrink
"""
OF_TWO = """
    add sub mul true_divide floor_divide fmod remainder pow atan2 hypot logaddexp logaddexp2 xlogy
    special.xlog1py special.zeta float_power
"""
EXPRESSIONS = [
    *(f"t.{name}(x)" for name in PROGRAMS.split()),
    *(f"t.{name}(x, y)" for name in OF_TWO.split()),
    *(f"x ** {e}" for e in (-8, -5, -3, -2, -1, -0.5, 0, 0.5, 1.5, 2, 2.5, 3, 4, 5, 7, 8, 9, -1.7)),
    *("x.clone().pow_(5)", "t.pow(x, 5, out=t.empty_like(x))", "t._foreach_pow([x], 5)[0]"),
    *(f"{base} ** x" for base in (2, 3, 0.5, 1.7)),
    *(f"t.round(x, decimals={decimals})" for decimals in (-1, 1, 2, 3)),
    *("x + 3.3", "x * 0.7", "x / 3.3", "3.3 / x", "3.3 - x", "x // 0.7", "x % 0.7"),
    *("t.add(x, y, alpha=0.7)", "t.sub(x, y, alpha=0.7)", "t.rsub(x, y, alpha=0.7)"),
    *("t.lerp(x, y, z)", "t.lerp(x, y, 0.3)", "t.addcmul(x, y, z, value=0.7)"),
    *("t.addcdiv(x, y, z, value=0.7)", "F.elu(x, 0.3)", "F.softplus(x, 0.7)"),
    *("F.mse_loss(x, y, reduction='none')", "F.huber_loss(x, y, reduction='none', delta=0.7)"),
    *("F.smooth_l1_loss(x, y, reduction='none', beta=b)".replace("b)", f"{b})") for b in (0.7, 1)),
    *("F.huber_loss(x, y, delta=0.7)", "F.smooth_l1_loss(x, y, beta=0.7)"),
    "F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction='none')",
    "F.binary_cross_entropy_with_logits(x, y, reduction='none')",
    "F.kl_div(x, y.abs(), reduction='none')",
    "F.embedding_bag(t.arange(50), x[:500].view(50, 10), t.tensor([0, 20]), mode='sum',"
    " per_sample_weights=y[:50])",
    *(
        f"F.embedding_bag(t.arange(50), x[:500].view(50, 10), t.tensor([0, 20]), mode={mode!r})"
        for mode in ("sum", "mean", "max")
    ),
]
STEP = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # from 1 to the next number
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}


def given():
    random = numpy.random.default_rng(0)
    x = numpy.concatenate((random.normal(size=400) * 3, random.uniform(-1, 8, 400)))
    return x, random.permutation(numpy.abs(x)) + 0.1, random.normal(size=800)


def result(t, expression, dtype, precision):
    """The value in double precision, of arguments rounded to `dtype`, computed in `precision`."""
    vectors = [t.tensor(a).to(getattr(t, dtype)).to(getattr(t, precision)) for a in given()]
    names = dict(zip("xyz", vectors, strict=True), t=t, F=t.nn.functional)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, names).double().numpy()


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_no_result_is_further_off_than_torchs(expression, dtype):
    exact = result(torch, expression, dtype, "float64")
    try:
        theirs = result(torch, expression, dtype, dtype)
    except NotImplementedError:
        pytest.skip("torch does not compute it in half precision")
    ours = result(pullback, expression, dtype, dtype)
    with numpy.errstate(invalid="ignore", over="ignore"):
        unit = numpy.maximum(numpy.abs(exact) * STEP[dtype], LEAST[dtype])
        off, theirs_off = numpy.abs(ours - exact) / unit, numpy.abs(theirs - exact) / unit
        known = numpy.isfinite(exact) & numpy.isfinite(theirs)
        allowed = numpy.maximum(theirs_off.max(where=known, initial=0.0), 0.55)
    assert not (known & ~(off <= allowed)).any(), (off[known].max(), allowed)


@pytest.mark.parametrize("dtype", STEP)
def test_gradients_of_small_weights_outlast_large_slopes(dtype):
    """The slope of the loss is beyond float16 where its product with the gradient is not."""
    made = []
    for t in (pullback, torch):
        kind = getattr(t, dtype)
        p = t.tensor([1e-6, 2e-7, 0.5], dtype=kind, requires_grad=True)
        weight = t.tensor([1e-3, 1e-3, 1.0], dtype=kind)
        target = t.tensor([1.0, 1.0, 0.0], dtype=kind)
        loss = t.nn.functional.binary_cross_entropy(p, target, reduction="none")
        (g,) = t.autograd.grad(loss, p, weight)
        made.append(g.double().numpy())
    numpy.testing.assert_allclose(*made, rtol=2 * STEP[dtype])
