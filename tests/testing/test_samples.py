"""Sample inputs are what they claim: repeatable, fresh, well chosen, in the layouts they name."""

import numpy
import pytest

import pullback
from pullback.testing import SAMPLES, SampleInput, resolve, samples_for, tensors_in
from pullback.testing.cases import LAYOUTS, Draw, case
from pullback.testing.coverage import supports


def all_arrays(samples):
    return [tensor._array for sample in samples for tensor in sample.tensors]


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_the_same_in_every_run(name):
    first, second = all_arrays(samples_for(name)), all_arrays(samples_for(name))
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        numpy.testing.assert_array_equal(a, b)
        assert a.strides == b.strides


def test_another_seed_gives_other_values():
    (one, *_), (other, *_) = samples_for("sin"), samples_for("sin", seed=1)
    assert (one.input._array != other.input._array).all()


def test_samples_share_no_memory():
    (one, *_), (other, *_) = samples_for("add"), samples_for("add")
    assert not numpy.shares_memory(one.input._array, other.input._array)


def test_floating_point_tensors_require_grad_unless_told_otherwise():
    assert all(
        tensor.requires_grad == tensor.dtype.is_floating_point
        for sample in samples_for("add")
        for tensor in sample.tensors
    )
    assert not any(sample.differentiable for sample in samples_for("add", requires_grad=False))


def test_values_that_take_no_gradient_are_marked_in_the_table():
    samples = [s for s in samples_for("nn.functional.cross_entropy") if len(s.args) > 1]
    assert samples
    assert not any(sample.args[1].requires_grad for sample in samples)


@pytest.mark.parametrize("dtype", [pullback.float32, pullback.float64, pullback.complex128])
def test_samples_come_in_the_dtype_asked_for(dtype):
    assert next(iter(samples_for("mul", dtype))).input.dtype is dtype


def test_no_complex_samples_for_what_takes_none():
    assert not list(samples_for("atan2", pullback.complex128))
    assert list(samples_for("mul", pullback.complex128))


def test_operator_can_be_given_as_a_function():
    by_function = all_arrays(samples_for(pullback.mul))
    by_name = all_arrays(samples_for("mul"))
    for a, b in zip(by_function, by_name, strict=True):
        numpy.testing.assert_array_equal(a, b)


def test_unknown_operator_is_a_key_error():
    with pytest.raises(KeyError, match="no_such"):
        next(samples_for("no_such"))


def test_layouts_keep_the_values():
    array = numpy.arange(6.0).reshape(2, 3)
    for name in ("contiguous", "transposed", "sliced"):
        numpy.testing.assert_array_equal(LAYOUTS[name](array), array)
    assert LAYOUTS["contiguous"](array).flags.c_contiguous
    assert not LAYOUTS["transposed"](array).flags.c_contiguous
    assert not LAYOUTS["sliced"](array).flags.forc
    repeated = LAYOUTS["expanded"](array)
    assert repeated.strides[0] == 0
    numpy.testing.assert_array_equal(repeated, [array[0], array[0]])


def test_every_layout_is_among_the_samples():
    layouts = {sample.layout for sample in samples_for("add")}
    assert layouts == set(LAYOUTS) - {
        *("swapped", "channels_last", "batch_second", "rotated"),  # of more dimensions
    }
    for layout in LAYOUTS:
        assert {sample.layout for sample in samples_for("add", layout=layout)} == {layout}


def test_expanded_samples_are_not_for_finite_differences():
    assert not any(s.smooth for s in samples_for("add") if s.layout == "expanded")


@pytest.mark.parametrize("size", [1, 6, 24])
def test_drawn_numbers_keep_their_distance(size):
    values = numpy.sort(Draw(numpy.dtype("float64"), 0)(size))
    assert size == 1 or numpy.diff(values).min() > 1e-3
    assert numpy.abs(2 * values - numpy.round(2 * values)).min() > 1e-2


def test_call_passes_everything_on():
    sample = SampleInput(1, (2,), {"c": 3})
    assert sample.call(lambda *args, **kwargs: (args, kwargs)) == ((1, 2), {"c": 3})


def test_repr_shows_shapes_options_and_layout():
    (sample, *_) = samples_for("logsumexp")
    assert repr(sample) == "<sample (float64[2, 3], 1) contiguous>"


def test_tensors_are_found_however_nested():
    x = pullback.from_numpy(numpy.ones(1))
    assert list(tensors_in((x, [x, (2, x)], None))) == [x, x, x]


def test_resolve_finds_functions_methods_and_properties():
    x = pullback.from_numpy(numpy.ones((2, 3)))
    assert resolve(pullback, "mul") is pullback.mul
    assert resolve(pullback, "Tensor.expand")(x, 2, 2, 3).shape == (2, 2, 3)
    assert resolve(pullback, "Tensor.T")(x).shape == (3, 2)
    assert resolve(pullback, "nn.no_such") is None
    assert resolve(pullback, "Tensor.no_such") is None


def test_cases_remember_what_they_are_for():
    assert case(1, b=2) == ((1,), {"b": 2}, True, False)


def test_flags_are_found_by_function_method_and_alias():
    assert supports("sin", "complex")
    assert supports("Tensor.reshape", "view")
    assert supports("expand", "view")
    assert supports("clip", "grad")
    assert not supports("clip", "complex")
    assert not supports("no_such", "grad")
