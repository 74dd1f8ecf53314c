"""Interpolation and padding by their kernel: the host's values and gradients."""

import numpy
import pytest

import pullback as torch
from tests.cuda.test_kernels import library, ran, tolerance  # noqa: F401 (fixtures)

F = torch.nn.functional
CASES = {
    "linear": lambda x: F.interpolate(x[0], size=9, mode="linear"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=(2.5, 1.5), mode="bilinear"),
    "corners": lambda x: F.interpolate(x, size=(3, 11), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"),
    "antialias": lambda x: F.interpolate(x, size=(3, 2), mode="bilinear", antialias=True),
    "nearest": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "trilinear": lambda x: F.interpolate(x[None], size=(2, 9, 3), mode="trilinear"),
    "reflect": lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect"),
    "circular": lambda x: F.pad(x, (2, 1, 3, 0), mode="circular"),
    "replicate": lambda x: F.pad(x, (4, 1, 0, 5), mode="replicate"),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
}


def run(case, values, device, dtype):
    x = torch.tensor(values).to(dtype).to(device).requires_grad_()
    out = CASES[case](x)
    g = torch.tensor(numpy.random.default_rng(1).normal(size=tuple(out.shape)))
    (grad,) = torch.autograd.grad(out, x, g.to(out.dtype).to(device))
    return [one.detach().cpu().double().numpy() for one in (out, grad)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_sums_along_dimensions_are_those_of_the_host(ran, case, dtype):  # noqa: F811
    of = getattr(torch, dtype)
    values = numpy.random.default_rng(0).normal(size=(2, 3, 6, 5))
    values = torch.tensor(values).to(of).double().numpy()
    expected, found = run(case, values, "cpu", torch.float64), run(case, values, "cuda", of)
    for one, other in zip(found, expected, strict=True):
        assert numpy.abs(one - other).max() <= tolerance(dtype) * 20 * numpy.abs(other).max()
    if ran is not None and case in ("bilinear", "bicubic", "reflect"):
        assert "pb_along" in ran


def test_a_row_of_the_table_ends_where_it_has_no_more(ran, library):  # noqa: F811
    # NaN beyond the window of a row must not reach it by way of a weight of 0.
    x = torch.tensor([[[1.0, 2.0, float("nan"), 4.0, 5.0, 6.0, 7.0]]]).cuda()
    made = F.pad(x[:, :, :2], (3, 0), mode="replicate").cpu()
    assert made.tolist() == [[[1.0, 1.0, 1.0, 1.0, 2.0]]]
    (g,) = torch.autograd.grad(
        F.pad(y := x[:, :, :2].clone().requires_grad_(), (3, 0), mode="replicate"),
        y,
        torch.tensor([[[1.0, 2.0, 3.0, 4.0, float("nan")]]]).cuda(),
    )
    assert g.cpu()[0, 0, 0].item() == 10.0
