"""Resampling: what each mode must keep, sampling at given positions, exchanged pixels, errors."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.nn.image import kernels as sampling_kernels
from pullback.operators.nn.image import taps
from pullback.operators.nn.image.resample import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from pullback.operators.nn.image.sampling import affine_grid, grid_sample, grid_sampler
from pullback.operators.nn.image.shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from pullback.operators.nn.image.taps import Taps, resample

SMOOTH = ["bilinear", "bicubic"]


def image(*shape):
    return torch.from_numpy(numpy.random.default_rng(0).normal(size=shape))


def test_nearest_repeats_and_skips():
    x = torch.tensor([[[1.0, 2.0, 3.0]]])
    assert interpolate(x, scale_factor=2).tolist() == [[[1, 1, 2, 2, 3, 3]]]
    assert interpolate(x, size=2).tolist() == [[[1, 2]]]
    assert interpolate(x, size=2, mode="nearest-exact").tolist() == [[[1, 3]]]


def test_linear_is_a_straight_line_between_elements():
    x = torch.tensor([[[0.0, 4.0]]])
    result = interpolate(x, size=5, mode="linear", align_corners=True)
    assert result.tolist() == [[[0, 1, 2, 3, 4]]]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", [*SMOOTH, "lanczos"])
@pytest.mark.parametrize("size", [(2, 9), (9, 2), 1])
def test_constant_image_stays_constant(mode, antialias, size):
    if mode == "lanczos" and not antialias:
        pytest.skip("needs antialias")
    x = torch.full((1, 1, 5, 4), 3.0, dtype=torch.float64)
    result = interpolate(x, size, mode=mode, antialias=antialias)
    numpy.testing.assert_allclose(result.numpy(), 3.0)


@pytest.mark.parametrize("mode", SMOOTH)
def test_same_size_is_the_same_image(mode):
    x = image(1, 2, 4, 5)
    numpy.testing.assert_allclose(interpolate(x, (4, 5), mode=mode).numpy(), x.numpy())


@pytest.mark.parametrize("number", [4, 9])
def test_images_are_resampled_in_one_product_or_in_steps(monkeypatch, number):
    x = image(2, 3, 6, 5).requires_grad_()

    def run():
        out = interpolate(x, size=(number, 7), mode="bicubic")
        return [out, *torch.autograd.grad((out**2).sum(), x)]

    product = run()
    monkeypatch.setattr(taps, "_FEW", 0)
    monkeypatch.setattr(taps, "_BLOCK", 30)
    for most in (taps._MOST_OF_MATRIX, 0):  # by matrices, and tap by tap
        monkeypatch.setattr(taps, "_MOST_OF_MATRIX", most)
        taps._plan.cache_clear()
        for one, other in zip(product, run(), strict=True):
            numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-12)
    taps._plan.cache_clear()


def test_lines_through_as_many_elements_are_those_whatever_the_scale():
    x = image(1, 1, 3, 3)
    assert torch.equal(interpolate(x, scale_factor=1.3, mode="bilinear"), x)


def test_infinity_does_not_reach_what_it_has_no_part_in():
    x = torch.tensor([[[1.0, 2.0, math.inf, 4.0, 5.0, 6.0]]])
    assert interpolate(x, size=3, mode="area").tolist() == [[[1.5, math.inf, 5.5]]]


def test_table_and_its_transpose_are_adjoint():
    table = Taps([0, 0, 2, 2, 2], [1, 3, 0, 1, 3], [0.5, 2.0, 1.0, -1.0, 3.0], 4, 5)
    x, g = image(2, 5), image(2, 4)
    out, back = resample(x, (table,)), resample(g, (table.transposed(),))
    assert out.shape == (2, 4)
    numpy.testing.assert_allclose((out * g).sum().item(), (x * back).sum().item())
    assert out[:, 1].tolist() == out[:, 3].tolist() == [0, 0]


def test_sampling_an_images_own_positions_gives_the_image():
    x = image(2, 3, 4, 5)
    eye = torch.eye(2, 3, dtype=torch.float64).expand(2, 2, 3)
    for align in (True, False):
        grid = affine_grid(eye, x.shape, align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic"):
            result = grid_sample(x, grid, mode, align_corners=align)
            numpy.testing.assert_allclose(result.numpy(), x.numpy(), atol=1e-12)


def test_points_outside_see_zeros_borders_or_reflections():
    x = torch.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = torch.tensor([[[[2.0, 0.0]]]])  # one element beyond the last one
    found = [
        grid_sample(x, grid, padding_mode=mode, align_corners=True).item()
        for mode in ("zeros", "border", "reflection")
    ]
    assert found == [0, 3, 2]


def test_positions_that_are_no_numbers_are_outside():
    x = torch.ones(1, 1, 2, 2)
    grid = torch.tensor([[[[math.nan, 0.0], [math.inf, 0.0]]]])
    assert grid_sample(x, grid, "nearest", align_corners=False).tolist() == [[[[0, 0]]]]


def test_nearest_gives_the_grid_a_gradient_of_zeros():
    x, grid = torch.rand(1, 1, 3, 3), torch.zeros(1, 2, 2, 2).requires_grad_()
    grid_sample(x, grid, "nearest", align_corners=False).sum().backward()
    assert torch.equal(grid.grad, torch.zeros(1, 2, 2, 2))


@pytest.mark.parametrize("block", [7, 60])
def test_points_are_sampled_in_blocks(monkeypatch, block):
    x, grid = image(3, 2, 4, 5).requires_grad_(), image(3, 3, 2, 2).requires_grad_()

    def run():
        out = grid_sample(x, grid, padding_mode="reflection", align_corners=False)
        return [out, *torch.autograd.grad((out**2).sum(), (x, grid))]

    whole = run()
    monkeypatch.setattr(sampling_kernels, "_BLOCK", block)
    for one, other in zip(whole, run(), strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_sampling_has_derivatives_of_third_order(mode):
    x, grid = image(1, 2, 4, 4).requires_grad_(), (image(1, 2, 2, 2) * 0.4).requires_grad_()

    def slope(x, grid):
        out = grid_sample(x, grid, mode, align_corners=True)
        return torch.autograd.grad((out**3).sum(), (x, grid), create_graph=True)

    assert torch.autograd.gradgradcheck(slope, (x, grid))


def test_samples_without_position_have_no_share_in_the_image():
    x = torch.ones(1, 1, 2, 2).requires_grad_()
    grid = torch.tensor([[[[math.nan, 0.0], [0.0, 0.0]]]])
    out = grid_sample(x, grid, align_corners=True)
    assert out.isnan().tolist() == [[[[True, False]]]]
    assert type(out.grad_fn).__name__ == "GridSampler2DBackward0"
    (g,) = torch.autograd.grad(out.sum(), x)
    assert g.tolist() == [[[[0.25, 0.25], [0.25, 0.25]]]]


def test_modes_have_numbers():
    x, grid = image(1, 1, 3, 4), image(1, 2, 2, 2)
    named = grid_sample(x, grid, "bicubic", "border", align_corners=True)
    assert torch.equal(named, grid_sampler(x, grid, 2, 1, True))


def test_pixels_are_shuffled_there_and_back():
    x = image(2, 8, 3, 4)
    assert torch.equal(pixel_unshuffle(pixel_shuffle(x, 2), 2), x)
    assert torch.equal(channel_shuffle(channel_shuffle(x, 2), 4), x)


@pytest.mark.parametrize("function", [upsample, upsample_nearest, upsample_bilinear])
def test_old_names_warn(function):
    with pytest.warns(UserWarning, match="deprecated"):
        assert function(torch.ones(1, 1, 2, 2), scale_factor=2).shape == (1, 1, 4, 4)


X = torch.ones(2, 3, 5, 6)
GRID = torch.zeros(2, 4, 4, 2)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: interpolate(X), ValueError, "size or scale_factor"),
        (lambda: interpolate(X, 3, 2), ValueError, "size or scale_factor"),
        (lambda: interpolate(X, (3, 3, 3)), ValueError, "size"),
        (lambda: interpolate(X, 3.5), TypeError, "ints"),
        (lambda: interpolate(X, 0), RuntimeError, "only the batch"),
        (lambda: interpolate(X[0, 0], 3), NotImplementedError, "3 to 5"),
        (lambda: interpolate(X, 3, mode="linear"), NotImplementedError, "'linear'"),
        (lambda: interpolate(X, 3, align_corners=True), ValueError, "align_corners"),
        (lambda: interpolate(X, 3, antialias=True), ValueError, "antialias"),
        (lambda: interpolate(X, 3, mode="lanczos"), ValueError, "antialias"),
        (lambda: interpolate(X.long(), 3), NotImplementedError, "int64"),
        (lambda: grid_sample(X, GRID, "cubic"), ValueError, "mode"),
        (lambda: grid_sample(X, GRID, padding_mode="wrap"), ValueError, "padding_mode"),
        (lambda: grid_sample(X, GRID[:1]), RuntimeError, "do not fit"),
        (lambda: grid_sample(X, GRID.double()), RuntimeError, "float64"),
        (lambda: affine_grid(GRID.long(), (2, 1, 2, 2)), ValueError, "floating"),
        (lambda: affine_grid(torch.ones(2, 2, 2), (2, 1, 2, 2)), ValueError, r"\(n, 2, 3\)"),
        (lambda: affine_grid(torch.ones(2, 2, 3), (2, 1, 2)), NotImplementedError, "size"),
        (lambda: affine_grid(torch.ones(2, 2, 3), (2, 1, 0, 2)), ValueError, "positive"),
        (lambda: pixel_shuffle(X, 2), RuntimeError, "divisible"),
        (lambda: pixel_unshuffle(X, 2), RuntimeError, "multiples"),
        (lambda: pixel_shuffle(X[0, 0], 2), RuntimeError, "at least 3"),
        (lambda: channel_shuffle(X, 2), RuntimeError, "groups=2"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_backward_through_an_affine_grid_keeps_nothing_that_is_freed(size):
    dims = len(size) - 2
    theta = torch.ones(2, dims, dims + 1, requires_grad=True)
    grid = affine_grid(theta, size, align_corners=False)
    grid.backward(torch.ones_like(grid))
    once = theta.grad.clone()
    grid.backward(torch.ones_like(grid))
    assert torch.allclose(theta.grad, 2 * once)
    assert type(grid.grad_fn).__name__ == "AffineGridGeneratorBackward0"


@pytest.mark.parametrize(
    "call",
    [
        lambda: affine_grid(torch.ones(2, 2, 3), (2, 1, 2, 2)),
        lambda: affine_grid(torch.ones(2, 2, 3), (2, 1, 1, 2), align_corners=True),
        lambda: grid_sample(X, GRID),
    ],
)
def test_where_corners_lie_is_not_guessed_in_silence(call):
    with pytest.warns(UserWarning, match="align_corners") as heard:
        call()
    assert heard[0].filename == __file__
