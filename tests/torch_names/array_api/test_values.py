"""Every function of the namespace gives what NumPy gives, in value, dtype and shape.

The other side is array-api-strict, NumPy behind the standard's signatures, so that one text of a
call serves both.
"""

import numpy
import pullback.array_api as xp
import pytest

import pullback
from tests.torch_names.array_api.calls import calls, operands

strict = pytest.importorskip("array_api_strict")
CALLS = list(dict.fromkeys(calls()))


@pytest.fixture(autouse=True)
def floats_as_numpys():
    before = pullback.get_default_dtype()
    pullback.set_default_dtype(pullback.float64)
    yield
    pullback.set_default_dtype(before)


def result(namespace, call):
    scope = {"xp": namespace, **operands(namespace)}
    call = call.replace("*", "", 1) if call.startswith("*") else call
    with numpy.errstate(all="ignore"):
        return eval(f"xp.{call}", scope)


def plain(value):
    """A value as NumPy has it, with the name of its dtype."""
    if isinstance(value, tuple | list) and not isinstance(value, pullback.Size):
        return [plain(one) for one in value]
    if isinstance(value, pullback.Tensor):
        return value.dtype._name, value.numpy()
    if hasattr(value, "__array_namespace__"):
        return str(value.dtype).rpartition(".")[2], numpy.asarray(value._array)
    if isinstance(value, pullback.dtype):
        return value._name
    if type(value).__module__.startswith("array_api_strict"):
        return str(value).rpartition(".")[2]
    return tuple(value) if isinstance(value, pullback.Size) else value


def same(ours, theirs, tolerance):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, tolerance)
    elif isinstance(theirs, tuple) and isinstance(theirs[-1], numpy.ndarray):
        assert ours[0] == theirs[0]
        numpy.testing.assert_allclose(ours[1], theirs[1], rtol=tolerance, atol=tolerance)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-6)
    else:
        assert ours == theirs


@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_what_numpy_gives(call):
    tolerance = 2e-6 if "32" in call or "64" in call else 1e-11
    same(plain(result(xp, call)), plain(result(strict, call)), tolerance)


def test_every_function_is_called():
    called = " ".join(CALLS)
    functions = [name for name in xp.__all__ if callable(getattr(xp, name)) and name[0] != "_"]
    functions += [f"linalg.{name}" for name in xp.linalg.__all__]
    functions += [f"fft.{name}" for name in xp.fft.__all__]
    # Those of `linalg` that are at the top as well are the same objects.
    shown = {name for name in functions if f"{name}(" in called}
    missing = {name.removeprefix("linalg.") for name in set(functions) - shown}
    assert missing - {"result_type"} <= {"matrix_transpose", "tensordot"}


@pytest.mark.parametrize("one", [*strict.__array_namespace_info__().dtypes()])
@pytest.mark.parametrize("other", [*strict.__array_namespace_info__().dtypes()])
def test_dtypes_meet_as_the_standard_says(one, other):
    def met(namespace):
        try:
            return namespace.result_type(getattr(namespace, one), getattr(namespace, other))
        except TypeError:
            return None

    theirs = met(strict)
    if theirs is not None:  # else the standard leaves it open
        assert met(xp)._name == str(theirs).rpartition(".")[2]
        assert xp.can_cast(getattr(xp, one), met(xp))


def test_uint64_and_signed_integers_have_no_common_dtype():
    with pytest.raises(TypeError, match="no common dtype"):
        xp.result_type(xp.uint64, xp.int8)
    assert not xp.can_cast(xp.uint64, xp.int64)


@pytest.mark.parametrize("kind", [None, "bool", "integral", "numeric", ("bool", "real floating")])
def test_the_namespace_tells_its_dtypes(kind):
    theirs = strict.__array_namespace_info__().dtypes(kind=kind)
    ours = xp.__array_namespace_info__().dtypes(kind=kind)
    assert ours == {name: getattr(xp, name) for name in theirs}


def test_complex_elements_are_unique_as_numpys_are():
    nan = complex(numpy.nan, 1)
    a = numpy.array([1 + 2j, 1 - 1j, 1 + 2j, 0j, complex(-0.0, 0), nan, nan, complex(2, numpy.nan)])
    ours = xp.unique_all(pullback.tensor(a).reshape(2, 4))
    theirs = strict.unique_all(strict.asarray(a.reshape(2, 4)))
    for name in theirs._fields:
        found = getattr(ours, name).numpy()
        numpy.testing.assert_array_equal(found, numpy.asarray(getattr(theirs, name)._array))
    assert xp.unique_values(pullback.zeros(0, dtype=pullback.complex64)).shape == (0,)
