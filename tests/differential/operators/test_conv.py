"""Convolution, pooling, padding and resampling against torch: options crossed, and types of errors.

What the tables of samples hold is compared in test_all_operators.py; here are combinations.
"""

import itertools
import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

SIZES = {1: (9,), 2: (7, 6), 3: (5, 4, 4)}


def both(name):
    return getattr(pullback.nn.functional, name), getattr(torch.nn.functional, name)


def normal(*shape, seed=0, dtype="float64"):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=shape)
    if dtype == "complex128":
        values = values + 1j * random.normal(size=shape)
    return values.astype(dtype)


def close(ours, theirs, tolerance=1e-9):
    theirs = theirs.detach().resolve_conj().numpy()
    assert ours.dtype.numpy == theirs.dtype
    assert tuple(ours.shape) == theirs.shape
    numpy.testing.assert_allclose(
        ours.detach().numpy(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True
    )


def compare(name, arrays, **options):
    """Values, first and second gradients."""
    function, reference = both(name)
    mine = [pullback.from_numpy(a.copy()).requires_grad_() for a in arrays]
    other = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out, expected = function(*mine, **options), reference(*other, **options)
    if isinstance(expected, tuple):
        assert out[1].tolist() == expected[1].tolist()
        out, expected = out[0], expected[0]
    close(out, expected)
    g = normal(*expected.shape, seed=9, dtype=arrays[0].dtype)
    my_g, other_g = pullback.from_numpy(g).requires_grad_(), torch.from_numpy(g).requires_grad_()
    for one, two in zip(
        pullback.autograd.grad(out, mine, my_g, retain_graph=True),
        torch.autograd.grad(expected, other, other_g, retain_graph=True),
        strict=True,
    ):
        close(one, two)
    first = pullback.autograd.grad(out, mine, my_g, create_graph=True)
    second = torch.autograd.grad(expected, other, other_g, create_graph=True)
    mine_total = sum(((f * f.conj()).real.sum() for f in first if f.requires_grad), my_g.sum() * 0)
    total = sum(((f * f.conj()).real.sum() for f in second if f.requires_grad), other_g.sum() * 0)
    if mine_total.dtype.is_complex:
        mine_total, total = mine_total.real, total.real
    for one, two in zip(
        pullback.autograd.grad(mine_total, [*mine, my_g], allow_unused=True),
        torch.autograd.grad(total, [*other, other_g], allow_unused=True),
        strict=True,
    ):
        if one is not None and two is not None:
            close(one, two, 1e-8)
        else:
            assert not any(g is not None and bool((g != 0).any()) for g in (one, two))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions(dims, dtype):
    kernel = (3, 2, 2)[:dims]
    crossed = itertools.product((2,) if dtype == "complex128" else (1, 2), (1, 2), (0, 1), (1, 2))
    for groups, stride, padding, dilation in crossed:
        lead = () if stride == dilation == 2 else (2,)
        x, bias = normal(*lead, 4, *SIZES[dims], dtype=dtype), normal(6, seed=2, dtype=dtype)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        w = normal(6, 4 // groups, *kernel, seed=1, dtype=dtype)
        compare(f"conv{dims}d", [x, w, bias], **options)
        w = normal(4, 6 // groups, *kernel, seed=1, dtype=dtype)
        extra = max(stride, dilation) - 1
        compare(f"conv_transpose{dims}d", [x, w, bias], output_padding=extra, **options)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_max_pools_with_ties(dims):
    x = numpy.round(normal(2, *SIZES[dims]) * 1.5).clip(0)
    crossed = itertools.product((1, 2, 3), (None, 1, 2), (0, 1), (1, 2), (False, True))
    for kernel, stride, padding, dilation, ceil in crossed:
        if 2 * padding <= kernel and dilation * (kernel - 1) < min(SIZES[dims]):
            options = {"stride": stride, "padding": padding, "dilation": dilation}
            compare(
                f"max_pool{dims}d",
                [x],
                kernel_size=kernel,
                ceil_mode=ceil,
                return_indices=True,
                **options,
            )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_average_pools(dims):
    x = normal(2, *SIZES[dims])
    crossed = itertools.product((1, 2, 3), (None, 1, 4), (0, 1), (False, True), (False, True))
    for kernel, stride, padding, ceil, counted in crossed:
        if 2 * padding <= kernel:
            compare(
                f"avg_pool{dims}d",
                [x],
                kernel_size=kernel,
                stride=stride,
                padding=padding,
                ceil_mode=ceil,
                count_include_pad=counted,
            )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_pools(dims):
    x = normal(2, *SIZES[dims])
    for size in (1, 2, 3, 4, 5, 11):
        compare(f"adaptive_avg_pool{dims}d", [x], output_size=size)
        compare(f"adaptive_max_pool{dims}d", [x], output_size=size, return_indices=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact", "area"])
def test_interpolation(mode):
    x = normal(2, 2, 5, 7)
    smooth = mode in ("bilinear", "bicubic")
    crossed = itertools.product((True, False, None), (True, False)) if smooth else [(None, False)]
    for align, antialias in crossed:
        for sizes in ({"size": 3}, {"size": (9, 2)}, {"scale_factor": 1.7}, {"scale_factor": 0.5}):
            options = {"mode": mode, "align_corners": align, "antialias": antialias}
            compare("interpolate", [x], **options, **sizes)


@pytest.mark.parametrize(("mode", "dims"), [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
def test_interpolation_of_a_scale_that_keeps_the_size(mode, dims):
    for align in (True, False, None):
        options = {"mode": mode, "align_corners": align}
        compare("interpolate", [normal(2, 2, *(3,) * dims)], scale_factor=1.3, **options)
        scales = (1.3, 0.6, 2)[:dims]
        compare("interpolate", [normal(2, 2, *(3,) * dims)], scale_factor=scales, **options)


def test_volume_sampling():
    x, grid = normal(2, 2, 3, 4, 2), normal(2, 2, 3, 2, 3, seed=1)
    for padding in ("zeros", "border", "reflection"):
        compare("grid_sample", [x, grid], padding_mode=padding, align_corners=False)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sampling(mode, padding):
    x, grid = normal(2, 3, 5, 4), normal(2, 3, 4, 2, seed=1)
    for align in (True, False):
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        compare("grid_sample", [x, grid], **options)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_paddings(mode):
    for pads in ((1, 2), (3, 0), (-1, 2), (2, -1), (-2, -1)):
        compare("pad", [normal(2, 3, 6)], pad=pads, mode=mode)
    compare("pad", [normal(2, 3, 5, 6)], pad=(1, 2, 3, 0), mode=mode)
    compare("pad", [normal(2, 1, 3, 4, 4)], pad=(1, 2, 0, 1, 2, 2), mode=mode)


def raised(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*arguments, **options)
        except Exception as error:
            return type(error)
    return None


# Arguments, `x` and `w` standing for tensors of shapes (2, 4, 8, 8) and (6, 4, 3, 3).
REFUSED = [
    ("conv2d", "x[0, 0], w"),
    ("conv2d", "x[None], w"),
    ("conv2d", "x[:, :3], w"),
    ("conv2d", "x, w, w"),
    ("conv2d", "x, w, groups=5"),
    ("conv2d", "x, w, stride=0"),
    ("conv2d", "x, w, stride='a'"),
    ("conv2d", "x, w, padding=-1"),
    ("conv2d", "x, w, padding='full'"),
    ("conv2d", "x, w, padding='same', stride=2"),
    ("conv2d", "x.double(), w"),
    ("conv2d", "x.bool(), w.bool()"),
    ("conv2d", "x[:, :, :2], w"),
    ("conv2d", "[1], w"),
    ("conv_transpose2d", "x, w[:4], output_padding=1"),
    ("conv_transpose2d", "x, w"),
    ("unfold", "x, 9"),
    ("fold", "x[:, 0], 8, 3"),
    ("max_pool2d", "x[0, 0], 2"),
    ("max_pool2d", "x, 0"),
    ("max_pool2d", "x, 2.5"),
    ("max_pool2d", "x, 3, padding=2"),
    ("max_pool2d", "x, 9"),
    ("max_pool2d", "x.bool(), 2"),
    ("max_pool2d", "x[:, :, :0], 2"),
    ("avg_pool2d", "x, 2, divisor_override=0"),
    ("avg_pool1d", "x, 2"),
    ("avg_pool3d", "x, (5, 2, 2), padding=1"),
    ("adaptive_avg_pool2d", "x, -1"),
    ("adaptive_avg_pool2d", "x.long(), 2"),
    ("adaptive_avg_pool2d", "x, (2, 2, 2)"),
    ("fractional_max_pool2d", "x, 2"),
    ("fractional_max_pool2d", "x, 2, 8"),
    ("max_unpool2d", "x, x, 2"),
    ("max_unpool2d", "x, x.long() + 9999, 2"),
    ("max_unpool2d", "x, x.long(), 2, output_size=(99, 99)"),
    ("pad", "x, (1, 1, 1)"),
    ("pad", "x, (1,) * 10"),
    ("pad", "x, (-5, -5)"),
    ("pad", "x, 1"),
    ("pad", "x, (1.5, 1)"),
    ("pad", "x, (1, 1), 'mirror'"),
    ("pad", "x, (1, 1), 'reflect'"),
    ("pad", "x, (8, 1, 1, 1), 'reflect'"),
    ("pad", "x, (9, 1, 1, 1), 'circular'"),
    ("pad", "x, (1, 1, 1, 1), 'reflect', 1.0"),
    ("pad", "x, (-4, -4, -4, -4), 'replicate'"),
    ("interpolate", "x"),
    ("interpolate", "x, 3, 2"),
    ("interpolate", "x, (3, 3, 3)"),
    ("interpolate", "x, 0"),
    ("interpolate", "x[0, 0], 3"),
    ("interpolate", "x, 3, mode='linear'"),
    ("interpolate", "x, 3, mode='none'"),
    ("interpolate", "x, 3, align_corners=True"),
    ("interpolate", "x, 3, antialias=True"),
    ("interpolate", "x, 3, mode='lanczos'"),
    ("interpolate", "x, 3, recompute_scale_factor=True"),
    ("interpolate", "x.long(), 3"),
    ("grid_sample", "x, x[..., :2], 'cubic'"),
    ("grid_sample", "x, x[..., :2], padding_mode='wrap'"),
    ("grid_sample", "x, x[..., :3]"),
    ("grid_sample", "x, x[:1, ..., :2]"),
    ("grid_sample", "x, x[..., :2].double()"),
    ("affine_grid", "x[0, :2, :2, :2], (2, 1, 2, 2)"),
    ("affine_grid", "x[0, :2, :2, :3].long(), (2, 1, 2, 2)"),
    ("affine_grid", "x[0, :2, :2, :3], (2, 1, 2)"),
    ("affine_grid", "x[0, :2, :2, :3], (2, 1, 0, 2)"),
    ("pixel_shuffle", "x, 3"),
    ("pixel_shuffle", "x[0, 0], 2"),
    ("pixel_unshuffle", "x, 3"),
    ("channel_shuffle", "x, 3"),
]


@pytest.mark.parametrize(("name", "arguments"), REFUSED)
def test_errors_have_torchs_types(name, arguments):
    found = []
    for module, function in zip((pullback, torch), both(name), strict=True):
        scope = {"x": module.ones(2, 4, 8, 8), "w": module.ones(6, 4, 3, 3), "call": function}
        found.append(raised(eval, f"call({arguments})", scope))
    assert found[0] is not None
    assert found[0] is found[1]
