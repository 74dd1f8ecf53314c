"""Machine code and NumPy agree however the operands lie in memory: in values and in strides."""

import pytest

import pullback as torch
from pullback.operators.arrays import native

functional = torch.nn.functional
pytestmark = pytest.mark.skipif(not native.is_available(), reason="needs llvmlite")


def _causal(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


HEADS = [(2, 4, 32, 16)] * 3
CALLS = {
    "conv1d": (functional.conv1d, [(4, 8, 60), (8, 8, 3)]),
    "conv2d": (lambda x, w: functional.conv2d(x, w, padding=1), [(4, 8, 9, 9), (16, 8, 3, 3)]),
    "strided": (lambda x, w: functional.conv2d(x, w, stride=2), [(4, 8, 9, 9), (16, 8, 3, 3)]),
    "groups": (lambda x, w: functional.conv2d(x, w, groups=2), [(4, 8, 9, 9), (16, 4, 3, 3)]),
    "depthwise": (lambda x, w: functional.conv2d(x, w, groups=8), [(4, 8, 9, 9), (8, 1, 3, 3)]),
    "conv3d": (functional.conv3d, [(2, 4, 6, 6, 6), (8, 4, 3, 3, 3)]),
    "transposed": (
        lambda x, w: functional.conv_transpose2d(x, w, stride=2), [(4, 8, 8, 8), (8, 8, 3, 3)],
    ),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2), [(4, 8, 16, 16)]),
    "avg_pool2d": (lambda x: functional.avg_pool2d(x, 3, 1, 1), [(4, 8, 16, 16)]),
    "attention": (functional.scaled_dot_product_attention, HEADS),
    "causal attention": (_causal, HEADS),
    "softmax": (lambda x: x.softmax(-1), [(4, 8, 8, 16)]),
    "log_softmax": (lambda x: x.log_softmax(1), [(4, 8, 8, 16)]),
    "layer_norm": (lambda x, w: functional.layer_norm(x, (16,), w), [(4, 8, 8, 16), (16,)]),
    "batch_norm": (
        lambda x, w: functional.batch_norm(x, None, None, w, training=True), [(4, 8, 8, 16), (8,)],
    ),
    "group_norm": (lambda x, w: functional.group_norm(x, 2, w), [(4, 8, 8, 16), (8,)]),
    "linear": (functional.linear, [(8, 32, 32), (32, 32)]),
    "matmul": (torch.matmul, [(4, 32, 64), (4, 64, 64)]),
    "gelu": (functional.gelu, [(4, 8, 8, 16)]),
}  # fmt: skip


def _channels_last(x):
    order = [0, *range(2, x.ndim), 1]
    return x.permute(order).contiguous().permute([order.index(dim) for dim in range(x.ndim)])


LAYOUTS = {
    "in order": lambda x: x,
    "channels last": _channels_last,
    "columns first": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "second first": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "cut out": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_machine_code_and_numpy_agree(name, layout):
    function, shapes = CALLS[name]
    torch.manual_seed(0)
    in_order = [torch.randn(*shape) for shape in shapes]
    given = [LAYOUTS[layout](one) if one.ndim > 1 else one for one in in_order]

    def results(arguments, *, enabled):
        with torch.backends.native.flags(enabled=enabled):
            inputs = [one.detach().requires_grad_() for one in arguments]
            out = function(*inputs)
            return [out, *torch.autograd.grad(out.square().sum(), inputs)]

    expected = results(in_order, enabled=False)
    by_machine, by_numpy = results(given, enabled=True), results(given, enabled=False)
    for one, other, usual in zip(by_machine, by_numpy, expected, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, usual, rtol=1e-3, atol=1e-3, check_stride=False)
        torch.testing.assert_close(other, usual, rtol=1e-3, atol=1e-3, check_stride=False)


def test_asking_for_shapes_alone_makes_no_kernel():
    x, w = torch.randn(4, 8, 11, 13), torch.randn(16, 8, 3, 3)
    native.forget()
    functional.conv2d(x.to("meta"), w.to("meta"))
    assert not native._kernels
    functional.conv2d(x, w)
    assert any(native._kernels.values())
