"""Images of bytes in another resolution: torch's numbers to the last bit."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

SIZES = [(3, 5), (7, 4), (12, 13), (8, 9), (1, 2), (8, 20), (40, 3)]


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("bilinear", {}),
        ("bilinear", {"align_corners": True}),
        ("bilinear", {"antialias": True}),
        ("bicubic", {}),
        ("bicubic", {"align_corners": True}),
        ("bicubic", {"antialias": True}),
        ("lanczos", {"antialias": True}),
        ("nearest", {}),
    ],
)
def test_bytes_are_torchs(mode, options, size, channels):
    image = numpy.random.default_rng(1).integers(0, 256, (2, channels, 8, 9)).astype("uint8")
    ours, theirs = (
        t.nn.functional.interpolate(t.tensor(image), size=size, mode=mode, **options).numpy()
        for t in (pullback, torch)
    )
    assert ours.dtype == theirs.dtype
    assert (ours == theirs).all()


@pytest.mark.parametrize("mode", ["linear", "trilinear", "area"])
def test_other_modes_take_no_bytes(mode):
    shape = {"linear": (1, 1, 4), "trilinear": (1, 1, 4, 4, 4), "area": (1, 1, 4, 4)}[mode]
    for t in (pullback, torch):
        with pytest.raises(RuntimeError):
            t.nn.functional.interpolate(t.ones(shape, dtype=t.uint8), scale_factor=2, mode=mode)
