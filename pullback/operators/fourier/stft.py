"""Short-time Fourier transforms: the spectra of overlapping windows of a signal, and back."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core import origin
from pullback.core.arrays import namespace
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import Array, Namespace, method, primitive
from pullback.operators.fourier.transforms import fft, ifft, irfft, rfft
from pullback.operators.nn.image.pad import pad
from pullback.operators.pointwise.arithmetic import is_complex
from pullback.operators.pointwise.complex import view_as_real
from pullback.operators.shape.reshaping import expand, reshape, transpose
from pullback.operators.shape.views import unfold, unfold_adjoint
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "istft stft"}


def _window(op: str, window: Any, win_length: int, n_fft: int, like: Any) -> Any:
    """The window, or ones, with zeros around it to `n_fft` points."""
    if window is None:
        dtype = like._array.real.dtype
        window = wrap(namespace(like._array).ones(win_length, dtype))
    elif tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{op}: the window must have win_length={win_length} elements, got shape "
            f"{tuple(window.shape)}."
        )
    left = (n_fft - win_length) // 2
    return pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def _warn_without_window(op: str, window: Any) -> None:
    if window is None:
        warnings.warn(
            f"A window was not provided: {op} uses ones, whose hard ends leak into all "
            "frequencies. Give window=, e.g. torch.hann_window(n_fft), or torch.ones(n_fft).",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


def _check_sizes(op: str, n_fft: int, hop: int, win: int) -> None:
    if n_fft <= 0:
        raise RuntimeError(f"{op}: n_fft must be positive, got {n_fft}.")
    if hop <= 0:
        raise RuntimeError(f"{op}: hop_length must be positive, got {hop}.")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{op}: win_length must be from 1 to n_fft={n_fft}, got {win}.")


@method
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The spectra of windows of a signal (or a batch of them): frequencies by windows.

    Args:
        input: Signals, of 1 or 2 dimensions.
        n_fft: Points of each transform.
        hop_length: How far apart windows are; a quarter of `n_fft` if not given.
        win_length: Points of the window, at most `n_fft`, which it is if not given.
        window: Weights; ones if not given.
        center: Whether window number t is centred at `t * hop_length`, by padding the ends.
        pad_mode: How the ends are padded then.
        normalized: Whether to divide by the root of `n_fft`.
        onesided: Whether to return half of the frequencies; so for real numbers if not given.
        return_complex: Must be given for real numbers; False gives both parts a last dimension.
        align_to_window: Without `center`, whether the first window, not its padding, starts at 0.

    >>> import pullback as torch
    >>> torch.stft(torch.arange(8.0), 4, window=torch.hann_window(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if input.ndim not in (1, 2) or input._array.dtype.kind not in "fc":
        raise RuntimeError(
            "stft: needs floating-point or complex signals of 1 or 2 dimensions, got "
            f"{input.dtype} of shape {tuple(input.shape)}."
        )
    _check_sizes("stft", n_fft, hop, win)
    _warn_without_window("stft", window)
    complex_input = is_complex(input) or (window is not None and is_complex(window))
    if return_complex is None:
        if not complex_input:
            raise RuntimeError(
                "stft: return_complex must be given for real input; return_complex=True is the "
                "form to use, and view_as_real() of it what False returns."
            )
        return_complex = True
    half = not complex_input if onesided is None else onesided
    if half and complex_input:
        raise RuntimeError("stft: onesided=True is for real input and window.")
    signals = input if input.ndim == 2 else input[None]
    signals = _with_ends(signals, n_fft, win, center, pad_mode, align_to_window)
    if n_fft > signals.shape[-1]:
        raise RuntimeError(
            f"stft: n_fft must be from 1 to the length of the signal, {signals.shape[-1]}, got "
            f"{n_fft}."
        )
    frames = unfold(signals, -1, n_fft, hop)
    if window is not None or win < n_fft:
        frames = frames * _window("stft", window, win, n_fft, input)
    spectra = (rfft if half else fft)(frames, norm="ortho" if normalized else None)
    spectra = transpose(spectra, -2, -1)
    result = spectra if input.ndim == 2 else spectra[0]
    return result if return_complex else view_as_real(result)


def _with_ends(
    signals: Any, n_fft: int, win: int, center: Any, pad_mode: str, align: bool | None
) -> Any:
    if center:
        if align is not None:
            raise RuntimeError("stft: align_to_window is for center=False alone.")
        ends = (n_fft // 2, n_fft // 2)
        return pad(signals[None], ends, pad_mode)[0]
    if align and win < n_fft:
        left = (n_fft - win) // 2
        return pad(signals, (left, n_fft - win - left))
    return signals


# Back ---------------------------------------------------------------------------------------------


@primitive(has_out=False)
def _check_covered(xp: Namespace, envelope: Array) -> Array:
    least = float(xp.abs(envelope).min()) if envelope.size else 1.0
    if least < 1e-11:
        raise RuntimeError(
            "istft: the windows leave part of the signal uncovered (the sum of their squares is "
            f"as small as {least:g}), so it cannot be recovered; use a smaller hop_length, or "
            "center=True."
        )
    return envelope


@method
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` with the same arguments comes nearest to `input`.

    Args:
        input: Spectra, complex, of 2 dimensions (frequencies by windows) or 3 (a batch).
        n_fft: Points of each transform.
        hop_length: How far apart windows are; a quarter of `n_fft` if not given.
        win_length: Points of the window; `n_fft` if not given.
        window: Weights; ones if not given.
        center: Whether the signal's ends were padded.
        normalized: Whether the spectra were divided by the root of `n_fft`.
        onesided: Whether they are halves; by their size if not given.
        length: How long a signal to return.
        return_complex: Whether the signal is complex.

    >>> import pullback as torch
    >>> x = torch.arange(8.0)
    >>> window = torch.hann_window(4)
    >>> waves = torch.stft(x, 4, window=window, return_complex=True)
    >>> torch.allclose(torch.istft(waves, 4, window=window, length=8), x, atol=1e-5)
    True
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    _check_sizes("istft", n_fft, hop, win)
    _warn_without_window("istft", window)
    half = _check_spectra(input, n_fft, onesided, window, return_complex=return_complex)
    spectra = input if input.ndim == 3 else input[None]
    norm = "ortho" if normalized else None
    frames = transpose(spectra, -2, -1)
    if return_complex:
        frames = ifft(frames, norm=norm)
    else:  # of a whole spectrum, too, the half says everything that a real signal can
        frames = irfft(frames if half else frames[..., : n_fft // 2 + 1], n_fft, norm=norm)
    weights = _window("istft", window, win, n_fft, input)
    weights = astype(weights, frames._array.dtype) if is_complex(frames) else weights
    batch, count = frames.shape[:2]
    total = n_fft + hop * (count - 1)
    signal = _added(frames * weights, (batch, total), hop)
    squares = expand((weights * weights)[None], (count, n_fft))
    envelope = reshape(_added(squares, (total,), hop), (total,))
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = total - n_fft // 2 if center else total
    envelope = envelope[start : min(end, total)]
    _check_covered(envelope.detach())
    result = signal[:, start : min(end, total)] / envelope
    if end > total:
        warnings.warn(
            f"istft: length={length} is more than the {total - start} points that the spectra "
            "give; zeros are added.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
        result = pad(result, (0, end - total))
    return result if input.ndim == 3 else result[0]


def _added(frames: Any, shape: tuple[int, ...], hop: int) -> Any:
    """Frames, each in its place in a signal, added where they overlap."""
    return unfold_adjoint(frames, shape, len(shape) - 1, frames.shape[-1], hop)


def _check_spectra(
    input: Any, n_fft: int, onesided: bool | None, window: Any, *, return_complex: bool
) -> bool:
    """Refuse what cannot be spectra; whether they are halves."""
    if not isinstance(input, Tensor) or not is_complex(input):
        raise RuntimeError(
            "istft: needs a complex tensor, as stft(return_complex=True) makes it; use "
            "view_as_complex()."
        )
    if input.ndim not in (2, 3) or 0 in input.shape:
        raise RuntimeError(
            f"istft: needs 2 or 3 dimensions, none empty, got shape {tuple(input.shape)}."
        )
    sizes = n_fft // 2 + 1, n_fft
    half = input.shape[-2] != n_fft if onesided is None else onesided
    if input.shape[-2] != sizes[0 if half else 1]:
        raise RuntimeError(
            f"istft: n_fft={n_fft} with onesided={half} needs {sizes[0 if half else 1]} "
            f"frequencies, got shape {tuple(input.shape)}."
        )
    if return_complex and half:
        raise RuntimeError("istft: a complex signal has no half spectrum; use onesided=False.")
    if not return_complex and window is not None and is_complex(window):
        raise RuntimeError("istft: a complex window needs return_complex=True.")
    return bool(half)
