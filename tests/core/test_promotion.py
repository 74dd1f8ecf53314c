"""Promotion of dtypes by rank and category; the rules against torch are in differential."""

import enum
import itertools

import numpy
import pytest

from pullback.core import dtype as dtypes
from pullback.core.dtype import (
    DTYPES,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
)
from pullback.core.promotion import (
    can_cast,
    common_dtype,
    dtype_with_number,
    promote_dtypes,
    promote_to_float,
    promote_types,
    result_dtype,
    result_type,
)

WIDE_UNSIGNED = ("uint16", "uint32", "uint64")
USUAL = [d for name, d in DTYPES.items() if name not in (*WIDE_UNSIGNED, "bfloat16")]


class Color(enum.IntEnum):
    RED = 1


class Wrapped:
    """What result_type knows of a tensor."""

    def __init__(self, array):
        self._array = array


def array(d, *shape):
    return numpy.zeros(shape, d.numpy)


@pytest.fixture
def default_float64():
    set_default_dtype(float64)
    yield
    set_default_dtype(float32)


@pytest.mark.parametrize("a", USUAL, ids=str)
def test_promotion_is_a_join(a):
    assert promote_types(a, a) is a
    for b in USUAL:
        assert promote_types(a, b) is promote_types(b, a)
        assert promote_types(a, promote_types(a, b)) is promote_types(a, b)


def test_promotion_does_not_depend_on_grouping():
    for a, b, c in itertools.product(USUAL, repeat=3):
        left = promote_types(promote_types(a, b), c)
        assert left is promote_types(a, promote_types(b, c)), (a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (int64, float16, float16),
        (uint8, int8, int16),
        (uint8, int16, int16),
        (int32, int64, int64),
        (bool_, int8, int8),
        (float64, complex64, complex128),
        (float16, complex64, complex64),
        (uint16, float32, float32),
        (uint16, uint16, uint16),
        (int, float32, float32),
    ],
    ids=str,
)
def test_promote_types_follows_torch(a, b, expected):
    assert promote_types(a, b) is expected


def test_bfloat16_and_float16_meet_in_float32():
    pytest.importorskip("ml_dtypes")
    assert promote_types(dtypes.bfloat16, float16) is float32
    assert promote_types(dtypes.bfloat16, int64) is dtypes.bfloat16
    assert promote_types(dtypes.bfloat16, complex64) is complex64


@pytest.mark.parametrize("other", [bool_, uint8, int64, uint32, complex64], ids=str)
def test_wide_unsigned_integers_meet_floating_point_only(other):
    with pytest.raises(RuntimeError, match=r"no common dtype.*convert one operand"):
        promote_types(uint16, other)
    with pytest.raises(RuntimeError, match="no common dtype"):
        promote_types(other, uint16)


def test_promote_dtypes_speaks_numpy_and_refuses_what_cannot_be_a_tensor():
    assert promote_dtypes(float32.numpy, int64.numpy) is float32.numpy
    with pytest.raises(TypeError, match="object cannot become tensors"):
        promote_dtypes(numpy.dtype(object), float32.numpy)


def test_can_cast_forbids_a_lower_category_only():
    assert can_cast(float64, float16)
    assert can_cast(int64, uint8)
    assert can_cast(bool_, complex64)
    assert not can_cast(complex64, float64)
    assert not can_cast(float16, int64)
    assert not can_cast(uint8, bool_)


def test_public_functions_refuse_what_is_no_dtype():
    for call in (promote_types, can_cast):
        with pytest.raises(TypeError, match=r"did you mean torch\.float32"):
            call(float32, "float32")
        with pytest.raises(TypeError, match=r"expected a torch\.dtype"):
            call(1, float32)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((array(float32, 2), array(float64)), float32),
        ((array(int64, 2), array(float64)), float64),
        ((array(int8, 2), array(int64)), int8),
        ((array(bool_, 2), array(int8)), int8),
        ((array(float64, 2), array(complex64)), complex128),
        ((array(float32), array(float64)), float64),
        ((array(uint16, 2), array(int64)), uint16),
        ((array(float32, 0), array(float64)), float32),
        ((array(int8, 2), 1.0), float32),
        ((array(int8), 1000), int8),
        ((array(bool_, 2), 1), int64),
        ((array(bool_, 2), True), bool_),
        ((array(float64, 2), 1j), complex128),
        ((array(int8, 2), 1j), complex64),
        ((array(uint16, 2), 1j), complex64),
        ((array(float16), 1.0), float16),
        ((1, 2), int64),
        ((True, False), bool_),
        ((1, 2.0), float32),
        ((1.5, 1j), complex64),
        ((array(int8, 2), array(float16), 1.5), float16),
        ((array(float64, 2), array(int64), 1j), complex128),
        ((array(bool_, 2), array(uint16), 1.5), float32),
        ((array(int8, 2), array(uint8, 2), array(float64), 1), float64),
    ],
    ids=lambda value: str(value) if isinstance(value, dtypes.dtype) else None,
)
def test_result_ranks_dimensions_over_0d_over_numbers(operands, expected):
    assert result_dtype(operands) == expected.numpy
    assert result_dtype(operands[::-1]) == expected.numpy
    assert result_type(*operands) is expected


