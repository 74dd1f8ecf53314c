"""The same parameters and gradients in torch and in pullback, stepped side by side."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

LIBRARIES = (pullback, torch)
SHAPES = ((3, 4), (5,), (), (2, 0), (2, 3, 2), (4, 4))
BOUNDS = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2}


def normal(random, shape, dtype):
    made = random.standard_normal(shape)
    if dtype.startswith("complex"):
        made = made + 1j * random.standard_normal(shape)
    return numpy.asarray(made, dtype)


def parameters(library, dtype="float32", shapes=SHAPES, seed=0):
    random = numpy.random.default_rng(seed)
    arrays = [normal(random, shape, dtype) for shape in shapes]
    return [library.tensor(array, requires_grad=True) for array in arrays]


def give_gradients(library, params, seed, *, without=()):
    """Fresh gradients, the same for the same seed; none for those numbered in `without`."""
    random = numpy.random.default_rng(1000 + seed)
    for number, p in enumerate(params):
        dtype = str(p.dtype).removeprefix("torch.")
        array = normal(random, tuple(p.shape), dtype)
        p.grad = None if number in without else library.tensor(array)


def value(x):
    return x.detach().numpy() if hasattr(x, "detach") else x


def assert_same(ours, theirs, bound, what=""):
    """Numbers, tensors and containers of them agree in kind and value."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), what
        for name in theirs:
            assert_same(ours[name], theirs[name], bound, f"{what}[{name!r}]")
    elif isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs), what
        assert len(ours) == len(theirs), what
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, bound, f"{what}[{number}]")
    elif isinstance(theirs, torch.Tensor):
        one, other = value(ours), value(theirs)
        assert str(one.dtype) == str(other.dtype), what
        assert one.shape == other.shape, what
        numpy.testing.assert_allclose(one, other, rtol=bound, atol=bound, err_msg=what)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=bound, abs=bound), what
    else:
        assert ours == theirs, what


def outcome(library, program):
    """What a program returns, or the type of what it raises."""
    try:
        return program(library)
    except Exception as error:
        return type(error)
