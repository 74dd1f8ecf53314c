"""Short-time transforms, windows and odd corners of Fourier transforms against torch.

The transforms themselves are compared in test_all_operators.py.
"""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

WINDOWS = pullback.signal.windows.__all__
OLDER = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def array_of(tensor):
    if isinstance(tensor, pullback.Tensor):
        return tensor._array
    return tensor.detach().resolve_conj().numpy(force=True)


def assert_alike(ours, theirs, **tolerances):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    tolerances = tolerances or {"rtol": 1e-9, "atol": 1e-11}
    numpy.testing.assert_allclose(array_of(ours), array_of(theirs), **tolerances)


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("points", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_torchs(name, points, sym):
    options = {"a": [0.4, 0.5, 0.1]} if name == "general_cosine" else {}
    for dtype in ("float32", "float64"):
        made = [
            getattr(m.signal.windows, name)(points, sym=sym, dtype=getattr(m, dtype), **options)
            for m in (pullback, torch)
        ]
        assert_alike(*made, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("points", [0, 1, 7])
@pytest.mark.parametrize("name", OLDER)
def test_older_windows_are_torchs(name, points, periodic):
    made = [getattr(m, name)(points, periodic) for m in (pullback, torch)]
    assert_alike(*made, rtol=1e-5, atol=1e-6)


def both(function, *arrays):
    """The function's results and gradients in both libraries."""
    results = []
    for module in (pullback, torch):
        tensors = [module.from_numpy(array.copy()).requires_grad_() for array in arrays]
        out = function(module, *tensors)
        gradients = module.autograd.grad(out.abs().sum(), tensors)
        results.append([out, *gradients])
    return zip(*results, strict=True)


RANDOM = numpy.random.default_rng(0)
SIGNAL = RANDOM.normal(size=(2, 30))
COMPLEX = SIGNAL + 1j * RANDOM.normal(size=(2, 30))
WINDOW, SHORT = RANDOM.random(8) + 0.5, RANDOM.random(6) + 0.5
SPECTRA = RANDOM.normal(size=(2, 8, 7)) + 1j * RANDOM.normal(size=(2, 8, 7))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 3},
        {"normalized": True, "pad_mode": "constant"},
        {"center": False},
        {"onesided": False},
        {"return_complex": False},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:stft with return_complex=False")
@pytest.mark.parametrize("signal", [SIGNAL, COMPLEX], ids=["real", "complex"])
def test_stft_is_torchs(signal, options):
    options = {"return_complex": True, **options}
    for ours, theirs in both(lambda m, x, w: m.stft(x, 8, window=w, **options), signal, WINDOW):
        assert_alike(ours, theirs)
    for ours, theirs in both(
        lambda m, x, w: m.stft(x, 8, win_length=6, window=w, **options), signal, SHORT
    ):
        assert_alike(ours, theirs)


def test_stft_aligned_to_its_window_is_torchs():
    options = {"center": False, "align_to_window": True, "return_complex": True}
    for ours, theirs in both(lambda m, x, w: m.stft(x, 8, 3, 6, w, **options), SIGNAL, SHORT):
        assert_alike(ours, theirs)


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 3}, {"normalized": True}, {"length": 9}, {"center": False}],
    ids=str,
)
@pytest.mark.parametrize("frequencies", [5, 8])
def test_istft_is_torchs(frequencies, options):
    spectra = SPECTRA[:, :frequencies]
    for ours, theirs in both(lambda m, z, w: m.istft(z, 8, window=w, **options), spectra, WINDOW):
        assert_alike(ours, theirs)


def test_complex_istft_is_torchs():
    for ours, theirs in both(
        lambda m, z, w: m.istft(z, 8, window=w, return_complex=True), SPECTRA, WINDOW
    ):
        assert_alike(ours, theirs)


REFUSED = {
    "no points": lambda m: m.fft.fft(m.ones(4), 0),
    "nothing": lambda m: m.fft.fft(m.ones(0)),
    "norm": lambda m: m.fft.fft(m.ones(4), norm="none"),
    "complex to rfft": lambda m: m.fft.rfft(m.ones(4, dtype=m.complex64)),
    "dim": lambda m: m.fft.fft(m.ones(4), dim=1),
    "no dimensions": lambda m: m.fft.fft(m.tensor(1.0)),
    "sizes": lambda m: m.fft.fftn(m.ones(4), (2, 2), (0,)),
    "too many sizes": lambda m: m.fft.fftn(m.ones(4), (2, 2)),
    "half precision": lambda m: m.fft.fft(m.ones(4, dtype=m.float16)),
    "signal of 3 dimensions": lambda m: m.stft(m.ones(2, 3, 4), 4, return_complex=True),
    "return_complex": lambda m: m.stft(m.ones(20), 4, window=m.ones(4)),
    "real spectra": lambda m: m.istft(m.ones(5, 7), 8, window=m.ones(8)),
    "window": lambda m: m.stft(m.ones(20), 8, window=m.ones(7), return_complex=True),
    "negative count": lambda m: m.signal.windows.hann(-1),
    "whole numbers": lambda m: m.signal.windows.hann(3, dtype=m.int64),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_torchs_types(name):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
        REFUSED[name](torch)
    with pytest.raises((RuntimeError, ValueError, IndexError)) as ours:
        REFUSED[name](pullback)
    expected = type(theirs.value)
    assert isinstance(
        ours.value, expected if expected in (ValueError, IndexError) else RuntimeError
    )
