"""Hypothesis strategies: shapes, broadcasting, dimensions, dtypes, arrays. One file, so that every
property test draws from the same distribution: small sizes, zeros and ones among them.
"""

import numpy
from hypothesis import strategies as st

FLOATING = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGRAL = ("uint8", "int8", "int16", "int32", "int64")
DIFFERENTIABLE = FLOATING + COMPLEX
EVERY = (*DIFFERENTIABLE, *INTEGRAL, "bool")


def sides(low=0, high=4):
    """The size of one dimension."""
    return st.integers(low, high)


def shapes(min_dims=0, max_dims=3, low=0, high=4):
    """Tuples of sizes; 0-d and empty ones too."""
    return st.lists(sides(low, high), min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def shrunk(draw, shape):
    """A shape that broadcasts to `shape`: some sizes made one, some leading ones dropped."""
    kept = [draw(st.sampled_from((size, 1))) for size in shape]
    return tuple(kept[draw(st.integers(0, len(kept))) :])


@st.composite
def broadcastable(draw, count=2, max_dims=3):
    """Shapes that broadcast together, and the shape they give."""
    target = draw(shapes(max_dims=max_dims))
    found = [draw(shrunk(target)) for _ in range(count)]
    return tuple(found), numpy.broadcast_shapes(*found)


def dims(ndim):
    """One dimension of a tensor of `ndim`, counted from either end; a 0-d one has 0 and -1."""
    limit = max(ndim, 1)
    return st.integers(-limit, limit - 1)


@st.composite
def distinct_dims(draw, ndim, min_size=0):
    """Several different dimensions, counted from either end, in any order."""
    chosen = (
        draw(st.lists(st.sampled_from(range(ndim)), unique=True, min_size=min_size)) if ndim else []
    )
    return tuple(dim - ndim if draw(st.booleans()) else dim for dim in chosen)


def reductions(ndim):
    """What a reduction takes as `dim`: nothing, one dimension, several."""
    return st.one_of(st.none(), dims(ndim), distinct_dims(ndim, min_size=1 if ndim else 0))


def dtypes(names=EVERY):
    """Names of dtypes."""
    return st.sampled_from(names)


def numbers(low=-3.0, high=3.0):
    """Finite real numbers of moderate size, exact in single precision."""
    return st.floats(low, high, width=32, allow_nan=False)


def awkward_numbers():
    """All that floating point has to offer."""
    special = (0.0, -0.0, 1.0, -1.0, 0.5, numpy.inf, -numpy.inf, numpy.nan)
    return st.one_of(st.sampled_from(special), numbers())


@st.composite
def arrays(draw, shape, dtype="float64", elements=None):
    """An array of a shape (or a strategy for one), in a dtype (or a strategy for its name)."""
    shape = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    dtype = numpy.dtype(draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype)
    size = int(numpy.prod(shape))
    if dtype.kind in "iub":
        low = 0 if dtype.kind in "ub" else -4
        values = draw(
            st.lists(st.integers(low, 1 if dtype.kind == "b" else 4), min_size=size, max_size=size)
        )
        return numpy.array(values, dtype).reshape(shape)
    elements = numbers() if elements is None else elements
    real = numpy.array(draw(st.lists(elements, min_size=size, max_size=size)), "float64")
    if dtype.kind == "c":
        imaginary = draw(st.lists(elements, min_size=size, max_size=size))
        real = real + 1j * numpy.array(imaginary, "float64")
    return real.astype(dtype).reshape(shape)


@st.composite
def laid_out(draw, array):
    """The same values in another memory layout: transposed, or every second of more."""
    how = draw(st.sampled_from(("C", "F", "sliced")))
    if how != "sliced" or array.ndim == 0:
        return numpy.array(array, order="C" if how == "sliced" else how)
    whole = numpy.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    part = whole[..., ::2]
    part[...] = array
    return part
