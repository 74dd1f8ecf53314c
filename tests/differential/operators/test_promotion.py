"""Dtypes and their promotion, pair by pair against torch."""

import itertools

import numpy
import pytest

torch = pytest.importorskip("torch")

from pullback.core import dtype as dtypes
from pullback.core import limits, promotion

# torch says that its own complex32 is young, once.
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")

NAMES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
]
NUMBERS = [True, 2, 2.5, 2j]
# A vector, a 0-d tensor and an empty one.
SHAPES = [(2,), (), (0,)]


@pytest.fixture(autouse=True)
def _needs_bfloat16():
    pytest.importorskip("ml_dtypes")


@pytest.fixture(params=["float32", "float64", "float16", "bfloat16"])
def default(request):
    """Each default dtype in turn, on both sides."""
    torch.set_default_dtype(getattr(torch, request.param))
    dtypes.set_default_dtype(ours(request.param))
    yield request.param
    torch.set_default_dtype(torch.float32)
    dtypes.set_default_dtype(dtypes.float32)


def ours(name):
    return dtypes.named_dtype(name)


def theirs(name):
    return getattr(torch, name)


def outcome(call, *args):
    """What a call gives: the dtype's name, or the type of the error."""
    try:
        return str(call(*args))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("a", NAMES)
def test_promote_types_and_can_cast_agree_for_every_pair(a):
    for b in NAMES:
        for name in ("promote_types", "can_cast"):
            own = outcome(getattr(promotion, name), ours(a), ours(b))
            assert own == outcome(getattr(torch, name), theirs(a), theirs(b)), (name, a, b)


@pytest.mark.parametrize("a", NAMES)
def test_result_type_agrees_for_every_pair_of_ranks_and_dtypes(a):
    for b, shape, other_shape in itertools.product(NAMES, SHAPES, SHAPES):
        own = outcome(
            promotion.result_type,
            numpy.zeros(shape, ours(a).numpy),
            numpy.zeros(other_shape, ours(b).numpy),
        )
        expected = outcome(
            torch.result_type,
            torch.zeros(shape, dtype=theirs(a)),
            torch.zeros(other_shape, dtype=theirs(b)),
        )
        assert own == expected, (a, shape, b, other_shape, own, expected)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_result_type_agrees_for_tensors_with_numbers(default):
    for name, shape, number in itertools.product(NAMES, SHAPES, NUMBERS):
        array = numpy.zeros(shape, ours(name).numpy)
        tensor = torch.zeros(shape, dtype=theirs(name))
        expected = outcome(torch.result_type, tensor, number)
        for operands in ((array, number), (number, array)):
            own = outcome(promotion.result_type, *operands)
            assert own == expected, (name, shape, number, own, expected)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_result_type_agrees_for_numbers_alone(default):
    for a, b in itertools.product(NUMBERS, repeat=2):
        own = outcome(promotion.result_type, a, b)
        expected = outcome(torch.result_type, a, b)
        assert own == expected, (a, b, own, expected)


def test_three_tensors_of_mixed_ranks_agree_with_an_operator_that_promotes():
    names = ["uint8", "int8", "int64", "float32", "float64", "complex64"]
    for kinds in itertools.product(names, repeat=3):
        for shapes in itertools.product([(2,), ()], repeat=3):
            tensors = [torch.zeros(s, dtype=theirs(k)) for k, s in zip(kinds, shapes, strict=True)]
            arrays = [numpy.zeros(s, ours(k).numpy) for k, s in zip(kinds, shapes, strict=True)]
            assert str(promotion.result_type(*arrays)) == str(torch.addcmul(*tensors).dtype)


@pytest.mark.parametrize("a", NAMES)
def test_common_dtype_agrees_with_cat_and_stack(a):
    for b in NAMES:
        arrays = [numpy.zeros(2, ours(a).numpy), numpy.zeros(2, ours(b).numpy)]
        tensors = [torch.zeros(2, dtype=theirs(a)), torch.zeros(2, dtype=theirs(b))]
        own = outcome(lambda xs: dtypes.from_numpy_dtype(promotion.common_dtype(xs)), arrays)
        assert own == outcome(lambda xs: torch.cat(xs).dtype, tensors), (a, b)
        assert own == outcome(lambda xs: torch.stack(xs).dtype, tensors), (a, b)


@pytest.mark.parametrize("name", NAMES)
def test_promote_to_float_agrees_with_sin(default, name):
    own = dtypes.from_numpy_dtype(promotion.promote_to_float(ours(name).numpy))
    if dtypes.named_dtype(name).numpy in dtypes.NARROW:  # which has no sine there, but roots
        assert own is ours(name)
        return
    assert str(own) == str(torch.sin(torch.zeros(2, dtype=theirs(name))).dtype)


@pytest.mark.parametrize("name", NAMES)
def test_dtype_attributes_agree(name):
    own, other = ours(name), theirs(name)
    for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed", "abbr"):
        assert getattr(own, attribute) == getattr(other, attribute), attribute
    assert repr(own) == repr(other)
    assert repr(own.to_real()) == repr(other.to_real())
    assert outcome(own.to_complex) == outcome(other.to_complex)


@pytest.mark.parametrize("name", NAMES)
def test_finfo_and_iinfo_agree(name):
    attributes = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")
    for info in ("finfo", "iinfo"):
        own = outcome(getattr(limits, info), ours(name))
        assert own == outcome(getattr(torch, info), theirs(name)), info
        if isinstance(own, str):
            mine, other = getattr(limits, info)(ours(name)), getattr(torch, info)(theirs(name))
            for attribute in attributes:
                assert getattr(mine, attribute, None) == getattr(other, attribute, None), attribute


def test_aliases_agree():
    for alias, own in dtypes.ALIASES.items():
        assert str(own) == str(getattr(torch, alias)), alias
