"""SciPy's functions for arrays of any library (SCIPY_ARRAY_API=1): tensors in, tensors out."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"

import torch
from scipy import cluster, fft, integrate, interpolate, ndimage, signal, special, stats
from scipy.optimize import elementwise

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def show(name, value):
    for one in value if isinstance(value, tuple) else (value,):
        assert isinstance(one, torch.Tensor), (name, type(one))
        flat = torch.view_as_real(one) if one.is_complex() else one
        numbers = [round(number, 4) for number in flat.double().flatten()[:4].tolist()]
        print(name, tuple(one.shape), one.dtype, numbers)


x = torch.linspace(0.1, 2, 8)
grid = torch.arange(12.0).reshape(3, 4)

show("fft", fft.fft(x))
show("rfft", fft.irfft(fft.rfft(x), n=8))
show("fftn", fft.fftn(grid))
show("fftshift", fft.fftshift(fft.fftfreq(8, xp=torch)))

show("gammaln", special.gammaln(x))
show("erf", special.erf(x))
show("logsumexp", special.logsumexp(grid, axis=1))
show("softmax", special.softmax(grid, axis=0))
show("expit", special.expit(x))
show("xlogy", special.xlogy(x, x))
show("betainc", special.betainc(x, x, torch.full((8,), 0.5)))
show("chdtr", special.chdtr(x, x))

show("zscore", stats.zscore(x))
show("skew", stats.skew(grid, axis=1))
show("kurtosis", stats.kurtosis(grid, axis=1))
show("moment", stats.moment(x, order=3))
show("gmean", stats.gmean(grid + 1, axis=0))
show("entropy", stats.entropy(x))
show("variation", stats.variation(x))
tested = stats.ttest_1samp(x, 1.0)
show("ttest", (tested.statistic, tested.pvalue))
related = stats.pearsonr(x, x**2 + torch.sin(5 * x))
show("pearsonr", (related.statistic, related.pvalue))
show("rankdata", stats.rankdata(torch.tensor([3.0, 1.0, 3.0, 2.0])))

show("hilbert", signal.hilbert(x))
show("detrend", signal.detrend(x**2))
show("convolve", signal.convolve(x, torch.ones(3)))
show("fftconvolve", signal.fftconvolve(x, torch.tensor([0.5, 0.5]), mode="same"))
show("hann", signal.windows.hann(5, xp=torch))

show("gaussian_filter", ndimage.gaussian_filter(grid, 1.0))
show("sobel", ndimage.sobel(grid))
show("label", ndimage.label(grid > 5)[0])

show("trapezoid", integrate.trapezoid(x**2, x))
show("cumulative", integrate.cumulative_simpson(x**2, x=x))
show("cubature", integrate.cubature(lambda t: t**2, torch.zeros(1), torch.ones(1)).estimate)

found = elementwise.find_root(lambda t: t**3 - 2, (torch.zeros(3), torch.full((3,), 2.0)))
show("find_root", found.x)
least = elementwise.find_minimum(
    lambda t: (t - 0.3) ** 2, (torch.tensor([-1.0]), torch.tensor([0.0]), torch.tensor([2.0]))
)
show("find_minimum", least.x)
show("interpolated", interpolate.make_interp_spline(x, x**2, k=3)(torch.tensor([0.5, 1.0])))
show("akima", interpolate.Akima1DInterpolator(x, x**2)(torch.tensor([0.5, 1.0])))
nearby = interpolate.RBFInterpolator(grid[:, :2] ** 2 % 7, grid[:, 2])
show("rbf", nearby(torch.ones(2, 2)))
points = torch.cat([torch.randn(6, 2), torch.randn(6, 2) + 9])
show("whiten", cluster.vq.whiten(points))
show("linkage", cluster.hierarchy.linkage(points)[:, 2])


def slope(name, function, at):
    """The gradient that flows through SciPy's own array code."""
    x = at.clone().requires_grad_()
    value = function(x)
    value = torch.view_as_real(value) if value.is_complex() else value
    (value**2).sum().backward()
    show(f"slope of {name}", x.grad)


slope("logsumexp", lambda t: special.logsumexp(t, axis=1), grid)
slope("softmax", lambda t: special.softmax(t, axis=0), grid)
slope("fft", fft.fft, x)
slope("fftn", fft.fftn, grid)
slope("zscore", lambda t: stats.zscore(t) * x, x**2)
slope("moment", lambda t: stats.moment(t, order=3), x)
slope("gmean", lambda t: stats.gmean(t + 1, axis=0), grid)
slope("variation", stats.variation, x)
slope("trapezoid", lambda t: integrate.trapezoid(t**2, t), x)
slope("hilbert", signal.hilbert, x)
slope("fftconvolve", lambda t: signal.fftconvolve(t, torch.tensor([0.5, 0.5]), mode="same"), x)
