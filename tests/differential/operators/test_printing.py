"""The text of tensors, character by character against torch."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback

torch = pytest.importorskip("torch")

DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64"]
OPTIONS = [
    {},
    {"precision": 2},
    {"precision": 8},
    {"edgeitems": 1, "threshold": 5},
    {"edgeitems": 0, "threshold": 2},
    {"linewidth": 40},
    {"linewidth": 5},
    {"profile": "short"},
    {"profile": "full"},
    {"sci_mode": True},
    {"sci_mode": False},
]
SHAPES = st.one_of(
    st.lists(st.integers(0, 7), max_size=4).map(tuple),
    st.tuples(st.integers(1, 1100)),
    st.tuples(st.integers(25, 40), st.integers(25, 40)),
)


@st.composite
def arrays(draw):
    """Whole numbers, wide ranges, zeros, infinities: what decides how numbers are written."""
    random = numpy.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(SHAPES)
    values = random.standard_normal(shape) * 10.0 ** draw(st.integers(-8, 12))
    if draw(st.booleans()):
        values = numpy.round(values)
    if draw(st.booleans()):
        values = values ** draw(st.integers(0, 4))
    for special in draw(
        st.lists(st.sampled_from([0, numpy.inf, -numpy.inf, numpy.nan]), max_size=2)
    ):
        values = numpy.where(random.random(shape) < 0.4, special, values)
    dtype = numpy.dtype(draw(st.sampled_from(DTYPES)))
    with numpy.errstate(all="ignore"):
        if dtype.kind in "iu":
            values = numpy.nan_to_num(values, posinf=9, neginf=-9) % 1000
        if dtype.kind == "c":
            values = values + 1j * numpy.round(random.standard_normal(shape) * 10, 1)
        return numpy.asarray(values).astype(dtype)


@pytest.fixture(params=OPTIONS, ids=str, scope="module")
def options(request):
    for lib in (torch, pullback):
        lib.set_printoptions(**request.param)
    yield
    for lib in (torch, pullback):
        lib.set_printoptions(profile="default")


@given(array=arrays())
def test_same_text(options, array):
    assert repr(pullback.from_numpy(array)) == repr(torch.from_numpy(array))


@given(array=arrays())
def test_same_text_with_suffixes(array):
    texts = []
    for lib in (torch, pullback):
        x = lib.from_numpy(array.copy())
        if x.is_floating_point() or x.is_complex():
            x.requires_grad_()
            texts.append(repr(x) + repr(x * 1) + repr(x.T if x.dim() == 2 else x))
        texts.append(str(x.shape))
    half = len(texts) // 2
    assert texts[:half] == texts[half:]


@given(value=st.floats(width=32), spec=st.sampled_from(["", ".3f", "10.2e", "g"]))
def test_same_format(value, spec):
    assert format(pullback.tensor(value), spec) == format(torch.tensor(value), spec)
