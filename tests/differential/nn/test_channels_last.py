"""Channels that are last in memory stay there, as in torch."""

import pytest

import pullback
from tests.differential.nn.sides import LIBRARIES, close, given, random

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "conv": lambda t, x: t.nn.functional.conv2d(x, given(t, random(3, 4, 3, 3))),
    "conv of groups": lambda t, x: t.nn.functional.conv2d(
        x, given(t, random(4, 2, 3, 3)), groups=2
    ),
    "transposed conv": lambda t, x: t.nn.functional.conv_transpose2d(
        x, given(t, random(4, 3, 3, 3))
    ),
    "max pool": lambda t, x: t.nn.functional.max_pool2d(x, 2),
    "average pool": lambda t, x: t.nn.functional.avg_pool2d(x, 2),
    "adaptive average": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive max": lambda t, x: t.nn.functional.adaptive_max_pool2d(x, (3, 4)),
    "norm pool": lambda t, x: t.nn.functional.lp_pool2d(x, 2, 2),
    "batch norm": lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
    "batch norm in evaluation": lambda t, x: t.nn.BatchNorm2d(4).double().eval()(x),
    "instance norm": lambda t, x: t.nn.functional.instance_norm(x),
    "group norm": lambda t, x: t.nn.functional.group_norm(x, 2),
    "layer norm": lambda t, x: t.nn.functional.layer_norm(x, (6,)),
    "nearest": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
    "bilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "padding": lambda t, x: t.nn.functional.pad(x, (1, 1)),
    "reflection": lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "channel shuffle": lambda t, x: t.nn.functional.channel_shuffle(x, 2),
    "pixel unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(x, 2),
    "relu": lambda t, x: t.nn.functional.relu(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients_keep_the_format(name):
    results = []
    for library in LIBRARIES:
        x = given(library, random(2, 4, 6, 6)).to(memory_format=library.channels_last)
        x = x.requires_grad_()
        out = FUNCTIONS[name](library, x)
        g = given(library, random(*out.shape, seed=1)).to(memory_format=library.channels_last)
        (back,) = library.autograd.grad(out, x, g)
        formats = [one.is_contiguous(memory_format=library.channels_last) for one in (out, back)]
        results.append((out, back, formats))
    close(*results)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [6, 40])
def test_an_image_that_is_made_a_batch_of_one_has_results_row_by_row_where_torch_has(name, size):
    """As files of pictures are read: rows of pixels, turned around. `view` works afterwards."""
    found = []
    for library in LIBRARIES:
        image = given(library, random(size, 6, 4)).permute(2, 0, 1)
        out = FUNCTIONS[name](library, image.unsqueeze(0))
        found.append((out.is_contiguous(), out.is_contiguous(memory_format=library.channels_last)))
    theirs, ours = found if LIBRARIES[0] is torch else found[::-1]
    assert ours == theirs


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout"])
def test_dropout_keeps_the_format(name):
    x = given(pullback, random(2, 4, 6, 6)).to(memory_format=pullback.channels_last)
    out = getattr(pullback.nn.functional, name)(x, training=True)
    assert out.is_contiguous(memory_format=pullback.channels_last)


def test_the_format_of_a_weight_is_taken_too():
    for library in LIBRARIES:
        layer = library.nn.Conv2d(4, 3, 3).to(memory_format=library.channels_last)
        out = layer(library.ones(2, 4, 6, 6))
        assert out.is_contiguous(memory_format=library.channels_last)


def test_a_model_of_images_keeps_the_format_throughout():
    model = pullback.nn.Sequential(
        pullback.nn.Conv2d(3, 4, 3, padding=1),
        pullback.nn.BatchNorm2d(4),
        pullback.nn.ReLU(),
        pullback.nn.MaxPool2d(2),
        pullback.nn.Upsample(scale_factor=2),
    ).to(memory_format=pullback.channels_last)
    x = pullback.randn(2, 3, 8, 8).to(memory_format=pullback.channels_last)
    for module in model:
        x = module(x)
        assert x.is_contiguous(memory_format=pullback.channels_last)
