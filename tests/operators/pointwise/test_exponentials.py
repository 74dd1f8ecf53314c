"""Element by element: conventions, signs, dtypes, loops for large arrays, and what is refused."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.pointwise.arithmetic import choose, keep_where, kept

inf, nan = math.inf, math.nan


def leaf(*values, dtype=torch.float64):
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def grads(function, *inputs):
    """Gradients of the sum; equal in the plain and in the recorded pass."""
    plain = torch.autograd.grad(function(*inputs).sum(), inputs)
    recorded = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
    for one, other in zip(plain, recorded, strict=True):
        numpy.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-14)
    return [one.tolist() for one in plain]


def same(got, expected):
    numpy.testing.assert_allclose(got, expected, rtol=1e-12)


# Conventions where a function has no derivative --------------------------------------------------

KINKS = [
    ("abs", torch.abs, [0.0, -0.0, nan, -2.0], [0, 0, 0, -1]),
    ("relu", torch.relu, [0.0, -0.0, nan, -1.0, 1.0], [0, 0, 1, 0, 1]),
    ("sign", torch.sign, [0.0, 2.0], [0, 0]),
    ("floor", torch.floor, [0.0, 2.5], [0, 0]),
    ("frac", torch.frac, [1.0, 2.5], [1, 1]),
    ("clamp", lambda x: x.clamp(0, 1), [0.0, 1.0, -1.0, 2.0, nan, 0.5], [1, 1, 0, 0, 0, 1]),
    ("clamp crossed", lambda x: x.clamp(2, 1), [0.0, 1.0, 1.5, 3.0], [0, 0, 0, 0]),
    ("clamp_min", lambda x: x.clamp_min(0), [0.0, -1.0, 1.0, nan], [1, 0, 1, 0]),
    ("sqrt", torch.sqrt, [0.0, -1.0], [inf, nan]),
    ("rsqrt", torch.rsqrt, [0.0, -1.0], [-inf, nan]),
    ("log", torch.log, [0.0, -1.0], [inf, -1]),
    ("acos", torch.acos, [1.0, -1.0], [-inf, -inf]),
    ("asin", torch.asin, [1.0, -1.0], [inf, inf]),
    ("sinc", torch.sinc, [0.0], [0]),
    ("x ** 0", lambda x: x**0, [0.0, 2.0, nan], [0, 0, 0]),
    ("x ** 1", lambda x: x**1, [0.0, 2.0], [1, 1]),
    ("x ** 2", lambda x: x**2, [0.0, 3.0], [0, 6]),
    ("x ** 0.5", lambda x: x**0.5, [0.0, 4.0], [inf, 0.25]),
    ("x ** -1", lambda x: x**-1, [0.0, 2.0], [-inf, -0.25]),
    ("0 ** x", lambda x: 0**x, [0.0, 1.0, -1.0], [0, 0, -inf]),
    ("(-2) ** x", lambda x: (-2) ** x, [1.0], [nan]),
    ("nan_to_num", torch.nan_to_num, [nan, inf, -inf, 1.0], [0, 0, 0, 1]),
    ("logit", torch.logit, [0.0, 0.5, 1.2], [inf, 4, nan]),
    ("logit eps", lambda x: torch.logit(x, 0.25), [0.1, 0.25, 0.5], [0, 16 / 3, 4]),
]


@pytest.mark.parametrize(
    ("function", "x", "expected"), [k[1:] for k in KINKS], ids=[k[0] for k in KINKS]
)
def test_gradient_where_there_is_none_follows_the_convention(function, x, expected):
    same(grads(function, leaf(*x))[0], expected)


PAIRS = [
    ("maximum", torch.maximum, [1.0, 2.0, nan], [1.0, 1.0, 1.0], [0.5, 1, 1], [0.5, 0, 1]),
    ("minimum", torch.minimum, [1.0, 2.0, 1.0], [1.0, 1.0, nan], [0.5, 0, 1], [0.5, 1, 1]),
    ("fmax", torch.fmax, [1.0, nan, 1.0], [1.0, 1.0, nan], [1, 0, 1], [0, 1, 0]),
    ("fmin", torch.fmin, [1.0, nan, 1.0], [1.0, 1.0, nan], [1, 0, 1], [0, 1, 0]),
    ("pow", torch.pow, [0.0, 0.0, -1.0], [0.0, 2.0, 2.0], [0, 0, -2], [0, 0, nan]),
    ("atan2", torch.atan2, [0.0, 1.0], [0.0, 0.0], [0, 0], [0, -1]),
    ("hypot", torch.hypot, [0.0, 3.0], [0.0, 4.0], [nan, 0.6], [nan, 0.8]),
    ("fmod", torch.fmod, [5.0, -5.0], [3.0, 3.0], [1, 1], [-1, 1]),
    ("remainder", torch.remainder, [5.0, -5.0], [3.0, 3.0], [1, 1], [-1, 2]),
    ("xlogy", torch.xlogy, [0.0, 0.0], [0.0, 1.0], [0, 0], [nan, 0]),
    ("copysign", torch.copysign, [0.0, 1.0], [1.0, -1.0], [0, -1], [0, 0]),
    ("nextafter", torch.nextafter, [1.0, 1.0], [1.0, 2.0], [0, 1], [0, 0]),
]


@pytest.mark.parametrize(
    ("function", "a", "b", "of_a", "of_b"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS]
)
def test_gradients_of_pairs_follow_the_convention(function, a, b, of_a, of_b):
    got_a, got_b = grads(function, leaf(*a), leaf(*b))
    same(got_a, of_a)
    same(got_b, of_b)


def test_tensor_limits_of_clamp_receive_what_they_cut():
    x, low, high = leaf(-1.0, 2.0, 0.0, 0.5), leaf(0.0, 0.0, 0.0, 2.0), leaf(1.0, 1.0, 1.0, 1.0)
    got = grads(torch.clamp, x, low, high)
    assert got == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 1]]


def test_infinite_slopes_do_not_pass_what_relu_cut_off():
    assert grads(lambda x: torch.relu(x).sqrt(), leaf(-1.0, 0.0, 4.0))[0] == [0, 0, 0.25]


def test_keep_where_drops_infinities_and_nan_in_arrays_of_every_size():
    for size in (6, 6000):
        g = torch.tensor([inf, nan, 1.0] * (size // 3))
        mask = torch.tensor([False, False, True] * (size // 3))
        assert keep_where(g, mask).tolist() == [0.0, 0.0, 1.0] * (size // 3)


# Powers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-3, -2, -0.5, 0.5, 1.5, 3, 4, 5, 7, 8, 9, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_short_cuts_of_powers_agree_with_the_general_power(exponent, dtype):
    x = numpy.linspace(0.5, 2, 7).astype(dtype)
    got = torch.from_numpy(x) ** exponent
    assert got.numpy().dtype == x.dtype
    numpy.testing.assert_allclose(got.numpy(), numpy.power(x, exponent), rtol=2e-6)


@pytest.mark.parametrize(
    ("function", "node"),
    [
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: 2**x, "PowBackward2"),
        (lambda x: x.square(), "PowBackward0"),
        (lambda x: 2 - x, "RsubBackward1"),
        (lambda x: 2 / x, "MulBackward0"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: x.div(2, rounding_mode="floor"), "DivBackward2"),
        (lambda x: x.clamp(0, 1), "ClampBackward1"),
        (lambda x: x.clamp(x, x), "ClampBackward0"),
        (lambda x: x.clamp_min(0), "ClampMinBackward0"),
        (lambda x: x.lerp(x, 0.5), "LerpBackward0"),
        (lambda x: x.lerp(x, x), "LerpBackward1"),
        (lambda x: x // 2, "NotImplemented"),
    ],
)
def test_each_form_of_an_operator_has_its_node(function, node):
    assert type(function(leaf(1.5)).grad_fn).__name__ == node


def test_third_derivative_of_a_cube_is_exact_at_zero():
    x = leaf(0.0, 2.0)
    y = x**3
    for expected in ([0, 12], [0, 12], [6, 6]):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == expected


def test_integers_to_negative_powers():
    base = torch.tensor([0, 1, -1, -1, 2])
    assert (base ** torch.tensor([-1, -3, -3, -2, -1])).tolist() == [0, 1, -1, 1, 0]
    assert (2 ** torch.tensor([3, -1])).tolist() == [8, 0]
    with pytest.raises(RuntimeError, match="negative power -1"):
        base**-1


def test_float_power_computes_in_double_precision():
    x = torch.tensor([2.0])
    assert x.float_power(2).dtype is torch.float64
    assert torch.float_power(2, torch.tensor([3])).tolist() == [8.0]
    assert torch.tensor([1j]).float_power(2).dtype is torch.complex128
    with pytest.raises(RuntimeError, match="float_power_"):
        x.float_power_(2)


# Division ----------------------------------------------------------------------------------------


def test_division_of_integers():
    x, y = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
    assert (x / y).dtype is torch.float32
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert x.div(y, rounding_mode="floor").tolist() == [3, -4, -4, 3]
    assert x.div(y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert (x % y).tolist() == [1, 1, -1, -1]
    assert torch.fmod(x, y).tolist() == [1, -1, 1, -1]
    assert (-7 // y).tolist() == [-4, -4, 3, 3]
    assert (-7 % y).tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 0,
        lambda x: x % 0,
        lambda x: torch.fmod(x, 0),
        lambda x: x.div(torch.tensor([1, 0]), rounding_mode="trunc"),
    ],
)
def test_integers_divided_by_zero_are_refused(function):
    with pytest.raises(RuntimeError, match="divided by zero"):
        function(torch.tensor([1, 2]))


def test_an_integer_in_place_division_that_fails_leaves_its_target():
    x = torch.tensor([1, 2])
    with pytest.raises(RuntimeError):
        x.div_(2)
    with pytest.raises(RuntimeError):
        x.floor_divide_(0)
    assert x.tolist() == [1, 2]
    assert x._version == 0


def test_unknown_rounding_mode_is_named():
    with pytest.raises(RuntimeError, match="'up'"):
        torch.div(torch.ones(2), 2, rounding_mode="up")


@pytest.mark.parametrize("function", [lambda x: x // 2, lambda x: torch.heaviside(x, x)])
def test_operators_without_derivative_refuse_in_the_backward(function):
    y = function(leaf(1.5))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="not implemented"):
        y.sum().backward()


# Signs -------------------------------------------------------------------------------------------


def test_signs_with_a_number_first():
    x = leaf(1.0, 2.0)
    assert (2 - x).tolist() == [1, 0]
    assert (2 / x).tolist() == [2, 1]
    assert (2**x).tolist() == [2, 4]
    assert (5 // x).tolist() == [5, 2]
    assert (5 % x).tolist() == [0, 1]
    assert (1 & torch.tensor([1, 2])).tolist() == [1, 0]
    assert (1 << torch.tensor([1, 2])).tolist() == [2, 4]
    assert (x < 2).tolist() == [True, False]
    assert grads(lambda x: 2 / x, x)[0] == [-2, -0.5]


def test_in_place_signs_keep_the_object():
    x = torch.tensor([7.0])
    y = x
    x += 1
    x -= 2
    x *= 3
    x /= 2
    x //= 2
    x **= 2
    x %= 5
    assert x is y
    assert x.tolist() == [1.0]
    mask = bits = torch.tensor([6])
    bits &= 3
    bits |= 8
    bits ^= 1
    bits <<= 2
    bits >>= 1
    assert mask is bits
    assert bits.tolist() == [22]


def test_comparison_with_something_else_is_false_and_not_an_error():
    x = torch.ones(2)
    assert (x == None) is False  # noqa: E711 (the comparison is what is tested)
    assert (x != "a") is True
    assert x in [None, x]
    with pytest.raises(TypeError):
        x < "a"
    with pytest.raises(TypeError):
        torch.eq(x, "a")


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "fmax", "sign", "clamp_min", "floor"])
def test_complex_numbers_are_not_ordered(name):
    z = torch.tensor([1j])
    args = () if name in ("sign", "floor") else (z,)
    with pytest.raises(NotImplementedError, match=name):
        getattr(torch, name)(z, *args)
    with pytest.raises(RuntimeError, match="not ordered"):
        torch.maximum(z, z)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "logical_and"])
def test_an_answer_written_over_a_number_ends_its_gradient(name):
    x = leaf(1.0, 2.0)
    y = x * 1
    getattr(y, f"{name}_")(torch.tensor([1.0, 1.0], dtype=torch.float64))
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0]


def test_invert_needs_integers_or_bools():
    assert (~torch.tensor([1, -3])).tolist() == [-2, 2]
    assert (~torch.tensor([True])).tolist() == [False]
    with pytest.raises(TypeError, match="bitwise_not"):
        ~torch.ones(2)


# Dtypes ------------------------------------------------------------------------------------------


def test_alpha_must_fit_the_result():
    whole = torch.tensor([1, 2])
    assert torch.add(whole, whole, alpha=3).tolist() == [4, 8]
    assert torch.sub(whole, 1, alpha=2).tolist() == [-1, 0]
    with pytest.raises(RuntimeError, match=r"alpha=0\.5"):
        torch.add(whole, whole, alpha=0.5)
    with pytest.raises(RuntimeError, match="alpha"):
        torch.rsub(torch.ones(1), 1, alpha=1j)


def test_lerp_takes_one_floating_dtype():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="one dtype"):
        torch.lerp(x, x.double(), 0.5)
    with pytest.raises(NotImplementedError, match="lerp"):
        torch.lerp(torch.tensor([1]), torch.tensor([2]), 0.5)


@pytest.mark.parametrize("weight", [1, 1.0])
def test_lerp_ends_exactly_at_its_end(weight):
    start, end = torch.tensor([1e20]), torch.tensor([0.1])
    assert torch.equal(torch.lerp(start, end, weight), end)
    assert torch.equal(torch.lerp(start, end, torch.tensor([weight], dtype=end.dtype)), end)


HALF_OPERATORS = [
    *("sigmoid", "relu", "log1p", "deg2rad", "sinc", "round", "nan_to_num", "sign", "angle"),
    *("erf", "erfinv", "lgamma", "digamma", "logit"),
]


@pytest.mark.parametrize("name", HALF_OPERATORS)
@pytest.mark.parametrize("size", [3, 2000])
def test_half_precision_stays(name, size):
    pytest.importorskip("ml_dtypes")
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.linspace(0.1, 0.9, size).to(dtype)
        got = getattr(torch, name)(x)
        assert got.dtype is dtype
        expected = getattr(torch, name)(x.double())
        numpy.testing.assert_allclose(got.double().numpy(), expected.numpy(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("value", [nan, 2.0])
def test_sign_of_nan_is_zero(value):
    assert torch.sign(torch.tensor([value])).item() == (0 if math.isnan(value) else 1)


def test_shifts_beyond_the_width_leave_nothing_but_the_sign():
    x = torch.tensor([1, -2])
    assert (x << 64).tolist() == [0, 0]
    assert (x >> 64).tolist() == [0, -1]


# Large arrays take other loops ------------------------------------------------------------------

LARGE = [
    ("relu", torch.relu),
    ("clamp", lambda x: x.clamp(-0.5, 0.5)),
    ("log1p", torch.log1p),
    ("logaddexp", lambda x: torch.logaddexp(x, x.flip(0))),
    ("remainder", lambda x: x % 0.3),
    ("abs", torch.abs),
]


@pytest.mark.parametrize("function", [f for _, f in LARGE], ids=[name for name, _ in LARGE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arrays_give_what_small_ones_give(function, dtype):
    values = numpy.random.default_rng(0).uniform(-0.9, 3, 30_000).astype(dtype)
    values[:8] = [nan, inf, 0.0, -0.0, 1e-20, -1e-20, 0.5, -0.5]
    x = torch.from_numpy(values).requires_grad_()
    y = function(x)
    (g,) = torch.autograd.grad(y.sum(), x)
    part = torch.from_numpy(numpy.concatenate([values[:50], values[-50:]])).requires_grad_()
    small = function(part)
    (small_g,) = torch.autograd.grad(small.sum(), part)
    for whole, piece in ((y, small), (g, small_g)):
        ends = numpy.concatenate([whole.detach().numpy()[:50], whole.detach().numpy()[-50:]])
        numpy.testing.assert_allclose(ends, piece.detach().numpy(), rtol=3e-6, atol=1e-30)


def test_sigmoid_neither_overflows_nor_loses_digits():
    x = leaf(-800.0, -40.0, 0.0, 40.0, 800.0)
    same(torch.sigmoid(x).tolist(), [0, math.exp(-40), 0.5, 1, 1])
    assert grads(torch.sigmoid, x)[0][0] == 0


# Complex numbers ---------------------------------------------------------------------------------


def test_parts_of_a_complex_tensor_are_views_of_it():
    z = torch.tensor([1 + 2j, 3 + 4j])
    z.real.mul_(10)
    torch.view_as_real(z)[:, 1] = 7
    assert z.tolist() == [10 + 7j, 30 + 7j]
    assert z.imag._base is z
    pairs = torch.zeros(2, 2)
    torch.view_as_complex(pairs).fill_(1j)
    assert pairs.tolist() == [[0, 1], [0, 1]]


def test_writing_a_part_reaches_the_gradient_of_the_whole():
    z = torch.tensor([1 + 2j], requires_grad=True)
    w = z * 1
    w.real.mul_(3)
    torch.view_as_real(w).sum().backward()
    assert z.grad.tolist() == [3 + 1j]


def test_gradient_of_a_real_loss_is_the_direction_of_ascent():
    z = torch.tensor([3 + 4j], requires_grad=True)
    assert torch.autograd.grad(z.abs().sum(), z)[0].tolist() == pytest.approx([0.6 + 0.8j])
    assert torch.autograd.grad(torch.angle(z).sum(), z)[0].item() == pytest.approx(-0.16 + 0.12j)
    assert torch.autograd.grad((z * z.conj()).real.sum(), z)[0].tolist() == [6 + 8j]


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda: torch.imag(torch.ones(2)), "imag"),
        (lambda: torch.view_as_real(torch.ones(2)), "complex"),
        (lambda: torch.view_as_complex(torch.ones(2, 3)), "size 2"),
        (lambda: torch.view_as_complex(torch.ones(2, 2).int()), "float32"),
        (lambda: torch.view_as_complex(torch.ones(2, 4)[:, ::2]), "contiguous"),
        (lambda: torch.complex(torch.ones(2), torch.ones(2).double()), "both"),
        (lambda: torch.positive(torch.tensor([True])), "bool"),
        (lambda: torch.addcdiv(*[torch.tensor([1])] * 3), "quotient"),
        (lambda: torch.clamp(torch.ones(2)), "min"),
        (lambda: torch.isclose(torch.ones(2), torch.ones(2).int()), "isclose"),
        (lambda: torch.frexp(torch.tensor([1])), "mantissa"),
        (lambda: torch.polygamma(-1, torch.ones(2)), "n=-1"),
    ],
)
def test_bad_input_is_refused_by_name(function, match):
    with pytest.raises(RuntimeError, match=match):
        function()


# In place and out --------------------------------------------------------------------------------


def test_in_place_forms_of_dispatching_functions():
    def write(name, *args, **options):
        x = torch.tensor([4.0, -9.0])
        assert getattr(x, name)(*args, **options) is x
        return x.tolist()

    assert write("pow_", 2) == [16, 81]
    assert write("pow_", torch.tensor([2.0, 1.0])) == [16, -9]
    assert write("square_") == [16, 81]
    assert write("div_", 2) == [2, -4.5]
    assert write("div_", 2, rounding_mode="trunc") == [2, -4]
    assert write("clamp_", -1, 1) == [1, -1]
    assert write("clip_", max=torch.tensor([0.0, 0.0])) == [0, -9]
    assert write("clamp_min_", 0) == [4, 0]
    assert write("clamp_max_", torch.tensor(0.0)) == [0, -9]
    assert write("lerp_", torch.zeros(2), 0.5) == [2, -4.5]
    assert write("eq_", 4) == [1, 0]


def test_out_receives_the_result():
    out = torch.empty(2)
    for function in (
        lambda x: torch.pow(x, 2, out=out),
        lambda x: torch.div(x, 0.5, out=out),
        lambda x: torch.clamp(x, 2, 4, out=out),
        lambda x: torch.lerp(x, x * 3, 0.5, out=out),
    ):
        assert function(torch.tensor([1.0, 2.0])) is out
    assert out.tolist() == [2, 4]


# Choosing by masks --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(7,), (3000,), (40, 50), (1, 3000)])
def test_masks_choose_as_where_does(dtype, shape):
    random = numpy.random.default_rng(0)
    one, other = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    one.flat[:3] = nan, inf, -inf
    mask = random.random(shape) < 0.5
    single = numpy.asarray(other.flat[0])
    for a, b, where in (
        (one, other, mask),
        (one.T, other.T, mask.T),
        (one, other[..., :1], mask),
        (one, single, mask),
        (single, one, mask),
    ):
        numpy.testing.assert_array_equal(choose(numpy, where, a, b), numpy.where(where, a, b))
        numpy.testing.assert_array_equal(kept(numpy, where, a), numpy.where(where, a, 0))


# What is refused, as torch does -------------------------------------------------------------------

TENSORS_ONLY = [
    *("atan2", "hypot", "logaddexp", "logaddexp2", "nextafter", "ldexp", "heaviside"),
    *("gcd", "lcm", "igamma"),
]


@pytest.mark.parametrize("name", TENSORS_ONLY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_numbers_are_refused_where_torch_wants_tensors(name, dtype):
    x = torch.ones(2, dtype=dtype)
    for operands in ((x, 2), (2, x)):
        with pytest.raises(TypeError, match=name):
            getattr(torch, name)(*operands)


@pytest.mark.parametrize("function", [torch.addcmul, torch.addcdiv])
def test_factors_are_tensors(function):
    with pytest.raises(TypeError):
        function(torch.ones(2), torch.ones(2), 2.0)


@pytest.mark.parametrize("name", ["i0", "logit", "special.i0e", "special.i1", "special.erfcx"])
def test_complex_numbers_are_refused_by_functions_of_real_ones(name):
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    with pytest.raises(NotImplementedError, match=name.split(".")[-1]):
        function(torch.ones(2, dtype=torch.complex64))


def test_heaviside_does_not_promote():
    with pytest.raises(RuntimeError, match="one dtype"):
        torch.heaviside(torch.ones(2), torch.ones(2, dtype=torch.float64))


def test_float_power_of_what_is_no_number_is_a_type_error():
    with pytest.raises(TypeError, match="float_power"):
        torch.float_power(torch.ones(2), "a")


def test_a_bool_is_its_own_sign():
    assert torch.sgn(torch.tensor([True, False])).tolist() == [True, False]


def test_sinc_of_half_precision_is_zero_at_whole_numbers():
    assert abs(torch.sinc(torch.tensor([1.0, 2.0, -3.0], dtype=torch.float16))).max() < 1e-6


@pytest.mark.parametrize("count", [3, 5000])
def test_the_angle_of_nan_is_nan(count):
    x = torch.tensor([-1.0, nan, 2.0]).repeat(count // 3)
    numpy.testing.assert_array_equal(torch.angle(x)[:3].numpy(), numpy.float32([math.pi, nan, 0]))


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh])
@pytest.mark.parametrize("count", [(), (5,), (5000,)])
def test_slopes_are_one_node_of_the_second_order(function, count):
    x = torch.full(count, 0.5, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    name = function.__name__.capitalize()
    assert type(slope.grad_fn).__name__ == f"{name}BackwardBackward0"
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    y = function(x.detach())
    expected = y * (1 - y) * (1 - 2 * y) if name == "Sigmoid" else -2 * y * (1 - y * y)
    same(curvature.numpy(), expected.numpy())


def test_xlogy_of_zero_is_zero_however_shapes_broadcast():
    x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([1.0, nan, 0.0])
    assert str(torch.xlogy(x, y).tolist()) == "[[0.0, nan, 0.0], [0.0, nan, -inf]]"
    assert str(torch.xlogy(x[0], y).tolist()) == "[0.0, nan, 0.0]"
    assert str(torch.xlogy(torch.tensor([-1.0]), torch.ones(1)).tolist()) == "[-0.0]"


@pytest.mark.parametrize("name", ["fmod", "remainder"])
@pytest.mark.parametrize(("x", "y"), [(5.0, 3.0), (5.0, 0.0), (math.inf, 3.0), (5.0, math.inf)])
def test_slopes_by_a_divisor_are_steps_which_have_no_slope_even_beside_infinity(name, x, y):
    divisor = torch.tensor(y, dtype=torch.float64)
    slope = torch.func.grad(lambda d: getattr(torch, name)(torch.tensor(x).double(), d))
    assert torch.func.grad(slope)(divisor).item() == 0


@pytest.mark.parametrize("eps", [None, 0.0, 0.1])
def test_the_slope_of_logit_at_nan_is_nan(eps):
    x = torch.tensor([torch.nan, 0.5], requires_grad=True)
    (g,) = torch.autograd.grad(torch.logit(x, eps).sum(), x)
    assert g.isnan().tolist() == [True, False]
