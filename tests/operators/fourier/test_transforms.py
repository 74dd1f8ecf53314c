"""Fourier transforms are NumPy's, invert one another, and have exact adjoints at every size."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import fourier as fft_kernels

SINGLE = ["fft", "ifft", "irfft", "hfft", "rfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "irfftn", "rfftn"]
REAL = ("rfft", "ihfft", "rfftn", "ihfftn")
NORMS = [None, "backward", "ortho", "forward"]


def drawn(*shape, dtype=torch.float64, seed=0):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=shape)
    if dtype.is_complex:
        values = values + 1j * random.normal(size=shape)
    return torch.from_numpy(values.astype(dtype.numpy))


def inner(a, b):
    return (a.conj() * b).real.sum() if a.dtype.is_complex else (a * b).sum()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 3, 4, 7, 8])
@pytest.mark.parametrize("name", SINGLE)
def test_values_are_numpys(name, n, norm):
    x = drawn(2, 5, dtype=torch.float64 if name in REAL else torch.complex128)
    expected = getattr(numpy.fft, name)(x.numpy(), n, norm=norm)
    numpy.testing.assert_allclose(getattr(torch.fft, name)(x, n, norm=norm).numpy(), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "options", [{}, {"s": (4, 3)}, {"dim": (2, 0)}, {"s": (2, 5), "dim": (0, 1)}]
)
@pytest.mark.parametrize("name", SEVERAL)
def test_values_over_several_dimensions_are_numpys(name, options, norm):
    x = drawn(3, 4, 5, dtype=torch.float64 if name in REAL else torch.complex128)
    sizes, axes = options.get("s"), options.get("dim")
    if sizes is not None and axes is None:
        axes = (1, 2)
    expected = getattr(numpy.fft, name)(x.numpy(), sizes, axes, norm)
    result = getattr(torch.fft, name)(x, **options, norm=norm)
    numpy.testing.assert_allclose(result.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_inverses_invert(size, norm):
    x, z = drawn(3, size), drawn(3, size, dtype=torch.complex128)
    fft = torch.fft
    pairs = [
        (fft.ifft(fft.fft(z, norm=norm), norm=norm), z),
        (fft.irfft(fft.rfft(x, norm=norm), size, norm=norm), x),
        (fft.hfft(fft.ihfft(x, norm=norm), size, norm=norm), x),
        (fft.ifftn(fft.fftn(z, norm=norm), norm=norm), z),
        (fft.irfftn(fft.rfftn(x, norm=norm), (3, size), norm=norm), x),
        (fft.hfftn(fft.ihfftn(x, norm=norm), (3, size), norm=norm), x),
        (fft.ifftshift(fft.fftshift(x)), x),
    ]
    for found, expected in pairs:
        numpy.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("n", [None, 4, 5])
@pytest.mark.parametrize("name", [*SINGLE, *SEVERAL, "hfftn", "ihfftn"])
def test_gradient_is_the_adjoint(name, n, size):
    if n is None and size == 1 and name.rstrip("n") in ("irfft", "hfft"):
        pytest.skip("no points to transform to")
    x = drawn(3, size, dtype=torch.float64 if name in REAL else torch.complex128).requires_grad_()
    function = getattr(torch.fft, name)
    options = {} if n is None else {"s": (2, n)} if name.endswith("n") else {"n": n}
    y = function(x, **options)
    g = drawn(*y.shape, dtype=y.dtype, seed=1)
    v = drawn(*x.shape, dtype=x.dtype, seed=2)
    (pulled,) = torch.autograd.grad(y, x, g)
    numpy.testing.assert_allclose(
        inner(g, function(v, **options)).item(), inner(pulled, v).item(), rtol=1e-10
    )


def test_precision_is_kept():
    assert torch.fft.fft(torch.ones(4)).dtype is torch.complex64
    assert torch.fft.rfft(torch.ones(4)).dtype is torch.complex64
    assert torch.fft.irfft(torch.ones(4, dtype=torch.complex64)).dtype is torch.float32
    assert torch.fft.fft(torch.arange(4)).dtype is torch.complex64
    assert torch.fft.fft(torch.ones(4, dtype=torch.float64)).dtype is torch.complex128


def test_bad_arguments_are_refused():
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="norm"):
        torch.fft.fft(x, norm="none")
    with pytest.raises(RuntimeError, match="at least one point"):
        torch.fft.fft(x, 0)
    with pytest.raises(RuntimeError, match="real"):
        torch.fft.rfft(x.to(torch.complex64))
    with pytest.raises(RuntimeError, match="equally long"):
        torch.fft.fftn(x, (2, 2), (0,))
    with pytest.raises(IndexError):
        torch.fft.fft(x, dim=1)


def test_frequencies_are_numpys():
    numpy.testing.assert_allclose(torch.fft.fftfreq(5, 0.5).numpy(), numpy.fft.fftfreq(5, 0.5))
    numpy.testing.assert_allclose(torch.fft.rfftfreq(6).numpy(), numpy.fft.rfftfreq(6))


# Short-time transforms ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"hop_length": 3}, {"normalized": True}, {"onesided": False}]
)
def test_istft_recovers_the_signal(options):
    x = drawn(2, 24)
    window = torch.hann_window(8, dtype=torch.float64) + 0.1
    spectra = torch.stft(x, 8, window=window, return_complex=True, **options)
    found = torch.istft(spectra, 8, window=window, length=24, **options)
    numpy.testing.assert_allclose(found.numpy(), x.numpy(), atol=1e-12)


def test_stft_of_a_real_signal_wants_return_complex():
    with pytest.raises(RuntimeError, match="return_complex"):
        torch.stft(drawn(16), 8, window=torch.ones(8, dtype=torch.float64))


def test_istft_refuses_windows_that_leave_gaps():
    spectra = drawn(5, 4, dtype=torch.complex128)
    with pytest.raises(RuntimeError, match="uncovered"):
        torch.istft(spectra, 8, 8, window=torch.hann_window(8, dtype=torch.float64), center=False)


# Windows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_periodic_window_is_the_start_of_a_longer_symmetric_one(name):
    options = {"a": [0.4, 0.5, 0.1]} if name == "general_cosine" else {}
    make = getattr(torch.signal.windows, name)
    periodic = make(6, sym=False, dtype=torch.float64, **options)
    symmetric = make(7, dtype=torch.float64, **options)
    numpy.testing.assert_allclose(periodic.numpy(), symmetric[:6].numpy(), atol=1e-15)
    numpy.testing.assert_allclose(symmetric.flip(0).numpy(), symmetric.numpy(), atol=1e-15)
    assert make(1, **options).tolist() == [1.0]
    assert make(0, **options).numel() == 0


def test_window_needs_a_floating_dtype_and_a_count():
    with pytest.raises(ValueError, match="floating"):
        torch.signal.windows.hann(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="negative"):
        torch.signal.windows.hann(-1)
    with pytest.raises(RuntimeError, match="negative"):
        torch.hann_window(-1)


# Kernels ------------------------------------------------------------------------------------------


@pytest.fixture(params=["scipy", "kernels", "public functions"])
def library(request, monkeypatch):
    """Each of the ways to a transform, for arrays of any size."""
    if request.param == "scipy":
        pytest.importorskip("scipy.fft")
        monkeypatch.setattr(fft_kernels, "_LARGE", 0)
    else:
        monkeypatch.setattr(fft_kernels, "_LARGE", math.inf)
    if request.param == "public functions":
        monkeypatch.setattr(fft_kernels, "_KERNELS", dict.fromkeys(fft_kernels._KERNELS))


SCALES = {"none": "backward", "root": "ortho", "n": "forward"}
SHAPES = [((7,), (0,)), ((4, 6), (1,)), ((4, 6), (0,)), ((3, 4, 5), (0, 2)), ((2, 5, 4), (1, 2))]


@pytest.mark.parametrize(("shape", "dims"), [*SHAPES, ((0, 3), (1,)), ((1, 1), (0, 1))])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("code", "fd")
def test_all_ways_to_a_transform_are_numpys(library, shape, dims, scale, code):
    random = numpy.random.default_rng(0)
    real = random.standard_normal(shape).astype(code)
    whole = (real + 1j * random.standard_normal(shape)).astype(code.upper())
    back = {"none": "forward", "root": "ortho", "n": "backward"}[scale]
    size = 2 * shape[dims[-1]] - 1
    sizes = [*(shape[dim] for dim in dims[:-1]), size]
    forward = {"axes": dims, "norm": SCALES[scale]}
    pairs = [
        (
            fft_kernels.complex_to_complex(numpy, x, dims, scale, inverse=inverse),
            numpy.fft.ifftn(x, axes=dims, norm=back) if inverse else numpy.fft.fftn(x, **forward),
        )
        for x in (real, whole)
        for inverse in (False, True)
    ]
    pairs += [
        (fft_kernels.real_to_half(numpy, real, dims, scale), numpy.fft.rfftn(real, **forward)),
        (
            fft_kernels.half_to_real(numpy, whole, dims, scale, size),
            numpy.fft.irfftn(whole, sizes, dims, back),
        ),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        tolerance = 1e-5 if code == "f" else 1e-12
        numpy.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.filterwarnings("error")
def test_frequencies_of_points_at_one_place_are_infinite():
    assert str(torch.fft.rfftfreq(3, 0.0).tolist()) == "[nan, inf]"
    assert str(torch.fft.fftfreq(2, 0.0).tolist()) == "[nan, -inf]"
    assert torch.equal(torch.fft.fftfreq(5, torch.tensor(2)), torch.fft.fftfreq(5, 2.0))


@pytest.mark.parametrize(
    "name",
    [
        *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "fftshift"),
        *("fft2", "ifft2", "rfft2", "irfft2"),
    ],
)
def test_numpy_s_names_are_taken(name):
    transform, x = getattr(torch.fft, name), drawn(4, 3)
    dim = (1, 0) if name[-1] in "2n" else 0
    expected = transform(x, dim=dim)
    assert torch.equal(transform(x, axis=dim), expected)
    for spelling in ("x", "a", "x1"):
        assert torch.equal(transform(**{spelling: x}, axis=dim), expected)
    with pytest.raises(TypeError, match="twice"):
        transform(x, dim=dim, axis=dim)
