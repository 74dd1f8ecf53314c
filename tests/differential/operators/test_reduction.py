"""Reductions, scans, statistics and sorting, against torch: one expression in both libraries."""

import math
import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

# `T` makes a tensor, `torch` is the library; x floats, i integers, b bools, c complex, e empty, z
# 0-d, n with NaN. Results must agree in dtype, shape and value; errors in type.
EXPRESSIONS = """
x.sum([0, 1]) | x.sum(()) | x.sum((0, 0)) | x.sum(5) | x.sum('a') | x.sum(1.0) | x.sum(0, 1)
z.sum(0) | z.sum(-1) | z.sum(1) | z.sum((0,)) | z.sum((0, -1)) | b.sum() | b.sum(0) | e.sum(0)
i.to(torch.int8).sum() | i.to(torch.int8).sum(dtype=torch.int8) | i.sum(dtype=torch.float32)
b.sum(dtype=torch.bool) | x.sum(dtype=torch.int32) | T([0.5, 0.5]).sum(dtype=torch.int64)
torch.sum(x, dim=0, out=torch.empty(3)) | torch.sum(x, 0, out=torch.empty(2))
torch.sum(i, dim=0, out=torch.empty(3, dtype=torch.float64)) | c.sum(dtype=torch.float32)
i.mean() | b.mean() | i.mean(dtype=torch.float32) | e.mean() | e.mean(0) | c.mean() | x.mean(())
x.mean(dtype=torch.int64) | x.mean((0, 1), keepdim=True) | x.half().mean() | e.mean(1)
x.prod((0, 1)) | i.prod() | b.prod() | e.prod() | e.prod(0) | z.prod(0) | c.prod()
x.prod(dim=0, keepdim=True, dtype=torch.float64) | i.to(torch.int8).prod()
x.amax(()) | e.amax() | e.amax(0) | e.amax(1) | b.amax() | i.amax(0) | c.amax() | z.amax(0)
x.max() | e.max() | e.max(0) | e.max(1) | b.max() | b.max(0) | c.max() | c.max(0) | z.max(0)
x.max((0, 1)) | x.max(0, True) | x.max(2) | x.max(2.0) | torch.max(x, x.flip(0)) | n.max()
n.max(1)
torch.max(x, other=x) | torch.max(x, out=torch.empty(())) | torch.max(x, keepdim=True) | n.min(1)
torch.max(x, 0, out=(torch.empty(3), torch.empty(3, dtype=torch.int64))) | n.min()
torch.aminmax(x) | torch.aminmax(x, dim=0, keepdim=True) | torch.aminmax(x, keepdim=True)
torch.aminmax(z, dim=0) | torch.aminmax(e) | torch.aminmax(e, dim=0) | torch.aminmax(b)
x.argmax() | x.argmax(0) | x.argmax(0, True) | x.argmax(None, True) | e.argmax() | e.argmax(0)
e.argmax(1) | b.argmax() | z.argmax(0) | n.argmax() | n.argmin(1) | T([1., 1.]).argmin()
c.argmax()
x.argmax((0, 1)) | x.argmax(keepdim=True) | T([2, 1, 2]).argmax()
x.all() | i.to(torch.uint8).all() | i.all(0) | c.all() | x.all((0, 1)) | x.all(()) | e.all()
e.any()
x.any(0, True) | x.all(dim=None, keepdim=True) | z.all(0) | i.to(torch.uint8).any(0)
torch.all(x, 0, out=torch.empty(3, dtype=torch.bool)) | e.all(0) | e.any(1)
torch.count_nonzero(x) | torch.count_nonzero(x, (0, 1)) | torch.count_nonzero(x, ())
torch.count_nonzero(c, 0) | torch.count_nonzero(b, -1) | torch.count_nonzero(e, 0)
x.logsumexp((0, 1)) | i.logsumexp(0) | b.logsumexp(0) | e.logsumexp(0) | e.logsumexp(1)
z.logsumexp(0)
T([-inf, -inf]).logsumexp(0) | T([inf, 1.]).logsumexp(0) | T([inf, -inf]).logsumexp(0)
c.logsumexp(0) | x.logsumexp() | x.half().logsumexp(0) | T([1000., 1000.]).logsumexp(0)
n.nansum() | n.nansum(1) | i.nansum() | c.nansum() | n.nanmean() | n.nanmean(1, True) | i.nanmean()
torch.allclose(x, x + 1e-9) | torch.allclose(i, x) | torch.allclose(n, n, equal_nan=True)
torch.equal(i, x) | torch.equal(n, n) | torch.equal(x, x[0]) | x.sum_to_size(1, 3)
x.sum_to_size(3)
x.sum_to_size(2, 1) | x.sum_to_size(3, 1) | z.sum_to_size(())
x.var() | x.var(False) | x.var(0, False) | x.var(0, False, True) | x.var(correction=2)
x.std((0, 1))
x.var(0, correction=0.5) | x.var(correction=None) | x.var(None) | x.var(()) | x.var(keepdim=True)
i.var() | c.var() | c.std(0) | e.var() | e.var(0) | e.var(1) | z.var() | x.var(0, correction=5)
x.var(0, unbiased=True, correction=1) | torch.var_mean(x) | torch.var_mean(c, 0) | x.half().var()
torch.std_mean(x, 0, correction=0) | torch.var(x, 0, out=torch.empty(3)) | b.std()
T([0.1, 0.1, 0.1]).std() | T([1e4 + 1, 1e4, 1e4 + 2]).var()
x.norm() | x.norm('fro', (0, 1)) | x.norm(None) | x.norm(1, 0) | x.norm(dim=0, keepdim=True)
x.norm('x') | x.norm('nuc') | x.norm('nuc', (0, 1), True) | x.norm('nuc', 0) | i.norm()
i.norm(dtype=torch.float64) | x.norm(dtype=torch.float64) | c.norm(1, 0)
e.norm() | e.norm(inf) | e.norm(2, 0) | e.norm(inf, 0) | e.norm(inf, 1) | e.norm(-1) | z.norm(2, 0)
x.norm(dim=()) | torch.norm(x, 2, 0, False, torch.empty(3)) | torch.norm(x, keepdim=True)
x.norm(0, 1)
x.norm(p=-inf) | x.norm(2.5) | torch.norm(c, dtype=torch.complex128)
torch.norm(x, dtype=torch.complex64)
torch.zeros(2, 2, 2).norm('fro', dim=(0, 1, 2)) | x.half().norm() | torch.norm(x, dim=(0, 0))
b.norm()
torch.dist(T([1., 2.]), T([[1.], [2.]])) | torch.dist(i, i)
torch.dist(T([1., 2.]), T([1., 5.]), 0)
torch.renorm(x, 2, 0, 1) | torch.renorm(x[0], 2, 0, 1) | torch.renorm(x, 0, 0, 1)
torch.renorm(x, 2, 5, 1)
torch.renorm(x, 2, -1, -1) | torch.renorm(c, 2, 0, 1) | torch.renorm(x, inf, 0, .5)
torch.renorm(i, 2, 0, 1)
x.cumsum(0) | i.to(torch.int8).cumsum(0) | b.cumsum(0) | x.cumsum() | x.cumsum((0,)) | e.cumsum(0)
z.cumsum(0) | i.to(torch.int8).cumsum(0, dtype=torch.int8) | i.to(torch.int8).cumprod(0)
c.cumprod(1)
x.cumsum(0, dtype=torch.int64) | i.clone().cumsum_(0) | x.clone().cumprod_(1) | x.cumsum(3)
x.cummax(0) | b.cummax(0) | n.cummax(1) | n.cummin(1) | e.cummax(0) | z.cummax(0) | c.cummax(0)
T([1., 3, 3, 2, 3]).cummax(0) | i.logcumsumexp(0) | x.logcumsumexp(0) | c.logcumsumexp(0)
z.logcumsumexp(0) | x.half().logcumsumexp(0) | T([-inf, 1., inf]).logcumsumexp(0)
x.diff() | x.diff(2) | x.diff(0) | x.diff(n=4) | x.diff(-1) | b.diff() | i.diff() | z.diff()
x.diff(dim=0, prepend=x[:1], append=x) | x.diff(prepend=i[:, :1]) | torch.diff(x, prepend=z)
torch.trapezoid(x) | torch.trapezoid(x, x) | torch.trapezoid(x, dx=2.) | torch.trapezoid(i)
torch.trapezoid(x, T([0., 1., 3.])) | torch.trapezoid(x, T([0., 1.]), dim=0) | torch.trapezoid(b)
torch.trapezoid(z) | torch.trapezoid(x, T([0., 1.])) | torch.trapezoid(x[:, :1])
torch.trapezoid(x, x, dx=2)
torch.cumulative_trapezoid(x, dim=0) | torch.cumulative_trapezoid(i) | torch.trapezoid(c, dx=1j)
torch.cumulative_trapezoid(x, T([0., 1., 3.])) | torch.cumulative_trapezoid(x[:, :1])
torch.trapz(x, dx=3)
torch.gradient(x) | torch.gradient(x, spacing=2.) | torch.gradient(x, dim=0)
torch.gradient(x, dim=(1, 0))
torch.gradient(x, spacing=(2., 3.)) | torch.gradient(x, spacing=(T([0., 1., 3.]),), dim=1)
torch.gradient(i)
torch.gradient(x, edge_order=2, dim=1) | torch.gradient(x, edge_order=2)
torch.gradient(x, edge_order=3)
torch.gradient(x, spacing=T([0., 1.])) | torch.gradient(x, spacing=(2.,), dim=(0, 1))
torch.gradient(z)
torch.gradient(x, spacing=(T([0., 1., 3.]),), dim=1, edge_order=2) | torch.gradient(x, dim=(0, 0))
x.sort() | x.sort(descending=True) | n.sort(0, True) | torch.sort(x, dim=0, stable=True) | b.sort()
T([1, 1, 0, 1, 0]).sort(stable=True) | T([1, 1, 0, 1, 0]).sort(descending=True, stable=True)
c.sort()
z.sort() | e.sort() | x.sort(2) | n.argsort() | n.argsort(0, True) | torch.msort(n)
torch.sort(x, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))
n.topk(2) | n.topk(2, largest=False) | n.topk(2, 0) | x.topk(5) | x.topk(0) | z.topk(1) | z.topk(2)
b.topk(1) | torch.topk(x, -1) | c.topk(1) | e.topk(0, 0)
n.kthvalue(1) | n.kthvalue(3) | n.kthvalue(2, 0, True) | x.kthvalue(4) | z.kthvalue(1)
x.kthvalue(0)
e.kthvalue(1) | e.kthvalue(1, 1) | x.half().kthvalue(2)
n.median() | n.median(1, True) | n.nanmedian() | n.nanmedian(1) | i.median() | b.median()
e.median()
e.median(0) | e.median(1) | z.median() | z.median(0) | x.median(keepdim=True)
n.mode() | T([1, 2, 2, 1, 3]).mode() | T([1, 2, 2, 1, 3.]).mode(0, True) | z.mode() | e.mode()
b.mode()
T([[1, 1, 2], [2, 2, 1]]).mode(0) | T([3, 3, 2, 2]).mode() | c.mode()
x.quantile(.5) | i.quantile(.5) | n.quantile(T([.1, .2])) | x.quantile(T([.1, .2]), dim=1)
x.quantile(T([.1, .2]), dim=1, keepdim=True) | x.quantile(T([.1, .2]), keepdim=True)
x.quantile(2.)
x.quantile(T([[.1]])) | x.double().quantile(T(.1)) | e.quantile(.5, dim=1)
n.nanquantile(.5, dim=1)
x.quantile(.5, interpolation='foo') | x.quantile(.3, dim=1, interpolation='lower')
x.half().quantile(.5)
x.quantile(.3, 1, interpolation='higher') | x.quantile(.3, 1, interpolation='midpoint')
z.quantile(.5, 0)
x.quantile(.3, 1, interpolation='nearest') | n.nanquantile(T([.1, .5]))
T([nan, nan]).nanquantile(.5)
x.histc(3) | x.histc(3, 1, 4) | i.histc(3) | n.histc(3) | n.histc(3, 0, 5) | e.histc(2) | x.histc(0)
x.histc(3, 4, 1) | T([1., 1.]).histc(3) | x.histc() | c.histc()
torch.histogram(x, 3) | torch.histogram(x, 3, range=(1., 4.)) | torch.histogram(x, 3, density=True)
torch.histogram(x, T([0., 2., 5.])) | torch.histogram(x, T([0., 2., 5.]), weight=x)
torch.histogram(i, 3)
torch.histogram(e, 2) | torch.histogram(T([1., 1.]), 2) | torch.histogram(n, 2)
torch.histogram(x, 0)
torch.histogram(x.double(), T([0., 2., 5.])) | torch.histogram(x, 2, range=(3., 1.))
torch.histogramdd(x.reshape(3, 2), [2, 2]).hist | torch.histogramdd(x.reshape(3, 2), 2).bin_edges
torch.histogramdd(x.reshape(3, 2), [T([0., 2, 4]), T([1., 3, 5])]).hist
torch.histogramdd(x, [2]).hist
torch.histogramdd(x.reshape(3, 2), 2, density=True, weight=T([1., 2, 3])).hist
T([1, 1, 3]).bincount() | T([1, 1, 3]).bincount(minlength=6) | T([1, 1, 3]).bincount(T([1., 2, 3]))
T([1, 1, 3]).bincount(T([1, 2, 3])) | T([1, -1]).bincount() | T([1.]).bincount() | i.bincount()
T([1, 1, 3]).bincount(T([1., 2])) | T([1]).bincount(minlength=-1)
T([1, 1, 3]).bincount(T([1., 2, 3]).half())
torch.hash_tensor(T([1., 2, 3])).to(torch.int64) | torch.hash_tensor(i, 0).to(torch.int64)
torch.hash_tensor(e) | torch.hash_tensor(x, mode=1)
torch.cov(x) | torch.cov(i) | torch.cov(x, correction=0) | torch.cov(x, fweights=T([1, 2, 3]))
torch.cov(x, aweights=T([1., 2, 3])) | torch.cov(x, fweights=T([1, 2, 3]), aweights=T([1., 2, 3]))
torch.cov(z) | torch.cov(x[0]) | torch.cov(torch.zeros(2, 2, 2)) | torch.cov(e) | torch.cov(b)
torch.cov(x[0], fweights=T([1., 2, 3])) | torch.cov(x[0], fweights=T([1, 2]))
torch.cov(x[0], aweights=T([1., -2, 3])) | torch.corrcoef(x) | torch.corrcoef(x[0])
torch.corrcoef(c)
torch.searchsorted(T([1, 3, 5]), T([1, 2, 6]))
torch.searchsorted(T([1, 3, 5]), T([1, 3]), right=True)
torch.searchsorted(T([1, 3, 5]), 3) | torch.searchsorted(T([[1, 3, 5], [0, 2, 4]]), T([[1], [3]]))
torch.searchsorted(T([1., 3, 5]), 2.5, side='right')
torch.searchsorted(T([1, 3]), 2, out_int32=True)
torch.searchsorted(T([5, 1, 3]), T([2]), sorter=T([1, 2, 0])) | torch.searchsorted(T([[1, 3]]), 2)
torch.searchsorted(T([1, 3]), 2, right=True, side='left')
torch.searchsorted(T([1, 3]), 2, side='x')
torch.searchsorted(T([[1, 3, 5], [0, 2, 4]]), T([[1]])) | torch.searchsorted(z, z)
torch.bucketize(T([1, 2, 6]), T([1, 3, 5])) | torch.bucketize(2, T([1, 3, 5]))
torch.bucketize(z, x)
torch.isin(i, T([2, 5])) | torch.isin(i, 2) | torch.isin(2, i) | torch.isin(i, T([2]), invert=True)
torch.isin(T([1., nan]), T([nan])) | torch.isin(1, 2) | torch.isin(b, T([True]))
torch.isin(i, T([2.]))
T([3, 1, 3]).unique() | T([[3, 1], [3, 1]]).unique(True, True, True) | T([nan, nan, 1.]).unique()
T([[3, 1], [3, 1], [1, 2]]).unique(dim=0, return_inverse=True, return_counts=True) | e.unique(dim=0)
T([[3, 1, 3], [3, 1, 3]]).unique(dim=1) | e.unique(dim=1) | z.unique(dim=0) | c.unique()
b.unique()
e.unique(return_inverse=True) | z.unique(return_inverse=True, return_counts=True)
T([3, 3, 1, 1, 3]).unique_consecutive(return_inverse=True, return_counts=True)
z.unique_consecutive(dim=0)
T([[3, 3], [3, 3], [1, 1]]).unique_consecutive(dim=0, return_inverse=True, return_counts=True)
torch.segment_reduce(x[0], 'max', lengths=T([2, 0, 1]))
torch.segment_reduce(x[0], 'sum', offsets=T([0, 2, 3]))
torch.segment_reduce(x[0], 'mean', lengths=T([2, 0, 1]), initial=1)
torch.segment_reduce(x[0], 'sum')
torch.segment_reduce(x, 'prod', lengths=T([[1, 2], [3, 0]]), axis=1)
torch.segment_reduce(x[0], 'min', lengths=T([1]))
x.sum(None) | x.sum(keepdim=True) | x.mean(keepdim=True) | x.mean(None, True)
x.prod(None) | x.prod(keepdim=True) | x.max(None) | x.min(dim=None) | x.max(None, True)
x.median(None) | x.nanmedian(None) | x.median(0, 1) | x.nanmedian(axis=1, keepdims=True)
x.amax(0, 1) | x.amin(None) | x.argmax(0, 1) | x.all(0, 1) | x.any(0, 1) | x.nansum(0, 1)
x.logsumexp(0, 1) | x.sort(0, 1) | x.argsort(0, 1) | x.sort(axis=0) | x.topk(2, axis=0)
x.topk('a') | x.topk(1.5) | x.topk(T(2)) | x.kthvalue('a') | x.kthvalue(2, axis=0, keepdims=True)
x.mode(axis=0) | x.mode(0, 1) | x.cummax(axis=0) | x.cummin(axis=1) | x.cummax()
x.quantile(.5, 0, 1)
torch.aminmax(x, axis=0) | x.var(0, 1) | x.std(0, 1) | torch.var_mean(x, 0, 1) | x.var(axis=0)
x.var(0, keepdim=1) | torch.std_mean(x, axis=1, keepdims=True) | x.std(axis=(0, 1), correction=0)
torch.norm(x.double(), dtype=torch.float32) | torch.norm(x, dtype=torch.int64) | torch.dist(x, 1)
torch.norm(x.half(), dtype=torch.bfloat16) | torch.nanmean(3.0) | torch.diff(3.0) | x.diff('a')
x.unique(0) | x.unique(True, 1) | x.unique_consecutive(0) | torch.unique(3.0)
T([2., nan, 2., nan, 0.]).unique(True, True, True) | T([-0., 0., 1.]).unique(return_counts=True)
n.half().unique() | n.to(torch.bfloat16).median(1)[0].float()
n.to(torch.bfloat16).topk(2)[1] | n.to(torch.bfloat16).kthvalue(2)[1]
T([5e3, 6e3, 4e3, 8e3]).half().std() | torch.std_mean(T([5e3, 6e3, 4e3, 8e3]).half())
n.half().topk(2) | torch.renorm(x.half(), 2, 0, 1)
T([[inf, -inf], [1., inf]]).sum(1) | T([[inf, -inf], [1., inf]]).sum(0) | T([inf, nan]).mean()
T([[inf, 1.], [-inf, -inf]]).logsumexp(1) | T([[1e30, 1.], [2., 3.]]).logsumexp(1)
"""
EXPRESSIONS = [
    one.strip() for line in EXPRESSIONS.strip().splitlines() for one in line.split(" | ")
]


