"""Sample inputs of Fourier transforms, and of masked reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.testing.cases import Case, Draw, Entry, case, entry, real, real_kink

Cases = Callable[[Draw], Sequence[Case]]


def lines(make: Callable[..., Case] = case) -> Cases:
    """One dimension: even and odd sizes, padding, cutting, every norm."""
    return lambda t: [
        make(t(2, 5)),
        make(t(6)),
        make(t(2, 4), 7),
        make(t(2, 5), 3, norm="ortho"),
        make(t(5, 2), dim=0, norm="forward"),
    ]


def planes(make: Callable[..., Case] = case) -> Cases:
    """Several dimensions: sizes, order, every norm."""
    return lambda t: [
        make(t(3, 4)),
        make(t(2, 3, 5), dim=(0, 2)),
        make(t(3, 4), s=(4, 3)),
        make(t(4, 3), s=(2, 5), dim=(1, 0), norm="ortho"),
        make(t(2, 3, 3), norm="forward"),
    ]


def both(make: Callable[..., Case] = case) -> Cases:
    """The last two dimensions."""
    return lambda t: [make(t(3, 4)), make(t(2, 3, 5), s=(4, 4), norm="ortho")]


def signals(t: Draw) -> list[Case]:
    """Centred and not, windows shorter than the transform, a batch."""
    whole = {"window": t.positive(4), "onesided": False, "return_complex": True}
    return [
        case(t(16), 8, window=t.positive(8), return_complex=True),
        case(t(2, 16), 8, 3, 6, t.positive(6), return_complex=True),
        case(t(12), 5, window=t.positive(5), center=False, normalized=True, return_complex=True),
        case(t(12), 4, pad_mode="constant", **whole),
    ]


def spectra(t: Draw) -> list[Case]:
    """Whole spectra, since these are complex whatever the draw."""
    if t.dtype.kind != "c":
        return []
    return [
        case(t(5, 6), 8, window=t.positive(8).real.copy()),
        case(t(2, 8, 6), 8, 2, window=t.positive(8).real.copy(), return_complex=True),
        case(t(3, 6), 4, window=t.positive(4).real.copy(), length=7),
    ]


FOURIER: dict[str, Entry] = {
    **{f"fft.{name}": entry(lines()) for name in ("fft", "ifft", "irfft", "hfft")},
    **{f"fft.{name}": entry(lines(real)) for name in ("rfft", "ihfft")},
    **{f"fft.{name}n": entry(planes()) for name in ("fft", "ifft", "irfft", "hfft")},
    **{f"fft.{name}n": entry(planes(real)) for name in ("rfft", "ihfft")},
    **{f"fft.{name}2": entry(both()) for name in ("fft", "ifft", "irfft", "hfft")},
    **{f"fft.{name}2": entry(both(real)) for name in ("rfft", "ihfft")},
    "fft.fftshift": entry(lambda t: [case(t(4, 5)), case(t(4, 5), 1), case(t(2, 3), (0, 1))]),
    "fft.ifftshift": entry(lambda t: [case(t(4, 5)), case(t(4, 5), 1), case(t(2, 3), (0, 1))]),
    "stft": entry(signals),
    "istft": entry(spectra),
}


def masked(*args: Any, make: Callable[..., Case] = case, **options: Any) -> Cases:
    """A mask of the whole shape, one that broadcasts, none; over one dimension, or all."""
    return lambda t: [
        make(t(3, 4), *args, **options, mask=t.bools(3, 4)),
        make(t(3, 4), *args, **options, mask=t.bools(4)),
        make(t(3, 4), *args, **options),
    ]


def reduced(make: Callable[..., Case] = case, *args: Any) -> Cases:
    """As `masked`, over all dimensions, one, and several; rows with nothing selected last."""
    return lambda t: [
        make(t(3, 4), *args, mask=t.bools(3, 4)),
        make(t(3, 4), *args, 1, keepdim=True, mask=_rows(t)),
        make(t(2, 3, 2), *args, (0, 2), mask=t.bools(3, 1) | True),
        make(t(3, 4), *args, 0),
    ]


def _rows(t: Draw) -> Any:
    chosen = t.bools(3, 4)
    chosen[:, :2] = True  # never nothing, nor one element alone: a variance needs two
    return chosen


MASKED: dict[str, Entry] = {
    **{f"masked.{name}": entry(reduced()) for name in ("sum", "prod", "mean", "logsumexp")},
    **{f"masked.{name}": entry(reduced()) for name in ("var", "std")},
    **{f"masked.{name}": entry(reduced(real)) for name in ("amax", "amin")},
    **{f"masked.{name}": entry(masked(1, make=real)) for name in ("argmax", "argmin")},
    "masked.median": entry(lambda t: [real(t(3, 4), 1, mask=_rows(t)), real(t(3, 4), 0)]),
    **{f"masked.{name}": entry(masked(1)) for name in ("cumsum", "cumprod")},
    **{
        f"masked.{name}": entry(
            lambda t: [real(t(3, 4), 1, mask=_rows(t)), real(t(3, 4), 0), real(t(2, 3), -1)]
        )
        for name in ("softmax", "softmin")
    },
    # What is left out is minus infinity here, which finite differences cannot subtract.
    "masked.log_softmax": entry(
        lambda t: [real_kink(t(3, 4), 1, mask=_rows(t)), real(t(3, 4), 0), real(t(2, 3), -1)]
    ),
    "masked.norm": entry(reduced(real, 2.0)),
    "masked.normalize": entry(
        lambda t: [case(t(3, 4), 2.0, 1, mask=_rows(t)), case(t(3, 4), 3.0, 0)]
    ),
    "masked.logaddexp": entry(
        lambda t: [real_kink(t(3, 4), t(3, 4), input_mask=_rows(t)), real(t(3, 4), t(3, 4))]
    ),
}
