"""Floats of 8 bits and complex numbers of halves against torch: values, calls, refusals, files."""

import io
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")

import pullback

FLOATS = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
NAMES = [*FLOATS, "complex32"]

# Expressions of `x` and `y`, two vectors, `m`, a matrix, and `t`, the library.
SHARED = """
    x.abs() | x == y | x != y | x * y | t.where(x == y, x, y) | x[2:4] | x[t.tensor([1, 0])]
    x.clone() | m.t().contiguous() | t.cat([x, y]) | t.stack([x, y]) | x.repeat(2) | t.roll(x, 1)
    x.expand(2, 16) | t.zeros_like(x) | t.ones_like(x) | t.full_like(x, 3) | x.new_zeros(2)
    x.isnan() | x.any() | x.index_select(0, t.tensor([1])) | t.nn.functional.pad(x, (1, 1))
    x.element_size() | x.is_floating_point() | x.is_complex() | x.type() | x.view(t.uint8)
    x.view(t.uint8).view(x.dtype) | x.to(t.complex64) | x.double() | x.bool() | x.tolist()
    t.tensor([1.5, 3], dtype=x.dtype) | t.zeros(2, dtype=x.dtype).to(t.complex64)
    t.finfo(x.dtype).bits | t.finfo(x.dtype).max | t.promote_types(x.dtype, x.dtype)
    x.exp() | x / y | x.sin() | x.sqrt() | x < y | x.clamp(0, 1) | x.max() | x.sum() | x.mean()
    x.relu() | t.arange(3, dtype=x.dtype) | t.linspace(0, 1, 3, dtype=x.dtype)
    t.set_default_dtype(x.dtype)
"""
OF_FLOATS = """
    m @ m | m.mm(m) | t.nn.functional.linear(m, m) | x * 2 | x * t.tensor(2.0) | x + y | x - y | -x
    x * y.float() | x + 1 | t.cat([x, y.float()]) | t.rand(2, dtype=x.dtype) | t.randn_like(x)
    t.promote_types(x.dtype, t.float32) | t.promote_types(x.dtype, t.int8) | x.norm()
    t.tensor([1e9, -1e9, float("nan"), float("inf")]).to(x.dtype) | x.sum(dtype=t.float32)
    x.clone().copy_(t.full((16,), 1e6)) | t.tensor([1000.0], dtype=x.dtype) | x.dtype.to_complex()
    t.full((2,), 1000.0, dtype=x.dtype) | x.clone().fill_(500) | x.float() * y[0]
"""
OF_COMPLEX = """
    x + y | x - y | -x | x * 2 | x + 1.5 | x * 1j | x.conj() | x.real | x.imag | t.view_as_real(x)
    t.view_as_complex(t.ones(3, 2).half()) | t.complex(t.ones(2).half(), t.zeros(2).half())
    t.ones(2).half() * 1j | x + y.to(t.complex64) | x.to(t.complex128) + y | x.conj() * x | x.sgn()
    t.cat([x, y.to(t.complex64)]) | x.half() | x.view(t.float16) | x.isfinite() | t.ones(2).chalf()
    x.masked_fill(x == x, 1j) | t.full((2,), 1 + 2j, dtype=x.dtype) | m @ m | x.reciprocal()
    t.promote_types(x.dtype, t.int8) | t.promote_types(x.dtype, t.float32) | x.dtype.to_real()
"""


def _given(t, name):
    numbers = numpy.random.default_rng(3).random((3, 16)).astype("float32")
    x, y, z = (t.from_numpy(row) for row in numbers)
    made = [(x * 4 - 1), (y * 30).abs(), z]
    if name == "complex32":
        made = [part + 1j * part.flip(0) for part in made]
    x, y, m = (part.to(getattr(t, name)) for part in made)
    return {"x": x, "y": y, "m": m.view(4, 4), "t": t}


def _outcome(t, name, expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = eval(expression, _given(t, name))
        except Exception as error:
            return type(error).__name__
    if not isinstance(got, t.Tensor):
        return str(got)
    wide = got.to(t.complex128) if got.is_complex() else got.double()
    return str(got.dtype), tuple(got.shape), str(wide.tolist())


def _expressions(text):
    return [one.strip() for line in text.strip().splitlines() for one in line.split("|")]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "float8_e8m0fnu"])
