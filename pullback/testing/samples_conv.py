"""Sample inputs of convolution, pooling, padding and resampling."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from pullback.testing.cases import Case, Draw, Entry, case, entry, kink

# Sizes of lines, images and volumes: small, since every element is moved by finite differences.
SIZES = {1: (6,), 2: (5, 4), 3: (3, 3, 4)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}


def convolved(dims: int) -> Any:
    """Every option, one image without a batch, and a batch of none."""
    size, kernel = SIZES[dims], KERNELS[dims]

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 2, *size), t(3, 2, *kernel), t(3)),
            case(t(1, 2, *size), t(2, 2, *kernel), stride=2, padding=1),
            case(t(1, 4, *size), t(2, 2, *kernel), t(2), dilation=2, padding=2, groups=2),
            case(t(1, 2, *size), t(1, 2, *(3,) * dims), padding="same"),
            case(t(2, *size), t(2, 2, *kernel), t(2)),
            case(t(0, 2, *size), t(3, 2, *kernel), t(3)),
        ]

    return cases


def spread_out(dims: int) -> Any:
    """Every option of the transposed convolution."""
    size, kernel = (2,) * dims, KERNELS[dims]

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 2, *size), t(2, 3, *kernel), t(3)),
            case(t(1, 2, *size), t(2, 2, *kernel), stride=2, padding=1, output_padding=1),
            case(t(1, 4, *size), t(4, 1, *kernel), t(2), dilation=2, groups=2, output_padding=1),
            case(t(2, *size), t(2, 2, *kernel)),
            case(t(0, 2, *size), t(2, 3, *kernel), t(3)),
        ]

    return cases


def max_pooled(dims: int) -> Any:
    """Windows apart and overlapping; ties, and what is not a number."""
    size = SIZES[dims]

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(1, 2, *size), 2),
            case(t(1, 2, *size), 3, 1, 1),
            case(t(2, *size), 2, 2, 1, 1, ceil_mode=True),
            case(t(1, 1, *size), 2, stride=1, dilation=2),
            case(t(1, 2, *size), 2, return_indices=True),
            case(t(0, 2, *size), 2),
            kink(t.of(0.0, 0.0, 1.0, 1.0, nan, -inf).reshape(1, 1, *(1,) * (dims - 1), 6), 1, 1)
            if dims > 1
            else kink(t.of(0.0, 0.0, 1.0, 1.0, nan, -inf).reshape(1, 1, 6), 2),
        ]

    return cases


def avg_pooled(dims: int) -> Any:
    """With and without the padding counted."""
    size = SIZES[dims]

    def cases(t: Draw) -> list[Case]:
        more = [] if dims == 1 else [case(t(1, 1, *size), 2, divisor_override=3)]
        return [
            case(t(1, 2, *size), 2),
            case(t(1, 2, *size), 3, 1, 1),
            case(t(2, *size), 3, 2, 1, True, False),
            case(t(0, 2, *size), 2),
            *more,
        ]

    return cases


def adaptive(dims: int, *, indices: bool) -> Any:
    """Even and uneven windows, and more windows than elements."""
    size = SIZES[dims]

    def cases(t: Draw) -> list[Case]:
        more = [case(t(1, 2, *size), 2, return_indices=True)] if indices else []
        return [
            case(t(1, 2, *size), 2),
            case(t(2, *size), 1),
            case(t(1, 1, *size), [None] * dims if dims > 1 else 5),
            case(t(1, 1, *size), 7),
            *more,
        ]

    return cases


def powers(dims: int) -> Any:
    """Power averages of numbers above zero."""
    size = SIZES[dims]
    return lambda t: [
        case(t.positive(1, 2, *size), 2.0, 2),
        case(t.positive(2, *size), 3, 2, 1, ceil_mode=True),
    ]


def fractional(dims: int) -> Any:
    """Windows at given places: random ones differ from call to call."""
    size = (4,) * dims

    def cases(t: Draw) -> list[Case]:
        samples = t.fixed(1, 2, dims, low=0.1, high=0.9)
        return [
            case(t(1, 2, *size), 2, 2, _random_samples=samples),
            case(t(2, *size), 2, 2, return_indices=True, _random_samples=samples),
        ]

    return cases


def unpooled(dims: int) -> Any:
    """Places within what two by two pooled from."""

    def cases(t: Draw) -> list[Case]:
        places = t.random.permutation(4**dims)[: 2**dims].reshape(1, 1, *(2,) * dims)
        return [
            case(t(1, 1, *(2,) * dims), places, 2),
            case(t(1, *(2,) * dims), places[0], 2),
            case(t(1, 1, *(2,) * dims), places, 2, output_size=[5] * dims),
        ]

    return cases


def padded(t: Draw) -> list[Case]:
    """Every mode."""
    around = [
        case(t(1, 2, 3, 4), (1, 2, 2, -1), mode=mode)
        for mode in ("reflect", "replicate", "circular")
    ]
    lines = [case(t(2, 4), (2, 1), mode=mode) for mode in ("reflect", "replicate", "circular")]
    return [
        case(t(2, 3), (1, 2)),
        case(t(2, 3), (-1, 1, 2, 0), value=2.0),
        case(t(2, 3), (0, 0)),
        case(t(0, 3), (1, 1)),
        *around,
        *lines,
    ]


def resampled(t: Draw) -> list[Case]:
    """Every mode, larger and smaller, by size and by factor."""
    lines, images, volumes = t(1, 2, 4), t(1, 2, 3, 4), t(1, 1, 2, 3, 2)
    plain = [
        case(array, size=3, mode=mode)
        for array in (lines, images, volumes)
        for mode in ("nearest", "nearest-exact", "area")
    ]
    smooth = [
        case(array, scale_factor=scale, mode=mode, align_corners=align)
        for array, mode in (
            (lines, "linear"),
            (images, "bilinear"),
            (images, "bicubic"),
            (volumes, "trilinear"),
        )
        for scale in (2, 0.6)
        for align in (True, False)
    ]
    antialiased = [
        case(images, size=size, mode=mode, antialias=True)
        for mode in ("bilinear", "bicubic")
        for size in ((2, 3), 5)
    ]
    return [*plain, *smooth, *antialiased, case(images, scale_factor=1.7)]


def sampled(t: Draw) -> list[Case]:
    """Every mode, with points outside of the image."""
    return [
        case(
            t(1, 2, 3, 4),
            t(1, 2, 2, 2, low=-1.6, high=1.6),
            mode=mode,
            padding_mode=padding,
            align_corners=align,
        )
        for mode in ("bilinear", "bicubic", "nearest")
        for padding in ("zeros", "border", "reflection")
        for align in (True, False)
    ]


def sampled_by_number(dims: int) -> Any:
    """Modes as numbers."""
    size = SIZES[dims]
    return lambda t: [
        case(t(1, 1, *size), t.unit(1, *(2,) * dims, dims), mode, padding, True)
        for mode, padding in ((0, 0), (0, 1), (1, 0))
    ]


def _by_dims(name: str, cases: Any, **options: bool) -> dict[str, Entry]:
    return {f"nn.functional.{name}{dims}d": entry(cases(dims), **options) for dims in (1, 2, 3)}


CONV: dict[str, Entry] = {
    **_by_dims("conv", convolved),
    **_by_dims("conv_transpose", spread_out),
    **{f"conv{dims}d": entry(convolved(dims)) for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": entry(spread_out(dims)) for dims in (1, 2, 3)},
    **_by_dims("max_pool", max_pooled),
    **_by_dims("avg_pool", avg_pooled),
    **_by_dims("adaptive_avg_pool", lambda dims: adaptive(dims, indices=False)),
    **_by_dims("adaptive_max_pool", lambda dims: adaptive(dims, indices=True)),
    **_by_dims("lp_pool", powers),
    "nn.functional.fractional_max_pool2d": entry(fractional(2)),
    "nn.functional.fractional_max_pool3d": entry(fractional(3)),
    # torch refuses gradients that are not contiguous here.
    **_by_dims("max_unpool", unpooled, strided=False),
    "nn.functional.unfold": entry(
        lambda t: [
            case(t(2, 2, 4, 3), 2),
            case(t(2, 4, 3), (3, 2), 1, 1, 2),
            case(t(1, 1, 5, 5), 2, dilation=2, padding=(0, 1)),
            case(t(0, 2, 4, 3), 2),
        ]
    ),
    "nn.functional.fold": entry(
        lambda t: [case(t(2, 8, 6), (4, 3), 2), case(t(12, 4), (4, 3), (3, 2), 1, 1, 2)]
    ),
    "nn.functional.pad": entry(padded),
    "constant_pad_nd": entry(
        lambda t: [
            case(t(2, 3), (1, 2)),
            case(t(2, 3), (-1, 1, 2, 0), 2.0),
            case(t(2, 3), ()),
            case(t(0, 3), (1, 1)),
        ]
    ),
    "nn.functional.interpolate": entry(resampled),
    "nn.functional.grid_sample": entry(sampled),
    "grid_sampler_2d": entry(sampled_by_number(2)),
    "grid_sampler_3d": entry(sampled_by_number(3)),
    "nn.functional.affine_grid": entry(
        lambda t: [
            case(t(2, 2, 3), (2, 1, 3, 2), align_corners=False),
            case(t(1, 3, 4), (1, 1, 2, 3, 2), align_corners=True),
        ]
    ),
    "nn.functional.pixel_shuffle": entry(lambda t: [case(t(1, 8, 2, 3), 2), case(t(9, 1, 2), 3)]),
    "pixel_shuffle": entry(lambda t: [case(t(1, 4, 2, 3), 2)]),
    "nn.functional.pixel_unshuffle": entry(lambda t: [case(t(1, 2, 4, 6), 2), case(t(1, 3, 6), 3)]),
    "pixel_unshuffle": entry(lambda t: [case(t(1, 1, 4, 6), 2)]),
    "nn.functional.channel_shuffle": entry(lambda t: [case(t(1, 4, 2, 2), 2), case(t(2, 6, 1), 3)]),
    "channel_shuffle": entry(lambda t: [case(t(1, 4, 2, 2), 2)]),
}
