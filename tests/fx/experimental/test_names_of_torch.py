"""`make_fx` writes usual functions down as operators that torch has, so that passes know them."""

import pytest

import pullback as torch
from pullback import nn
from pullback.fx.experimental.proxy_tensor import make_fx

F = nn.functional
CLASSES = torch.tensor([0, 1, 2, 0])
WEIGHTS = torch.tensor([1.0, 2.0, 3.0])
FUNCTIONS = {
    "layer_norm": lambda x: F.layer_norm(x, (6, 6)),
    "layer_norm, weights": lambda x: F.layer_norm(x, (6,), x[0, 0, 0], x[0, 0, 1]),
    "rms_norm": lambda x: F.rms_norm(x, (6,), x[0, 0, 0]),
    "instance_norm": lambda x: F.instance_norm(x, weight=WEIGHTS),
    "batch_norm": lambda x: F.batch_norm(x, None, None, WEIGHTS, WEIGHTS, training=True),
    "batch_norm, running": lambda x: F.batch_norm(x, torch.zeros(3), WEIGHTS, training=True),
    "batch_norm, given": lambda x: F.batch_norm(x, WEIGHTS, WEIGHTS),
    "group_norm": lambda x: F.group_norm(x, 3, WEIGHTS, WEIGHTS),
    "cross_entropy": lambda x: F.cross_entropy(x[:, :, 0, 0], CLASSES),
    "cross_entropy, weights": lambda x: F.cross_entropy(x[:, :, 0, 0], CLASSES, WEIGHTS),
    "cross_entropy, sum": lambda x: F.cross_entropy(x[:, :, 0, 0], CLASSES, reduction="sum"),
    "nll_loss": lambda x: F.nll_loss(x[:, :, 0, 0], CLASSES, ignore_index=1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "attention, mask": lambda x: F.scaled_dot_product_attention(x, x, x, x[0, 0] > 0.5),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "max_pool2d, options": lambda x: F.max_pool2d(x, 3, 2, 1, 1, ceil_mode=True),
    "max_pool2d, dilation": lambda x: F.max_pool2d(x, 2, 1, 1, 2),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d, options": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "bce, options": lambda x: F.binary_cross_entropy_with_logits(
        x, x, weight=x, reduction="sum", pos_weight=x[0, 0, 0]
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_operators_are_those_of_torch(name, tracing_mode):
    made = make_fx(FUNCTIONS[name], tracing_mode=tracing_mode, _allow_non_fake_inputs=True)(
        torch.rand(4, 3, 6, 6)
    )
    assert "torch.ops.pullback" not in made.code
    for _ in range(2):
        x, y = (one.requires_grad_() for one in torch.rand(2, 4, 3, 6, 6).unbind(0))
        with torch.no_grad():
            y.copy_(x)
        ours, wanted = made(x), FUNCTIONS[name](y)
        torch.testing.assert_close(ours, wanted)
        ours.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_running_statistics_are_moved_by_the_graph():
    layer, twin = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    made = make_fx(lambda x: layer(x))(torch.rand(4, 3, 6, 6))
    twin.load_state_dict(layer.state_dict())
    for _ in range(3):
        x = torch.rand(4, 3, 6, 6)
        torch.testing.assert_close(made(x), twin(x))
        torch.testing.assert_close(layer.running_mean, twin.running_mean)
        torch.testing.assert_close(layer.running_var, twin.running_var)


@pytest.mark.parametrize(
    ("function", "shape", "wanted"),
    [
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 1, 3, 2),
         "aten.upsample_bilinear2d.default"),
        (lambda x: F.interpolate(x, size=(5, 2)), (1, 1, 3, 2), "aten.upsample_nearest2d.default"),
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), (1, 1, 4),
         "aten.upsample_linear1d.default"),
    ],
)  # fmt: skip
def test_images_in_another_resolution_have_torchs_names(function, shape, wanted):
    graph = make_fx(function)(torch.randn(*shape))
    assert wanted in [str(node.target) for node in graph.graph.nodes]
    x = torch.randn(*shape)
    assert torch.allclose(graph(x), function(x))


def test_parameters_are_told_from_other_constants():
    weight, other = torch.nn.Parameter(torch.ones(2)), torch.full((2,), 3.0)
    graph = make_fx(lambda x: x * weight + other)(torch.ones(2))
    held = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
    assert held == ["_param_constant0", "_tensor_constant0"]
    assert graph(torch.ones(2)).tolist() == [4.0, 4.0]