def test_calls_and_refusals_agree(name):
    own = OF_COMPLEX if name == "complex32" else OF_FLOATS
    for expression in _expressions(SHARED) + _expressions(own):
        got, expected = _outcome(pullback, name, expression), _outcome(torch, name, expression)
        assert got == expected, expression


@pytest.mark.parametrize("name", FLOATS)
def test_every_number_of_float16_and_many_of_float32_round_to_the_same_byte(name):
    halves = numpy.arange(2**16, dtype="uint16").view("float16").astype("float32")
    random = numpy.random.default_rng(0)
    spread = random.standard_normal(20_000) * 10.0 ** random.integers(-40, 38, 20_000)
    numbers = numpy.concatenate([halves, spread.astype("float32")])
    numbers = numbers[~numpy.isnan(numbers)]  # NaN has several bytes
    got = pullback.from_numpy(numbers).to(getattr(pullback, name)).view(pullback.uint8)
    expected = torch.from_numpy(numbers).to(getattr(torch, name)).view(torch.uint8)
    assert (got.numpy() == expected.numpy()).all()


@pytest.mark.parametrize("name", FLOATS)
def test_every_byte_stands_for_the_same_number(name):
    def of(t):
        return t.arange(256, dtype=t.uint8).view(getattr(t, name)).float().numpy()

    assert numpy.array_equal(of(pullback), of(torch), equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_files_go_both_ways(name):
    for write, read in ((pullback, torch), (torch, pullback)):
        whole = _given(write, name)["x"]
        file = io.BytesIO()
        write.save({"whole": whole, "part": whole[3:5]}, file)
        file.seek(0)
        loaded = read.load(file)
        assert str(loaded["whole"].dtype) == f"torch.{name}"
        assert loaded["whole"].tolist() == whole.tolist()
        assert loaded["part"].tolist() == whole[3:5].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_pass_conversions_with_the_same_rounding(name):
    def of(t):
        x = t.linspace(-2, 2, 9, requires_grad=True)
        narrow = x.to(getattr(t, name))
        wide = narrow.to(t.complex64) if narrow.is_complex() else narrow.float()
        (wide * t.linspace(0.1, 3.3, 9)).abs().sum().backward()
        return x.grad.tolist()

    assert of(pullback) == pytest.approx(of(torch))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "complex32"])
def test_the_same_text(name):
    def of(t):
        return repr(_given(t, name)["x"]), repr(_given(t, name)["m"])

    assert of(pullback) == of(torch)


def test_random_complex_halves_are_the_same():
    for t in (pullback, torch):
        t.manual_seed(4)
    for draw in ("rand", "randn"):
        got = getattr(pullback, draw)(5, dtype=pullback.complex32)
        expected = getattr(torch, draw)(5, dtype=torch.complex32)
        assert got.tolist() == pytest.approx(expected.tolist(), rel=2e-3)


NUMBERS = {
    "mul": lambda lib, x: x * 2.7,
    "rmul": lambda lib, x: 2.7 * x,
    "div": lambda lib, x: x / 2.7,
    "rdiv": lambda lib, x: 0.3 / (x.abs() + 1),
    "chain": lambda lib, x: ((x * 2.7) * 1.3) / 0.7,
    "whole": lambda lib, x: (x * 3).sum() * 0.3,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_not_rounded_itself_in_the_backward(name, dtype):
    values = numpy.random.default_rng(0).standard_normal((2, 200)).astype("f4")
    found = []
    for lib in (pullback, torch):
        x, v = (lib.tensor(one).to(getattr(lib, dtype)) for one in values)
        y = NUMBERS[name](lib, x.requires_grad_())
        v = v if y.ndim else v[0]
        found.append([
            lib.autograd.grad(y, x, v, create_graph=recorded, retain_graph=True)[0]
            .detach().float().numpy()
            for recorded in (False, True)
        ])  # fmt: skip
    numpy.testing.assert_array_equal(found[0], found[1])
