"""A program on torch and on pullback: the same values, dtypes, kinds of errors and warnings."""

import warnings

import numpy
import pytest

import pullback

theirs = pytest.importorskip("torch")

# Of float16 and bfloat16 the last digit, of others what a different order of sums may cost.
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-5, "complex64": 2e-5}


def outcome(program, library):
    """What a program returns, or the name of its error's type; and the categories of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = _plain(program(library), library)
        except Exception as error:
            made = type(error).__name__
    return made, sorted({one.category.__name__ for one in caught})


def _plain(value, library):
    if isinstance(value, library.Tensor):
        name = str(value.dtype).rsplit(".", 1)[-1]
        value = value.detach()
        wide = value.float() if name in ("float16", "bfloat16") else value
        return numpy.array(wide.tolist()), name, tuple(value.shape)
    if isinstance(value, tuple | list):
        return [_plain(one, library) for one in value]
    return str(value).replace("pullback.", "torch.") if isinstance(value, type) else value


def assert_same(ours, theirs):
    if isinstance(ours, tuple) and isinstance(ours[0], numpy.ndarray):
        assert ours[1:] == theirs[1:]
        bound = TOLERANCE.get(ours[1], 1e-9 if ours[1] in ("float64", "complex128") else 0)
        numpy.testing.assert_allclose(ours[0], theirs[0], rtol=bound, atol=0)
    elif isinstance(ours, list):
        assert isinstance(theirs, list), theirs
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert ours == theirs


def compare(program, *, warned=True):
    """Run it on both; with `warned`, warnings must be of the same categories."""
    (ours, our_warnings), (other, their_warnings) = (
        outcome(program, library) for library in (pullback, theirs)
    )
    assert_same(ours, other)
    if warned:
        assert our_warnings == their_warnings
