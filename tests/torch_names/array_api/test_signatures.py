"""Names and signatures are those of the standard, and a tensor leads to them."""

import inspect
import math

import pullback.array_api as xp
import pytest

import pullback

strict = pytest.importorskip("array_api_strict")
# In array-api-strict, but not of 2024.12.
LATER = {"Device", "__version__", "ArrayAPIStrictFlags", "broadcast_shapes", "isin"}
LATER |= {f"{how}_array_api_strict_flags" for how in ("get", "set", "reset")}
SPACES = [(xp, strict), (xp.linalg, strict.linalg), (xp.fft, strict.fft)]


def parameters(function):
    return [(one.name, one.kind) for one in inspect.signature(function).parameters.values()]


def defaults(function):
    signature = inspect.signature(function).parameters.values()
    return {
        one.name: one.default for one in signature if one.default is not inspect.Parameter.empty
    }


def functions():
    for ours, theirs in SPACES:
        for name in theirs.__all__:
            if inspect.isfunction(getattr(theirs, name)) and name not in LATER:
                yield pytest.param(getattr(ours, name), getattr(theirs, name), id=name)


@pytest.mark.parametrize(("ours", "theirs"), [*functions()])
def test_a_function_takes_its_arguments_as_the_standard_writes_them(ours, theirs):
    assert ours.__name__ == theirs.__name__
    if ours.__name__ == "expand_dims":  # there it is as in NumPy
        axis = inspect.Parameter("axis", inspect.Parameter.KEYWORD_ONLY, default=0)
        assert inspect.signature(ours).parameters["axis"].replace(annotation=axis.empty) == axis
        return
    assert parameters(ours) == parameters(theirs)
    given = {k: v for k, v in defaults(theirs).items() if "Undef" not in type(v).__name__}
    assert {k: defaults(ours)[k] for k in given} == given


@pytest.mark.parametrize(("ours", "theirs"), SPACES)
def test_the_namespace_has_the_names_of_the_standard_and_no_others(ours, theirs):
    assert set(theirs.__all__) - LATER == set(ours.__all__)
    assert {name for name in dir(ours) if name[0] != "_"} == {
        n for n in ours.__all__ if n[0] != "_"
    }


def test_a_tensor_leads_to_its_namespace():
    x = pullback.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match=r"2019\.12"):
        x.__array_namespace__(api_version="2019.12")


def test_constants_and_dtypes_are_python_and_torch_ones():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)
    assert all(getattr(xp, name) is getattr(pullback, name) for name in ("bool", "int8", "uint64"))


def test_the_namespace_tells_about_itself():
    info = xp.__array_namespace_info__()
    theirs = strict.__array_namespace_info__()
    assert info.capabilities().keys() == theirs.capabilities().keys()
    assert info.default_dtypes().keys() == theirs.default_dtypes().keys()
    assert info.default_dtypes()["real floating"] is pullback.get_default_dtype()
    assert info.default_device() in info.devices()
    assert xp.zeros((1,) * info.capabilities()["max dimensions"]).ndim == 64
    with pytest.raises(ValueError, match="no kind"):
        info.dtypes(kind="floats")


def test_a_tensor_goes_to_a_device():
    x = pullback.ones(2)
    assert x.to_device("cpu") is x
    assert x.to_device(pullback.device("meta")).device.type == "meta"
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)