def names_of(library):
    x = library.arange(6.0).reshape(2, 3)
    return {
        "torch": library,
        "T": library.tensor,
        "x": x,
        "i": library.arange(6).reshape(2, 3),
        "b": library.arange(6).reshape(2, 3) > 2,
        "c": x + 1j,
        "e": library.empty(0, 3),
        "z": library.tensor(3.0),
        "n": library.tensor([[3.0, 1.0, 2.0], [5.0, math.nan, 4.0]]),
        "inf": math.inf,
        "nan": math.nan,
    }


def outcome(library, expression):
    """The result as arrays, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(expression, names_of(library))
        except Exception as error:
            return error
    parts = result if isinstance(result, tuple) else (result,)
    return [part.numpy() if hasattr(part, "numpy") else part for part in parts]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_has_the_same_outcome(expression):
    ours, theirs = outcome(pullback, expression), outcome(torch, expression)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), ours
        return
    assert not isinstance(ours, Exception), repr(ours)
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, numpy.ndarray):
            assert one == other
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        numpy.testing.assert_allclose(one, other, rtol=1e-3 if other.dtype == "float16" else 2e-6)


# Gradients of the first two orders, where there is a convention to agree on. `x` holds the values.
CONVENTIONS = """
[1, 3, 3] : x.max() | x.max(0)[0] | x.amax() | torch.aminmax(x)[1] | x.median() | x.cummax(0)[0]
[1, 1, 3] : x.min() | x.min(0)[0] | x.amin() | torch.aminmax(x)[0] | x.nanmedian() | x.cummin(0)[0]
[1, nan, nan] : x.max() | x.amax() | x.min() | x.nansum() | x.nanmean() | x.median() | x.nanmedian()
[0, 2, 3] : x.prod() | x.prod(0) | x.cumprod(0) | x.norm(1) | x.norm(3) | x.norm(-1)
[0, 0, 3] : x.prod() | x.cumprod(0)
[1, 0, 3, 0, 2] : x.prod() | x.cumprod(0)
[2, -2, 1] : x.norm(inf) | x.norm(-inf) | x.norm(0) | x.norm(.5) | x.norm(1.5) | x.norm(2)
[1, 1] : x.std() | x.std(correction=0) | x.var()
[-inf, 1] : x.logsumexp(0)
[-inf, -inf] : x.logsumexp(0)
[3, 1, 2] : x.sort()[0] | x.topk(2)[0] | x.kthvalue(2)[0] | x.median(0)[0] | x.quantile(.3)
[3, 1, 2] : x.msort()
[3, 1, 2, 2] : x.mode()[0] | x.quantile(.4, interpolation='midpoint') | x.nanquantile(.6)
[3, 1, 2, 2] : x.logcumsumexp(0)
"""
CONVENTIONS = [
    (values.strip(), expression.strip())
    for line in CONVENTIONS.strip().splitlines()
    for values, _, expressions in [line.partition(" : ")]
    for expression in expressions.split(" | ")
]


def derivatives(library, values, expression):
    """Gradient and gradient of the gradient, or None where there is none."""
    names = {"torch": library, "inf": math.inf, "nan": math.nan}
    x = library.tensor(eval(values, names), dtype=library.float64, requires_grad=True)
    y = eval(expression, {**names, "x": x})
    weights = library.arange(1.0, 1 + y.numel(), dtype=library.float64).reshape(y.shape)
    (first,) = library.autograd.grad(y, x, weights, create_graph=True, allow_unused=True)
    if first is None or not first.requires_grad:
        return first, None
    weights = library.arange(2.0, 2 + len(x), dtype=library.float64)
    return first, library.autograd.grad(first, x, weights, allow_unused=True)[0]


@pytest.mark.parametrize(("values", "expression"), CONVENTIONS)
def test_gradient_follows_the_same_convention(values, expression):
    ours, theirs = (derivatives(one, values, expression) for one in (pullback, torch))
    for one, other in zip(ours, theirs, strict=True):
        # No gradient and a gradient of zeros are the same to a user.
        one, other = (0.0 if g is None else (g.detach() + 0).numpy() for g in (one, other))
        numpy.testing.assert_allclose(*numpy.broadcast_arrays(one, other), rtol=1e-9, atol=1e-12)


# Large arrays take other ways through the kernels.
LARGE = """
x.sum(0) | x.sum(1) | x.sum((0, 1)) | x.sum((1, 2), True) | x.mean(0) | x.var(0) | x.var(2)
x.std()
x.var((1, 2)) | x.norm() | x.norm(dim=0) | x.norm(dim=(1, 2)) | x.logsumexp(0) | x.logsumexp(2)
x.max(0).values | x.max(1).values | x.min(2).values | x.cumsum(1) | x.sort(0).values
x.topk(3).values
x.prod(2) | x.cumprod(2) | x.median(1).values | x.logcumsumexp(1) | x.amax((0, 2)) | x.argmax(1)
x.transpose(0, 2).sum(0) | x.transpose(0, 1).logsumexp(2) | x.argsort(1)
x.round().sort(dim=1, stable=True)[1]
"""
LARGE = [one.strip() for line in LARGE.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("expression", LARGE)
def test_large_arrays_give_the_same_values_and_gradients(expression):
    data = numpy.random.default_rng(0).standard_normal((7, 1031, 6)).astype("float32")
    results = []
    for library in (pullback, torch):
        x = library.tensor(data, requires_grad=True)
        y = eval(expression, {"x": x})
        results.append([y.detach().numpy()])
        if y.requires_grad:
            (g,) = library.autograd.grad((y * y).sum(), x)
            results[-1].append(g.numpy())
    for one, other in zip(*results, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4 * abs(other).max())
