"""Convolutions: against a slow sum, through every kernel, under vmap, and their errors."""

import itertools
import math

import numpy
import pytest

import pullback as torch
from pullback.func import vmap
from pullback.operators.arrays import windows
from pullback.operators.nn.conv import adjoint as conv_adjoint
from pullback.operators.nn.conv import flipped as conv_flipped
from pullback.operators.nn.conv import fold as folding
from pullback.operators.nn.conv import kernels, quick
from pullback.operators.nn.conv.fold import fold, unfold
from pullback.operators.nn.conv.functions import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose2d,
    conv_transpose3d,
)

GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)},
    {"padding": "same", "dilation": 2},
]


def normal(*shape, seed=0):
    return torch.from_numpy(numpy.random.default_rng(seed).normal(size=shape))


def slow_conv2d(x, w, stride, padding, dilation, groups=1):
    """One output element after the other."""
    (s0, s1), (d0, d1) = stride, dilation
    x = numpy.pad(x, ((0, 0), (0, 0), *padding))
    o, c, h, v = w.shape
    height = (x.shape[2] - d0 * (h - 1) - 1) // s0 + 1
    width = (x.shape[3] - d1 * (v - 1) - 1) // s1 + 1
    out = numpy.zeros((len(x), o, height, width))
    for f, i, j in itertools.product(range(o), range(height), range(width)):
        first = f // (o // groups) * c
        seen = x[:, first : first + c, i * s0 :, j * s1 :]
        seen = seen[:, :, : d0 * h : d0, : d1 * v : d1][:, :, :h, :v]
        out[:, f, i, j] = (seen * w[f]).sum((1, 2, 3))
    return out


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d_is_the_sum_over_windows(options, groups):
    x, w = normal(2, 4, 7, 6), normal(6, 4 // groups, 3, 2, seed=1)
    stride, dilation = pair(options.get("stride", 1)), pair(options.get("dilation", 1))
    padding = options.get("padding", 0)
    if padding == "same":
        around = ((2, 2), (1, 1))
    else:
        around = tuple((p, p) for p in pair(padding))
    expected = slow_conv2d(x.numpy(), w.numpy(), stride, around, dilation, groups)
    result = conv2d(x, w, groups=groups, **options)
    numpy.testing.assert_allclose(result.numpy(), expected, atol=1e-12)
    assert result.is_contiguous()


@pytest.mark.parametrize("options", GEOMETRIES[:3], ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolution_is_the_adjoint(options, dims):
    conv = {1: conv1d, 2: conv2d, 3: conv3d}[dims]
    if dims != 2 and any(isinstance(value, tuple) for value in options.values()):
        options = {"stride": 3, "dilation": 2}
    x = normal(2, 2, *(7, 6, 7)[:dims]).requires_grad_()
    w = normal(3, 2, *(3, 2, 2)[:dims], seed=1)
    out = conv(x, w, **options)
    g = normal(*out.shape, seed=2)
    (back,) = torch.autograd.grad(out, x, g)
    numpy.testing.assert_allclose((out * g).sum().item(), (x * back).sum().item())


def test_blocks_of_examples_give_what_all_at_once_gives(monkeypatch):
    x, w = normal(5, 2, 6, 6).requires_grad_(), normal(3, 2, 3, 3, seed=1).requires_grad_()
    bias = normal(3, seed=2).requires_grad_()

    def run():
        out = conv2d(x, w, bias, padding=1)
        return [out, *torch.autograd.grad((out**2).sum(), (x, w, bias))]

    whole = run()
    monkeypatch.setattr(windows, "BLOCK", 2 * 2 * 9 * 36)  # two examples at a time
    for one, other in zip(whole, run(), strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-12)


def test_lines_of_one_example_give_what_the_whole_gives(monkeypatch):
    x, w = normal(2, 4, 7, 3, 5).requires_grad_(), normal(6, 2, 3, 2, 2, seed=1).requires_grad_()
    bias = normal(6, seed=2).requires_grad_()

    def run():
        out = conv3d(x, w, bias, padding=1, stride=(2, 1, 1), groups=2)
        return [out, *torch.autograd.grad((out**2).sum(), (x, w, bias))]

    whole = run()
    monkeypatch.setattr(windows, "BLOCK", 2 * 4 * 12 * 5 * 6)  # two of four lines
    for one, other in zip(whole, run(), strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("options", GEOMETRIES[:3], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_flipped_filters_and_added_windows_are_one_adjoint(monkeypatch, options, groups):
    x, w = normal(2, 4, 5, 6), normal(4, 3, 3, 2, seed=1)
    bias = normal(3 * groups, seed=2)
    flipped = conv_transpose2d(x, w, bias, groups=groups, **options)
    monkeypatch.setattr(conv_flipped, "_FEW", 0)
    added = conv_transpose2d(x, w, bias, groups=groups, **options)
    numpy.testing.assert_allclose(flipped.numpy(), added.numpy(), atol=1e-12)


def test_few_places_give_what_many_give(monkeypatch):
    x, w = normal(5, 2, 4, 4).requires_grad_(), normal(4, 1, 3, 3, seed=1).requires_grad_()

    def run():
        out = conv2d(x, w, groups=2, stride=2, padding=1)
        return [out, *torch.autograd.grad((out**2).sum(), (x, w))]

    together = run()
    monkeypatch.setattr(kernels, "FEW_PLACES", 0)
    for one, other in zip(together, run(), strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-12)


def test_long_lines_and_single_windows_are_added_alike(monkeypatch):
    x, w = normal(2, 3, 5, 6, 5), normal(3, 2, 2, 2, 2, seed=1)
    lines = conv_transpose3d(x, w)
    monkeypatch.setattr(conv_flipped, "_FEW", 0)
    numpy.testing.assert_allclose(lines.numpy(), conv_transpose3d(x, w).numpy(), atol=1e-12)
    monkeypatch.setattr(conv_adjoint, "_adds_lines", lambda *_: False)
    numpy.testing.assert_allclose(lines.numpy(), conv_transpose3d(x, w).numpy(), atol=1e-12)


def test_input_gradient_has_zeros_where_no_window_reaches():
    x = torch.ones(1, 1, 1, 6).requires_grad_()
    conv2d(x, torch.ones(1, 1, 1, 2), stride=(1, 3)).sum().backward()
    assert x.grad.tolist() == [[[[1, 1, 0, 1, 1, 0]]]]


@pytest.mark.parametrize("stride", [3, 6, 7])
def test_windows_that_see_padding_alone_have_a_gradient(stride):
    x = torch.ones(1, 1, 1, 1, requires_grad=True)
    weight = torch.ones(1, 1, 2, 1)
    made = torch.nn.functional.conv2d(x, weight, padding=(3, 0), stride=(stride, 1))
    made.sum().backward()
    assert x.grad.item() == made.sum() == (stride == 3)


def test_inputs_are_left_as_they_are():
    x, w, bias = normal(1, 2, 4, 4), normal(2, 2, 1, 1, seed=1), normal(2, seed=2)
    before = [t.clone() for t in (x, w, bias)]
    conv2d(x, w, bias).add_(1)
    conv_transpose2d(x, w, bias).add_(1)
    unfold(x, 1).add_(1)
    for tensor, copy in zip((x, w, bias), before, strict=True):
        assert torch.equal(tensor, copy)


def test_image_without_batch_is_a_batch_of_one():
    x, w = normal(2, 5, 5), normal(3, 2, 3, 3, seed=1)
    assert torch.equal(conv2d(x, w), conv2d(x[None], w)[0])
    w = normal(2, 3, 3, 3, seed=1)
    assert torch.equal(conv_transpose2d(x, w), conv_transpose2d(x[None], w)[0])


def test_batch_of_none_has_gradients():
    x, w = torch.ones(0, 2, 5, 5).requires_grad_(), torch.ones(3, 2, 3, 3).requires_grad_()
    out = conv2d(x, w)
    assert out.shape == (0, 3, 3, 3)
    out.sum().backward()
    assert x.grad.shape == x.shape
    assert torch.equal(w.grad, torch.zeros(3, 2, 3, 3))


def test_integers_are_convolved_exactly():
    x, w = torch.arange(9).reshape(1, 1, 3, 3), torch.ones(1, 1, 2, 2, dtype=torch.int64)
    assert conv2d(x, w).tolist() == [[[[8, 12], [20, 24]]]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_summed_in_single(dtype):
    x, w = torch.ones(1, 300, 1, 1, dtype=dtype), torch.ones(1, 300, 1, 1, dtype=dtype)
    out = conv2d(x, w)
    assert out.dtype is dtype
    assert out.item() == 300  # bfloat16 alone would stop at 256


@pytest.mark.parametrize(
    "mapped", [m for m in itertools.product((True, False), repeat=3) if any(m)], ids=str
)
@pytest.mark.parametrize("conv", [conv2d, conv_transpose2d])
def test_vmap_is_a_loop(conv, mapped):
    filters = (3, 4, 2, 3, 2) if conv is conv2d else (3, 4, 1, 3, 2)
    whole = (
        normal(3, 2, 4, 5, 4),
        normal(*filters, seed=1),
        normal(3, filters[1] if conv is conv2d else 2, seed=2),
    )
    arguments = [t if m else t[0] for t, m in zip(whole, mapped, strict=True)]
    dims = tuple(0 if m else None for m in mapped)

    def call(x, w, bias):
        return conv(x, w, bias, stride=2, padding=1, groups=2)

    expected = [
        call(*[t[i] if m else t for t, m in zip(arguments, mapped, strict=True)]) for i in range(3)
    ]
    result = vmap(call, in_dims=dims)(*arguments)
    numpy.testing.assert_allclose(result.numpy(), torch.stack(expected).numpy(), atol=1e-12)


def test_gradients_of_each_example_are_one_call():
    x, w = normal(3, 2, 5, 5), normal(3, 2, 3, 3, seed=1)

    def loss(w, x):
        return (conv2d(x[None], w) ** 2).sum()

    each = vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
    for example, gradient in zip(x, each, strict=True):
        leaf = w.clone().requires_grad_()
        (expected,) = torch.autograd.grad(loss(leaf, example), leaf)
        numpy.testing.assert_allclose(gradient.numpy(), expected.numpy(), atol=1e-12)


def test_columns_are_added_up_by_a_matrix_or_point_by_point(monkeypatch):
    options = {"output_size": (5, 4), "kernel_size": (3, 2), "padding": (1, 0), "stride": (2, 1)}
    columns = normal(2, 3 * 6, 3 * 3)
    by_matrix = fold(columns, **options)
    monkeypatch.setattr(folding, "_MOST_OF_MATRIX", 0)
    numpy.testing.assert_allclose(by_matrix.numpy(), fold(columns, **options).numpy(), atol=1e-12)
    monkeypatch.undo()
    columns[0, 0, 0] = math.inf
    reached = ~fold(columns, **options).isfinite()
    assert int(reached.sum()) <= 1
    assert not fold(columns, **options).isnan().any()


def test_fold_counts_how_often_unfold_saw_each_element():
    seen = fold(unfold(torch.ones(1, 1, 3, 3), 2), (3, 3), 2)
    assert seen.tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


X, W = torch.ones(2, 4, 8, 8), torch.ones(6, 4, 3, 3)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: conv2d(X[0, 0], W), RuntimeError, "3 or 4 dimensions"),
        (lambda: conv2d(X, W[0]), RuntimeError, "weight"),
        (lambda: conv2d(X[:, :3], W), RuntimeError, "4 channels"),
        (lambda: conv2d(X, W, torch.ones(5)), RuntimeError, "bias"),
        (lambda: conv2d(X, W, groups=0), RuntimeError, "groups"),
        (lambda: conv2d(X, W, groups=5), RuntimeError, "groups=5"),
        (lambda: conv2d(X, W, stride=0), RuntimeError, "stride"),
        (lambda: conv2d(X, W, stride=1.5), TypeError, "stride"),
        (lambda: conv2d(X, W, stride=(1, 2, 3)), RuntimeError, "stride"),
        (lambda: conv2d(X, W, padding=-1), RuntimeError, "padding"),
        (lambda: conv2d(X, W, padding="full"), RuntimeError, "'full'"),
        (lambda: conv2d(X, W, padding="same", stride=2), RuntimeError, "stride 1"),
        (lambda: conv2d(X, torch.ones(6, 4, 9, 9)), RuntimeError, "does not fit"),
        (lambda: conv2d(X.double(), W), RuntimeError, "float64"),
        (lambda: conv2d(X.bool(), W.bool()), NotImplementedError, "bool"),
        (lambda: conv2d([1.0], W), TypeError, "conv2d"),
        (lambda: conv_transpose2d(X, W[:4], output_padding=1), RuntimeError, "output_padding"),
        (lambda: conv_transpose2d(X, W[:3]), RuntimeError, "channels"),
        (lambda: unfold(X, 9), RuntimeError, "does not fit"),
        (lambda: fold(torch.ones(2, 35, 36), 8, 3), RuntimeError, "multiple"),
        (lambda: fold(torch.ones(2, 36, 35), 8, 3), RuntimeError, "36 windows"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"padding": 2}, {"stride": 2, "padding": 1, "dilation": 2}]
)
def test_windows_that_are_looked_up_give_what_copied_ones_give(monkeypatch, options, n, groups):
    x = torch.tensor(numpy.random.default_rng(0).standard_normal((n, 4, 6, 5)), requires_grad=True)
    w = torch.tensor(numpy.random.default_rng(1).standard_normal((4, 4 // groups, 3, 2)))
    w.requires_grad_()

    def results():
        made = conv2d(x, w, groups=groups, **options)
        return [made.detach(), *torch.autograd.grad((made**3).sum(), (x, w))]

    few = results()
    monkeypatch.setattr(quick, "_few_windows", lambda *_: None)
    for one, other in zip(few, results(), strict=True):
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
