"""Dtype objects, their limits, and the default dtype."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from pullback.core import dtype as dtypes
from pullback.core.dtype import (
    ALIASES,
    BY_NUMPY,
    DTYPES,
    as_dtype,
    bool_,
    complex64,
    complex128,
    default,
    dtype,
    float16,
    float32,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    named_dtype,
    set_default_dtype,
    uint8,
    uint64,
)
from pullback.core.limits import finfo, iinfo

NATIVE = [d for d in DTYPES.values() if d.numpy.kind in "biufc"]


@pytest.fixture
def bfloat16():
    pytest.importorskip("ml_dtypes")
    return dtypes.bfloat16


@pytest.fixture
def restored_default():
    before = get_default_dtype()
    yield
    set_default_dtype(before)


def test_repr_and_str_are_what_torch_shows():
    assert repr(float32) == str(float32) == "torch.float32"
    assert repr(bool_) == "torch.bool"


@pytest.mark.parametrize("d", NATIVE, ids=str)
def test_attributes_follow_from_the_numpy_dtype(d):
    kind = d.numpy.kind
    assert d.itemsize == d.numpy.itemsize
    assert d.is_floating_point == (kind == "f")
    assert d.is_complex == (kind == "c")
    assert d.is_signed == (kind in "ifc")
    assert d.is_differentiable == (kind in "fc")
    assert d.category == {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[kind]
    assert d.type is d.numpy.type


@pytest.mark.parametrize("d", NATIVE, ids=str)
def test_pickle_and_copy_give_the_same_object(d):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d


def test_dtypes_hash_by_identity():
    assert len({float32, float64, float32}) == 2
    assert float32 != float32.numpy


def test_dtypes_cannot_be_created_changed_or_subclassed():
    with pytest.raises(TypeError, match="cannot be created"):
        dtype("float32")
    with pytest.raises(AttributeError, match="itemsize"):
        float32.itemsize = 8
    with pytest.raises(AttributeError, match="itemsize"):
        del float32.itemsize
    with pytest.raises(AttributeError):
        float32.colour = "red"
    with pytest.raises(TypeError, match="subclassed"):
        type("mine", (dtype,), {})


def test_aliases_name_the_same_objects():
    assert ALIASES["float"] is float32
    assert ALIASES["int"] is int32
    assert dtypes.half is float16
    assert dtypes.double is float64
    assert dtypes.cfloat is complex64
    assert dtypes.cdouble is complex128
    assert dtypes.short is int16
    assert dtypes.long is int64


def test_real_and_complex_counterparts():
    assert complex64.to_real() is float32
    assert complex128.to_real() is float64
    assert int8.to_real() is int8
    assert float32.to_complex() is complex64
    assert float64.to_complex() is complex128
    assert complex64.to_complex() is complex64


def test_complex_counterpart_of_float16_is_complex32():
    pytest.importorskip("ml_dtypes")
    assert str(float16.to_complex()) == "torch.complex32"
    assert float16.to_complex().to_real() is float16


def test_complex_counterpart_of_float16_without_ml_dtypes_names_the_package(monkeypatch):
    _without_ml_dtypes(monkeypatch, "complex32")
    with pytest.raises(RuntimeError, match=r"complex32 needs .* install ml_dtypes"):
        float16.to_complex()


@pytest.mark.parametrize("d", [bool_, uint8, int64], ids=str)
def test_complex_counterpart_of_integers_is_refused(d):
    with pytest.raises(RuntimeError, match=f"{d} has no complex counterpart"):
        d.to_complex()


@pytest.mark.parametrize("d", NATIVE, ids=str)
def test_numpy_dtypes_map_to_ours_and_back(d):
    assert from_numpy_dtype(d.numpy) is d
    assert from_numpy_dtype(numpy.zeros(1, d.numpy).dtype) is d
    assert BY_NUMPY[d.numpy] is d


def test_numpy_integers_of_the_same_width_under_another_name_map_to_ours():
    assert from_numpy_dtype(numpy.dtype("longlong")) is int64


@pytest.mark.parametrize("name", ["O", "U3", "S2", "longdouble", "M8[s]", [("a", "f4")]], ids=str)
def test_unsupported_numpy_dtypes_are_refused_naming_the_supported(name):
    with pytest.raises(TypeError, match=r"cannot become tensors; supported are float16, float32"):
        from_numpy_dtype(numpy.dtype(name))


def test_foreign_byte_order_is_refused_with_a_remedy():
    foreign = numpy.dtype("f4").newbyteorder()
    with pytest.raises(ValueError, match=r"byte order.*newbyteorder"):
        from_numpy_dtype(foreign)


@pytest.mark.parametrize("value", ["float32", numpy.float32, None, []], ids=repr)
def test_what_is_no_numpy_dtype_is_refused(value):
    with pytest.raises(TypeError, match=r"expected a numpy\.dtype"):
        from_numpy_dtype(value)


def test_named_dtype_knows_names_and_aliases():
    assert named_dtype("bool") is bool_
    assert named_dtype("long") is int64
    with pytest.raises(ValueError, match="no dtype 'float7'"):
        named_dtype("float7")


def test_as_dtype_takes_dtypes_and_the_types_of_python_numbers():
    assert as_dtype(float16) is float16
    assert as_dtype(float) is float64
    assert as_dtype(int) is int64
    assert as_dtype(bool) is bool_
    assert as_dtype(complex) is complex128


@pytest.mark.parametrize("value", [None, 1, str, "float7", "no dtype", [], {}], ids=repr)
def test_as_dtype_refuses_the_rest(value):
    with pytest.raises(TypeError, match=r"expected a torch\.dtype"):
        as_dtype(value)


@pytest.mark.parametrize("value", ["float32", numpy.float32, numpy.dtype("f4")], ids=repr)
def test_as_dtype_suggests_the_dtype_that_was_meant(value):
    with pytest.raises(TypeError, match=r"did you mean torch\.float32\?"):
        as_dtype(value)


def test_bfloat16_is_one_object_with_the_promised_attributes(bfloat16):
    assert dtypes.bfloat16 is bfloat16
    assert repr(bfloat16) == "torch.bfloat16"
    assert (bfloat16.itemsize, bfloat16.category) == (2, 2)
    assert bfloat16.is_floating_point
    assert bfloat16.is_signed
    assert bfloat16.is_differentiable
    assert bfloat16.to_real() is bfloat16
    assert bfloat16.to_complex() is complex64
    assert from_numpy_dtype(bfloat16.numpy) is bfloat16
    assert copy.deepcopy(bfloat16) is bfloat16
    assert pickle.loads(pickle.dumps(bfloat16)) is bfloat16


def _run(program):
    """What a program prints, word by word, in a process of its own."""
    root = Path(dtypes.__file__).parents[2]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_ml_dtypes_is_not_imported_at_start():
    program = "import sys, pullback.core.promotion; print('ml_dtypes' in sys.modules)"
    assert _run(program) == ["False"]


def test_bfloat16_arrays_are_known_before_anyone_asks_for_the_dtype():
    pytest.importorskip("ml_dtypes")
    program = (
        "import numpy, ml_dtypes, pullback.core.promotion as p, pullback.core.dtype as d;"
        "a = numpy.ones(2, ml_dtypes.bfloat16);"
        "print(d.from_numpy_dtype(p.result_dtype([a, 1.5, numpy.ones(2, int)])))"
    )
    assert _run(program) == ["torch.bfloat16"]


def _without_ml_dtypes(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(DTYPES, name, raising=False)
    monkeypatch.delitem(vars(dtypes), name, raising=False)


@pytest.mark.parametrize("name", dtypes.LATE)
def test_a_dtype_of_ml_dtypes_without_it_names_the_package(monkeypatch, name):
    _without_ml_dtypes(monkeypatch, name)
    with pytest.raises(AttributeError, match=f"{name} needs .* install ml_dtypes"):
        getattr(dtypes, name)
    with pytest.raises(ImportError, match=f"{name} needs .* install ml_dtypes"):
        dtypes.named_dtype(name)  # a file that is loaded
    assert not hasattr(dtypes, name)


def test_a_dtype_that_an_old_ml_dtypes_lacks_says_so(monkeypatch):
    _without_ml_dtypes(monkeypatch, "complex32")
    monkeypatch.setitem(sys.modules, "ml_dtypes", object())
    with pytest.raises(AttributeError, match="newest version"):
        _ = dtypes.complex32


def test_an_unknown_dtype_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'float7'"):
        _ = dtypes.float7


@pytest.mark.parametrize("d", [float16, float32, float64], ids=str)
def test_finfo_has_numpy_values_as_python_floats(d):
    info, expected = finfo(d), numpy.finfo(d.numpy)
    for name in ("eps", "max", "min", "smallest_normal", "tiny"):
        assert type(getattr(info, name)) is float
        assert getattr(info, name) == float(getattr(expected, name))
    assert info.bits == expected.bits
    assert info.dtype == d.numpy.name


def test_finfo_resolution_is_the_decimal_number_and_not_its_rounding():
    assert [finfo(d).resolution for d in (float16, float32, float64)] == [1e-3, 1e-6, 1e-15]


def test_finfo_of_bfloat16(bfloat16):
    info = finfo(bfloat16)
    assert (info.bits, info.dtype, info.eps, info.resolution) == (16, "bfloat16", 2**-7, 0.01)
    assert (info.max, info.tiny) == ((2 - 2**-7) * 2.0**127, 2.0**-126)


def test_finfo_of_complex_describes_the_real_part():
    assert finfo(complex64) == finfo(float32)
    assert finfo(complex64).dtype == "float32"


def test_finfo_without_argument_describes_the_default_dtype(restored_default):
    assert finfo() == finfo(float32)
    set_default_dtype(float64)
    assert finfo().dtype == "float64"


def test_finfo_takes_its_argument_by_name_and_python_types():
    assert finfo(type=float16) == finfo(float16) != finfo(float32)
    assert finfo(float) == finfo(float64)
    assert iinfo(type=int8) == iinfo(int8) != iinfo(int16)


def test_info_repr_reads_like_torchs():
    assert repr(finfo(float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, "
        "smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)"
    )
    assert repr(iinfo(int8)) == "iinfo(min=-128, max=127, dtype=int8)"


def test_info_is_read_only_unhashable_and_pickles():
    with pytest.raises(AttributeError, match="eps"):
        finfo(float32).eps = 1.0
    with pytest.raises(TypeError, match="unhashable"):
        hash(finfo(float32))
    assert pickle.loads(pickle.dumps(finfo(float16))) == finfo(float16)
    assert copy.deepcopy(iinfo(int8)) == iinfo(int8)


@pytest.mark.parametrize("d", [bool_, uint8, int64], ids=str)
def test_finfo_refuses_integers(d):
    with pytest.raises(TypeError, match="use iinfo"):
        finfo(d)


@pytest.mark.parametrize("value", [None, 1, "float32"], ids=repr)
def test_finfo_and_iinfo_refuse_what_is_no_dtype(value):
    with pytest.raises(TypeError, match=r"expected a torch\.dtype"):
        finfo(value)
    with pytest.raises(TypeError, match=r"expected a torch\.dtype"):
        iinfo(value)


@pytest.mark.parametrize("d", [d for d in NATIVE if d.category == 1], ids=str)
def test_iinfo_has_exact_python_ints(d):
    info, bits = iinfo(d), 8 * d.itemsize
    assert (info.bits, info.dtype) == (bits, d.numpy.name)
    assert info.max == (2 ** (bits - 1) if d.is_signed else 2**bits) - 1
    assert info.min == (-(2 ** (bits - 1)) if d.is_signed else 0)
    assert type(info.max) is int


@pytest.mark.parametrize("d", [float32, complex64], ids=str)
def test_iinfo_refuses_floating_point(d):
    with pytest.raises(TypeError, match="use finfo"):
        iinfo(d)


def test_iinfo_refuses_bool_and_wants_an_argument():
    with pytest.raises(TypeError, match=r"torch\.bool"):
        iinfo(bool_)
    with pytest.raises(TypeError, match="type"):
        iinfo()


def test_default_dtype_is_float32_at_first():
    assert get_default_dtype() is float32
    assert default.numpy == numpy.float32
    assert default.complex_numpy == numpy.complex64


def test_set_default_dtype_changes_what_hot_code_reads(restored_default):
    set_default_dtype(float64)
    assert get_default_dtype() is default.dtype is float64
    assert default.numpy == numpy.float64
    assert default.complex_numpy == numpy.complex128


def test_default_float16_has_complex_numbers_of_halves(restored_default):
    pytest.importorskip("ml_dtypes")
    set_default_dtype(float16)
    assert default.numpy == numpy.float16
    assert default.complex_numpy.name == "complex32"


@pytest.mark.parametrize(
    "value", [int64, bool_, complex64, uint64, None, float, "float32"], ids=repr
)
def test_default_dtype_must_be_floating_point(value):
    with pytest.raises(TypeError, match="must be a floating-point dtype"):
        set_default_dtype(value)
    assert get_default_dtype() is float32