def test_result_dtype_of_one_array_is_its_own():
    assert result_dtype([array(int16, 2)]) == int16.numpy
    assert result_dtype(iter([array(float64)])) == float64.numpy


@pytest.mark.parametrize(
    ("number", "python_number"),
    [
        (numpy.bool_(1), True),
        (numpy.uint16(1), 1),
        (numpy.float64(1), 1.0),
        (numpy.float16(1), 1.0),
        (numpy.complex128(1), 1j),
        (Color.RED, 1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("d", [bool_, int8, float32, complex64], ids=str)
def test_numpy_scalars_and_subclasses_count_as_python_numbers(d, number, python_number):
    for shape in ((), (2,)):
        expected = result_dtype([array(d, *shape), python_number])
        assert result_dtype([array(d, *shape), number]) == expected
        assert dtype_with_number(d.numpy, number) == expected


def test_dtype_with_number_agrees_with_result_dtype():
    for d, number in itertools.product(DTYPES.values(), (True, 1, 1.5, 1j)):
        if (d is float16 or d.itemsize == 1) and number == 1j:
            continue
        expected = result_dtype([array(d, 2), number])
        assert dtype_with_number(d.numpy, number) == expected


def test_default_dtype_decides_what_numbers_become(default_float64):
    assert result_type(array(int8, 2), 1.0) is float64
    assert result_type(array(bool_), 1j) is complex128
    assert result_type(array(float32, 2), 1.0) is float32
    assert dtype_with_number(int8.numpy, 1.0) == float64.numpy
    assert promote_to_float(int8.numpy) == float64.numpy


def test_a_complex_number_under_default_float16_is_of_halves_only_where_it_decides():
    pytest.importorskip("ml_dtypes")
    halves = float16.to_complex()
    set_default_dtype(float16)
    try:
        assert result_type(array(float32, 2), 1j) is complex64
        assert result_type(array(complex64), 1j) is complex64
        assert result_type(array(float64, 2), array(int8), 1j) is complex128
        for operands in ((array(int8, 2), 1j), (1, 1j), (array(int8, 2), array(int8), 1j)):
            assert result_type(*operands) is halves
    finally:
        set_default_dtype(float32)


def test_half_precision_with_a_complex_number_is_complex_half_precision():
    pytest.importorskip("ml_dtypes")
    for lower in (1j, array(complex64)):
        assert result_dtype([array(float16, 2), lower]) == float16.to_complex().numpy


def test_floats_of_8_bits_are_never_promoted():
    pytest.importorskip("ml_dtypes")
    byte = dtypes.named_dtype("float8_e5m2")
    assert result_type(array(byte, 2), 1.5) is byte
    for other in (float32, int64, bool_, float16.to_complex()):
        with pytest.raises(RuntimeError, match="floating-point dtypes of 8 bits are never"):
            result_type(array(byte, 2), array(other, 2))


@pytest.mark.parametrize("value", ["1", None, [1], {}], ids=repr)
def test_what_is_no_operand_is_refused(value):
    with pytest.raises(TypeError, match="expected a tensor, an array or a number"):
        result_type(array(int8, 2), value)
    with pytest.raises(TypeError, match="expected a tensor, an array or a number"):
        dtype_with_number(int8.numpy, value)


def test_dtype_with_number_refuses_an_array():
    with pytest.raises(TypeError, match="expected a number, got an array"):
        dtype_with_number(int8.numpy, array(int8))


def test_anything_with_ndim_and_dtype_counts_as_an_array():
    class Traced:
        ndim = 1
        dtype = float64.numpy

    assert result_dtype([Traced(), array(int8, 2), 1]) == float64.numpy


def test_result_dtype_of_nothing_is_refused():
    with pytest.raises(TypeError, match="no operands"):
        result_dtype([])


def test_result_type_unwraps_tensors_and_takes_torchs_argument_names():
    tensor = Wrapped(array(int8, 2))
    assert result_type(tensor, Wrapped(array(float64))) is float64
    assert result_type(tensor, other=1.5) is float32
    assert result_type(scalar=1, tensor=tensor) is int8
    assert result_type(scalar1=1, scalar2=2.0) is float32


def test_result_type_wants_two_operands_and_known_names():
    with pytest.raises(TypeError, match="at least two operands, got 1"):
        result_type(array(int8, 2))
    with pytest.raises(TypeError, match="no argument tensor1"):
        result_type(tensor1=array(int8, 2), other=1)


def test_promote_to_float_changes_integers_and_bool_only():
    for d in DTYPES.values():
        expected = d.numpy if d.is_differentiable else float32.numpy
        assert promote_to_float(d.numpy) == expected
    with pytest.raises(TypeError, match="cannot become tensors"):
        promote_to_float(numpy.dtype("U3"))


def test_common_dtype_ranks_all_arrays_the_same():
    assert common_dtype([array(int8, 2)]) == int8.numpy
    assert common_dtype([array(float32, 2), array(float64)]) == float64.numpy
    assert common_dtype([array(uint8, 2), array(int8, 0)]) == int16.numpy
    with pytest.raises(ValueError, match="at least one"):
        common_dtype([])
