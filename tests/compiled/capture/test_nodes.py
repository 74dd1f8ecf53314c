"""Programs of eager kernels give eager's bits where its kernels choose their way by size or value.

Every sample of every operator is in test_all_operators.py; samples are small. Here are the sizes at
which BLAS adds up, layers take all gradients in one pass, and products divide.
"""

import copy

import pytest
from pullback._dynamo import compiled_autograd as module

import pullback as torch
from pullback.compiler import compiled_autograd
from tests.compiled.closeness import assert_same_bits

functional = torch.nn.functional


def bent(x):
    y = x.clone()
    y[:50].mul_(x[:50])
    return y.prod(1)


PROGRAMS = {
    "conv2d": (lambda x, w, b: functional.conv2d(x, w, b, padding=1), (4, 8, 20, 20), (8, 8, 3, 3),
               (8,)),
    "conv_transpose2d": (lambda x, w: functional.conv_transpose2d(x, w, stride=2), (4, 8, 9, 9),
                         (8, 6, 3, 3)),
    "linear": (functional.linear, (16, 20, 100), (60, 100), (60,)),
    "a row added": (lambda a, b: a + b * a, (300, 400), (400,)),
    "a column multiplied": (lambda a, b: a * b, (300, 400), (300, 1)),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (256,), w, b), (300, 256), (256,),
                   (256,)),
    "group_norm": (lambda x, w, b: functional.group_norm(x, 4, w, b), (8, 16, 14, 14), (16,),
                   (16,)),
    "attention": (functional.scaled_dot_product_attention, (2, 4, 64, 32), (2, 4, 64, 32),
                  (2, 4, 64, 32)),
    "cross_entropy": (lambda x: functional.cross_entropy(x, torch.arange(200) % 30), (200, 30)),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2), (4, 8, 28, 28)),
    "prod": (lambda x: x.prod(-1), (200, 30)),
    "cumprod": (lambda x: x.cumprod(-1), (200, 30)),
    "scatter_reduce": (
        lambda x, s: x.scatter_reduce(0, (torch.arange(5000) % 30).reshape(50, 100), s, "prod"),
        (50, 100), (50, 100)),
    "a write to a view": (bent, (100, 30)),
    "used often": (lambda a: a * a + a.sin() * a.cos() + a, (10000,)),
}  # fmt: skip


def drawn(name):
    torch.manual_seed(0)
    function, *shapes = PROGRAMS[name]
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
    return function, tensors, torch.randn_like(function(*tensors).detach())


def result_and_gradients(function, tensors, seed):
    out = function(*tensors)
    return [out, *torch.autograd.grad(out, tensors, seed)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_large_programs_have_eagers_bits(name):
    """K-70: compiled, and with the backward pass captured."""
    function, tensors, seed = drawn(name)
    wanted = result_and_gradients(function, tensors, seed)
    compiled = torch.compile(function, backend="python", fullgraph=True)
    for ours in (result_and_gradients(compiled, tensors, seed) for _ in range(2)):
        for a, b in zip(ours, wanted, strict=True):
            assert_same_bits(a, b)
    module.reset()
    for _ in range(3):
        with compiled_autograd(backend="python", fallback="error"):
            captured = result_and_gradients(function, tensors, seed)
        for a, b in zip(captured, wanted, strict=True):
            assert_same_bits(a, b)


@pytest.mark.parametrize("rows", [(20,), (300,), (8, 7, 7)])
def test_batch_norm_has_eagers_bits_in_its_running_statistics(rows):
    torch.manual_seed(0)
    count, *image = rows
    ours = torch.nn.BatchNorm2d(16) if image else torch.nn.BatchNorm1d(16)
    eager = copy.deepcopy(ours)
    compiled = torch.compile(ours, backend="python", fullgraph=True)
    x = torch.randn(count, 16, *image, requires_grad=True)
    seed = torch.randn_like(x)
    for _ in range(2):
        wanted = torch.autograd.grad(eager(x), [x, *eager.parameters()], seed)
        made = torch.autograd.grad(compiled(x), [x, *ours.parameters()], seed)
        for a, b in zip([*made, *ours.buffers()], [*wanted, *eager.buffers()], strict=True):
            assert_same_bits(a, b)


@pytest.mark.parametrize("name", ["prod", "layer_norm", "a row added", "a write to a view"])
def test_gradients_of_whole_nodes_can_be_differentiated_again(name):
    function, tensors, seed = drawn(name)

    def curved(function):
        first = torch.autograd.grad(function(*tensors), tensors, seed, create_graph=True)
        roots = [one.square().sum() for one in first if one.requires_grad]
        return torch.autograd.grad(roots, tensors[0])[0]

    compiled = torch.compile(function, backend="python", fullgraph=True)
    torch.testing.assert_close(curved(compiled), curved(function), rtol=1e-4, atol=1e-4)


def test_a_loss_has_eagers_bits_whatever_gradient_arrives():
    torch.manual_seed(0)
    x = torch.randn(50, 3, requires_grad=True)
    compiled = torch.compile(lambda x: (x.exp() * x).mean(), backend="python", fullgraph=True)
    for scale in (1.0, 1.5, 0.1):
        (made,) = torch.autograd.grad(compiled(x) * scale, x)
        (wanted,) = torch.autograd.grad((x.exp() * x).mean() * scale, x)
        assert_same_bits(made, wanted)


def test_bits_are_eagers_at_sizes_that_were_never_captured():
    torch.manual_seed(0)
    w = torch.randn(12, requires_grad=True)
    compiled = torch.compile(lambda x, w: (x * w).prod(-1), backend="python", dynamic=True)
    for rows in (5, 7, 300, 2):
        x = torch.randn(rows, 12, requires_grad=True)
        seed = torch.randn(rows)
        made = torch.autograd.grad(compiled(x, w), [x, w], seed)
        wanted = torch.autograd.grad((x * w).prod(-1), [x, w], seed)
        for a, b in zip(made, wanted, strict=True):
            assert_same_bits(a, b)
    assert len(compiled.entries) == 1
