"""Norms of channels by kernels of their own: the host's values and gradients, in shares or not."""

import numpy
import pytest

import pullback as torch
from pullback.operators.cuda import channels
from tests.cuda.test_kernels import library, ran, tolerance  # noqa: F401 (fixtures)

F = torch.nn.functional
DTYPES = ("float32", "float64", "float16", "bfloat16")
SHAPES = [(4, 6), (3, 6, 5), (2, 6, 3, 4), (5, 6, 30, 31), (2, 6, 2, 3, 4), (3000, 6)]


def batch(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def followed(x, w, b):
    mean, variance = (torch.full_like(w, value).detach() for value in (0.5, 2.0))
    made = F.batch_norm(x, mean, variance, w, b, training=True, momentum=0.3)
    return torch.cat([made.flatten(), mean, variance])


def group(x, w, b):
    return F.group_norm(x, 3, w, b)


def instance(x, w, b):
    return F.instance_norm(x, weight=w, bias=b)


def run(norm, arrays, device, dtype):
    given = [torch.tensor(one).to(dtype).to(device).requires_grad_() for one in arrays]
    out = norm(*given)
    g = torch.tensor(numpy.random.default_rng(1).normal(size=tuple(out.shape)))
    grads = torch.autograd.grad(out, given, g.to(out.dtype).to(device))
    return [one.detach().cpu().double().numpy() for one in (out, *grads)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [batch, followed, group, instance])
@pytest.mark.parametrize("shape", SHAPES)
def test_norms_are_those_of_the_host(ran, norm, shape, dtype):  # noqa: F811
    if norm in (group, instance) and len(shape) < 3:
        pytest.skip("statistics of one or two elements")
    random = numpy.random.default_rng(0)
    arrays = [random.normal(100, 3, shape), random.normal(size=6), random.normal(size=6)]
    half = dtype.endswith("16")
    rounded = [torch.tensor(one).to(getattr(torch, dtype)).double().numpy() for one in arrays]
    expected = run(norm, rounded, "cpu", torch.float64)
    found = run(norm, rounded, "cuda", getattr(torch, dtype))
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, float(numpy.abs(other).max()))
        # Sums of many rounded gradients are as exact as those.
        assert numpy.abs(one - other).max() <= tolerance(dtype) * scale * (4 if half else 20)
    if ran is not None:
        assert "pb_scale" in ran
        assert "pb_back" in ran


@pytest.mark.parametrize("norm", [batch, group, instance])
@pytest.mark.parametrize("share", [2, 7])
def test_shares_of_any_size_are_merged_exactly(library, monkeypatch, norm, share):  # noqa: F811
    monkeypatch.setattr(channels, "_SHARE", share)
    random = numpy.random.default_rng(0)
    arrays = [random.normal(1e6, 1, (3, 6, 4, 5)), random.normal(size=6), random.normal(size=6)]
    expected = run(norm, arrays, "cpu", torch.float64)
    for one, other in zip(run(norm, arrays, "cuda", torch.float64), expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_second_derivatives_agree(library):  # noqa: F811
    def penalty(device):
        x = torch.linspace(-1, 1, 48, dtype=torch.float64).reshape(2, 6, 4).to(device)
        x.requires_grad_()
        w = torch.linspace(1, 2, 6, dtype=torch.float64).to(device).requires_grad_()
        mean, variance = (torch.zeros(6, dtype=torch.float64, device=device) for _ in range(2))
        out = F.batch_norm(x.square(), mean, variance, w, None, training=True)
        (g,) = torch.autograd.grad(out.sin().sum(), x, create_graph=True)
        return [one.cpu().tolist() for one in torch.autograd.grad(g.square().sum(), (x, w))]

    for one, other in zip(penalty("cuda"), penalty("cpu"), strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_a_training_step_of_batch_norm_is_few_launches(ran, library):  # noqa: F811
    if ran is None:
        pytest.skip("a device tells nobody what it runs")
    norm = torch.nn.BatchNorm2d(6).cuda()
    x = torch.randn(4, 6, 5, 5).cuda().requires_grad_()
    made = norm(x)
    made.backward(torch.ones_like(made))
    assert ran == ["pb_moments", "pb_scale", "pb_follow", "pb_sums", "pb_back"]
