"""Backward operators of `torch.ops.aten` against torch's own."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")


def _numbers(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("f4")


X, G = _numbers(3, 4), _numbers(3, 4, seed=1)
IMAGE, LABELS = _numbers(2, 3, 6, 6), numpy.array([1, 0, 3])
PLACES = numpy.array([[0, 2], [4, 2]])
OUTPUT = numpy.exp(X) / numpy.exp(X).sum(1, keepdims=True)
PROBABLE = 1 / (1 + numpy.exp(-X))

CHANNELS = numpy.array([0.5, 1, 2], "f4")
MEAN, SCALE = IMAGE.mean((0, 2, 3)), 1 / IMAGE.std((0, 2, 3))
TARGETS = numpy.arange(72).reshape(2, 6, 6) % 3

# Name: arguments of the overload, arrays among them.
CALLS = {
    "hardsigmoid_backward": (G, X * 4),
    "hardswish_backward": (G, X * 4),
    "mish_backward": (G, X),
    "hardtanh_backward": (G, X, -0.5, 0.7),
    "softplus_backward": (G, X, 2.0, 1.5),
    "softshrink_backward": (G, X, 0.4),
    "hardshrink_backward": (G, X, 0.4),
    "glu_backward": (_numbers(3, 2), X, 1),
    "leaky_relu_backward": (G, X, 0.1, False),
    "elu_backward": (G, 1.5, 2.0, 0.5, False, X),
    "elu_backward of a result": (G, 1.5, 2.0, 0.5, True, numpy.maximum(X, -2.5)),
    "log_sigmoid_backward": (G, X, numpy.exp(-numpy.abs(X))),
    "logit_backward": (G, PROBABLE, 0.3),
    "logit_backward without eps": (G, PROBABLE),
    "_prelu_kernel_backward": (G, X, numpy.full((3, 4), 0.3, "f4")),
    "_softmax_backward_data": (G, OUTPUT, 1, "float32"),
    "_log_softmax_backward_data": (G, numpy.log(OUTPUT), 1, "float32"),
    "native_dropout_backward": (G, X > 0, 2.0),
    "mse_loss_backward": (numpy.array(2.0, "f4"), X, G, 1),
    "mse_loss_backward of each": (G, X, G, 0),
    "soft_margin_loss_backward": (numpy.array(2.0, "f4"), X, numpy.sign(G), 2),
    "smooth_l1_loss_backward": (numpy.array(2.0, "f4"), X, G, 1, 0.5),
    "huber_loss_backward": (numpy.array(2.0, "f4"), X, G, 2, 0.5),
    "binary_cross_entropy_backward": (G, PROBABLE, 1 - PROBABLE, None, 0),
    "nll_loss_backward": (
        numpy.array(2.0, "f4"), X, LABELS, None, 1, -100, numpy.array(3, "f4")
    ),
    "nll_loss_backward weighted": (
        numpy.array(2.0, "f4"), X, LABELS, numpy.array([1, 2, 3, 4], "f4"), 1, 0,
        numpy.array(6, "f4"),
    ),
    "_adaptive_avg_pool2d": (IMAGE, [2, 3]),
    "_adaptive_avg_pool2d_backward": (_numbers(2, 3, 4, 3), IMAGE),
    "avg_pool2d_backward": (
        _numbers(2, 3, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None
    ),
    "avg_pool2d_backward padded": (
        _numbers(2, 3, 3, 3), IMAGE, [3, 3], [2, 2], [1, 1], False, False, None
    ),
    "avg_pool2d_backward without stride": (
        _numbers(2, 3, 3, 3), IMAGE, [2, 2], [], [0, 0], False, True, 5
    ),
    "avg_pool3d_backward": (
        _numbers(1, 2, 2, 2, 2), _numbers(1, 2, 4, 4, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0], False,
        True, None,
    ),
    "upsample_nearest2d_backward": (_numbers(2, 3, 12, 9), [12, 9], [2, 3, 6, 6]),
    "upsample_bilinear2d_backward": (_numbers(2, 3, 9, 9), [9, 9], [2, 3, 6, 6], False),
    "upsample_bilinear2d_backward aligned": (_numbers(2, 3, 9, 9), [9, 9], [2, 3, 6, 6], True),
    "upsample_bicubic2d_backward": (_numbers(2, 3, 9, 9), [9, 9], [2, 3, 6, 6], False),
    "upsample_nearest1d_backward": (_numbers(2, 3, 9), [9], [2, 3, 4], 2.3),
    "upsample_linear1d_backward": (_numbers(2, 3, 9), [9], [2, 3, 4], False, 2.3),
    "upsample_nearest2d": (IMAGE, [12, 9], 2.0, 1.5),
    "upsample_bilinear2d": (IMAGE, [13, 9], False, 2.2, 1.5),
    "upsample_bicubic2d": (IMAGE, [12, 9], True),
    "upsample_nearest1d": (IMAGE[0], [8]),
    "upsample_linear1d": (IMAGE[0], [8], True),
    "reflection_pad1d_backward": (_numbers(2, 3, 9), _numbers(2, 3, 6), [1, 2]),
    "reflection_pad2d_backward": (_numbers(2, 3, 7, 9), IMAGE, [1, 2, 0, 1]),
    "replication_pad2d_backward": (_numbers(2, 3, 7, 9), IMAGE, [1, 2, 0, 1]),
    "col2im": (_numbers(2, 12, 9), [6, 6], [2, 2], [1, 1], [0, 0], [2, 2]),
    "embedding_dense_backward": (_numbers(2, 2, 4), PLACES, 6, -1, False),
    "embedding_dense_backward padded": (_numbers(2, 2, 4), PLACES, 6, 2, False),
    "embedding_dense_backward by count": (_numbers(2, 2, 4), PLACES, 6, -1, True),
    "slice_backward": (_numbers(3, 2), [3, 6], 1, 1, 5, 2),
    "select_backward": (_numbers(3), [3, 6], 1, 4),
    "diagonal_backward": (_numbers(3), [3, 6], 1, 0, 1),
    "unfold_backward": (_numbers(3, 2, 3), [3, 5], 1, 3, 2),
    "index_select_backward": (_numbers(3, 3), [3, 6], 1, numpy.array([1, 1, 5])),
    "trace_backward": (numpy.array(2.0, "f4"), [3, 4]),
    "native_layer_norm_backward": (
        G, X, [4], X.mean(1, keepdims=True), 1 / numpy.sqrt(X.var(1, keepdims=True) + 1e-5),
        _numbers(4), _numbers(4), [True, True, True],
    ),
    "masked_scatter_backward": (G, X > 0, [3, 4]),
    "native_batch_norm_backward": (
        IMAGE * 2, IMAGE, CHANNELS, None, None, MEAN, SCALE, True, 1e-3, [True, True, True]
    ),
    "native_batch_norm_backward of a layer": (
        IMAGE * 2, IMAGE, None, MEAN, SCALE, None, None, False, 1e-3, [True, True, True]
    ),
    "native_group_norm_backward": (
        IMAGE.transpose(0, 1, 3, 2).copy(), IMAGE, IMAGE.reshape(2, 1, -1).mean(2),
        1 / IMAGE.reshape(2, 1, -1).std(2), CHANNELS, 2, 3, 36, 1, [True, True, True],
    ),
    "_native_batch_norm_legit_functional": (
        IMAGE, CHANNELS, CHANNELS, MEAN, SCALE, True, 0.2, 1e-3
    ),
    "_native_batch_norm_legit": (IMAGE, CHANNELS, CHANNELS, MEAN, SCALE, True, 0.2, 1e-3),
    "_native_batch_norm_legit_no_training": (IMAGE, None, CHANNELS, MEAN, SCALE, 0.2, 1e-3),
    "nll_loss2d_forward": (IMAGE, TARGETS, CHANNELS, 1, 2),
    "nll_loss2d_backward": (
        numpy.array(2.0, "f4"), IMAGE, TARGETS, None, 1, -100, numpy.array(72, "f4")
    ),
    "value_selecting_reduction_backward": (
        _numbers(3), 1, numpy.array([0, 2, 1]), [3, 4], False
    ),
    "grid_sampler_2d_backward": (
        _numbers(2, 3, 4, 4), IMAGE, numpy.tanh(_numbers(2, 4, 4, 2)), 0, 1, False, [True, True]
    ),
    "im2col": (IMAGE, [2, 3], [1, 1], [1, 0], [2, 1]),
}  # fmt: skip


def _brought(side, one):
    if isinstance(one, numpy.ndarray):
        return side.tensor(one)
    return getattr(side, one) if isinstance(one, str) else one


def _run(side, name):
    made = getattr(side.ops.aten, name.split()[0]).default(
        *[_brought(side, one) for one in CALLS[name]]
    )
    return [one.detach().numpy() for one in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("name", CALLS)
def test_backward_overloads_give_what_torch_gives(name):
    for ours, theirs in zip(_run(pullback, name), _run(torch, name), strict=True):
        assert ours.shape == theirs.shape
        numpy.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted({one.split()[0] for one in CALLS}))
def test_schemas_are_those_of_torch(name):
    ours = getattr(pullback.ops.aten, name).default._schema
    assert str(ours) == str(getattr(torch.ops.aten, name).default._schema)


def test_pooling_by_its_indices():
    results = []
    for side in (pullback, torch):
        x = side.tensor(IMAGE)
        _, indices = side.ops.aten.max_pool2d_with_indices.default(x, [2, 2], [2, 2])
        g = side.tensor(_numbers(2, 3, 3, 3))
        options = ([2, 2], [2, 2], [0, 0], [1, 1], False, indices)
        backward = side.ops.aten.max_pool2d_with_indices_backward.default
        results.append(backward(g, x, *options).numpy())
    numpy.testing.assert_allclose(*results)


PRIMS = {
    "iota": lambda m: m.ops.prims.iota.default(
        4, start=2, step=3, dtype=m.int64, device="cpu", requires_grad=False
    ),
    "convert_element_type": lambda m: m.ops.prims.convert_element_type.default(
        m.tensor(X), m.float64
    ),
    "broadcast_in_dim": lambda m: m.ops.prims.broadcast_in_dim.default(
        m.tensor(LABELS), [2, 3], [1]
    ),
    "mul": lambda m: m.ops.prims.mul.default(m.tensor(X), m.tensor(G)),
    "sum": lambda m: m.ops.prims.sum.default(m.tensor(X), [1]),
}


@pytest.mark.parametrize("name", PRIMS)
def test_operators_of_references(name):
    ours, theirs = (PRIMS[name](side) for side in (pullback, torch))
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_what_is_no_operator_of_references_is_absent():
    for name in ("pullback", "Tensor", "Sequence", "_SAME", "no_such_operator"):
        with pytest.raises(AttributeError):
            getattr(pullback.ops.prims, name)
