"""NumPy's functions on tensors: values as on arrays, gradients, and words about the rest."""

import re

import numpy as np
import pytest
from pullback._array_function import TABLE

import pullback as torch
from pullback.autograd import gradcheck

# `f` and `g` are matrices, `v` a vector, `t` has three dimensions, `s` is symmetric, `c` complex,
# `n` has NaN.
CALLS = """
    concatenate([f,g]) concatenate((f,v),axis=None) concatenate([f,w],axis=1)
    stack([f,g],axis=1) vstack([v,f]) hstack([f,g]) dstack([f,g]) column_stack([v,v])
    append(f,v) append(f,g,axis=0) split(f,2,axis=1) array_split(v,3) split(v,[1,3]) hsplit(f,2)
    vsplit(t,2) dsplit(t,2) unstack(f,axis=1) tile(v,3) tile(f,(2,2)) repeat(f,2)
    repeat(v,[1,0,2,1]) pad(f,1) pad(f,((1,2),(0,3)),constant_values=2.0)
    pad(v,2,mode="reflect") pad(f,1,mode="edge") pad(f,2,mode="wrap")
    pad(f,(2,1),mode="symmetric") meshgrid(v,v[:2]) meshgrid(v,v,indexing="ij")
    broadcast_arrays(f,v) atleast_1d(v) atleast_2d(v,f) atleast_3d(f) reshape(f,(4,3))
    reshape(f,-1) ravel(f) transpose(f) transpose(t,(2,0,1)) matrix_transpose(t)
    linalg.matrix_transpose(f) swapaxes(t,0,2) moveaxis(t,0,-1) expand_dims(f,1)
    expand_dims(v,(0,2)) squeeze(f[None]) squeeze(f[None],0) broadcast_to(v,(2,4)) flip(f)
    flip(f,1) fliplr(f) flipud(f) rot90(f) roll(f,2) roll(f,1,axis=0) tril(f) triu(f,1) diag(v)
    diag(f,1) diagflat(v) diagonal(f) diagonal(t,0,1,2) linalg.diagonal(t) copy(f)
    astype(f,np.complex128) zeros_like(f) ones_like(f) full_like(f,2.0) shape(f) ndim(f) size(f)
    size(f,1) sum(f) sum(f,0) sum(f,axis=(0,1),keepdims=True) sum(f,dtype=np.complex128) prod(f)
    prod(f,axis=1) mean(f) mean(t,axis=(0,2)) mean(f,axis=0,keepdims=True) var(f)
    var(f,axis=0,ddof=1) std(f,axis=1) std(f,correction=1) average(f)
    average(f,weights=g*g,axis=1) average(f,axis=1,weights=np.arange(4.0)) max(f) max(f,axis=1)
    amax(f,0) min(f) amin(f,axis=1) ptp(f,axis=0) all(f) any(f,axis=0) count_nonzero(f)
    nansum(f,axis=0) nanmean(f) nansum(n) nanmean(n,axis=0) nanprod(n,axis=1) nanmax(n)
    nanmin(n,axis=1) nanvar(n) nanstd(n,axis=1,ddof=1) nancumsum(n,axis=1) nancumprod(n,axis=0)
    nanmedian(n,axis=1) nanmedian(n,keepdims=True) cumsum(f) cumsum(f,axis=1) cumprod(f,axis=0)
    cumulative_sum(f,axis=0,include_initial=True) cumulative_prod(v) diff(f) diff(v,n=2)
    diff(f,axis=0,prepend=0.0) diff(v,append=v[:1]) quantile(f,0.3) quantile(f,[0.2,0.7],axis=1)
    quantile(f,0.4,method="lower") percentile(f,30) median(v) median(f,axis=0,keepdims=True)
    trapezoid(v) trapezoid(f,v,axis=1) trapezoid(f,dx=0.5,axis=0) cov(f)
    cov(f,rowvar=False,bias=True) corrcoef(f) where(f>0,f,g) where(m,f,0.0) where(f>0)
    clip(f,-0.5,0.5) clip(f,None,0.2) clip(f,min=0.1) clip(f,g-1,g+1) round(f,1) around(f)
    fix(f) real(c) imag(c) imag(f) angle(c) angle(c,deg=True) sinc(f) i0(f) nan_to_num(f)
    isclose(f,g) allclose(f,f) array_equal(f,f) array_equal(f,v) take(f,[0,-1],axis=1)
    take(f,[[0,5],[2,1]]) take_along_axis(f,np.argsort(w,axis=1),axis=1)
    compress([1,0,1],f,axis=0) sort(f) sort(f,axis=0) sort(f,axis=None) argsort(f,axis=0)
    argmax(f) argmax(f,axis=1) argmin(f,axis=0,keepdims=True) nonzero(f) flatnonzero(f)
    argwhere(f) searchsorted(np.sort(w[0]),f) unique_values(f) dot(f,v) dot(v,v) dot(f,2.0)
    dot(f,t[0].T) dot(v,t.swapaxes(1,2)) vdot(c,c) inner(v,v) inner(f,g) outer(v,v)
    linalg.outer(v,v) linalg.matmul(f,f.T) tensordot(f,g) tensordot(f,g,axes=(1,1))
    tensordot(f,t,axes=([0,1],[1,2])) linalg.tensordot(f,g.T,axes=1) linalg.vecdot(f,g)
    kron(f,g) cross(f[:,:3],g[:,:3]) linalg.cross(f[:,:3],g[:,:3]) einsum("ij,kj->ik",f,g)
    einsum("ij,j",f,w[0]) trace(f) trace(t,axis1=1,axis2=2) linalg.trace(f) linalg.solve(s,f)
    linalg.solve(s,v[:3]) linalg.inv(s) linalg.pinv(f) linalg.det(s) linalg.slogdet(s)
    linalg.cholesky(s) linalg.cholesky(s,upper=True) linalg.svdvals(f)
    linalg.svd(f,compute_uv=False) linalg.eigvalsh(s) linalg.norm(f) linalg.norm(f,axis=1)
    linalg.norm(f,1,(0,1)) linalg.vector_norm(f,axis=0) linalg.matrix_norm(f)
    linalg.matrix_power(s,2) linalg.matrix_rank(s) linalg.multi_dot([f,f.T,f]) linalg.cond(s)
    linalg.lstsq(f.T,v)[0] linalg.lstsq(f.T,v)[1] linalg.tensorsolve(s,v[:3])
    linalg.tensorinv(s,1) fft.fft(f) fft.ifft(c) fft.fft(f,n=3,axis=0,norm="ortho") fft.rfft(f)
    fft.irfft(c) fft.irfft(c,5) fft.hfft(c) fft.ihfft(f) fft.fft2(f) fft.ifft2(c) fft.rfft2(f)
    fft.irfft2(c) fft.fftn(f) fft.ifftn(c) fft.rfftn(f) fft.irfftn(c) fft.fftshift(f)
    fft.ifftshift(f,axes=0)
"""
# Their values are held to NumPy's up to signs or order, below.
DECOMPOSITIONS = """
    linalg.qr(f) linalg.qr(f,mode="r") linalg.svd(f,full_matrices=False) linalg.eigh(s)
    linalg.eig(s) linalg.eigvals(s) empty_like(f)
"""
FLAT = {"zeros_like", "ones_like", "full_like", "round", "around", "fix", "imag"}
NAMES = "fgvtscn"


def arrays():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((3, 3))
    holes = rng.standard_normal((3, 4))
    holes[[0, 1, 2], [2, 0, 1]] = np.nan
    return {
        "f": rng.standard_normal((3, 4)),
        "g": rng.standard_normal((3, 4)),
        "w": rng.standard_normal((3, 4)),
        "m": rng.integers(0, 2, (3, 4)).astype(bool),
        "n": holes,
        "v": rng.standard_normal(4),
        "t": rng.standard_normal((2, 3, 4)),
        "s": root @ root.T + 3 * np.eye(3),
        "c": rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4)),
    }


def run(call, operands):
    return eval(f"np.{call}", {"np": np, **operands})


def parts(result):
    several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
    return list(result) if several else [result]


def inputs_of(call):
    inside = call.partition("(")[2]
    return [one for one in NAMES if re.search(rf"(?<![\w.]){one}(?!\w)", inside)]


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("call", CALLS.split())
def test_values_are_those_of_arrays_and_gradients_their_slopes(call):
    given, names = arrays(), inputs_of(call)
    leaves = tuple(torch.tensor(given[name], requires_grad=True) for name in names)

    def function(*tensors):
        operands = {**given, **dict(zip(names, tensors, strict=True))}
        if "s" in names:
            operands["s"] = (operands["s"] + operands["s"].T) / 2
        return parts(run(call, operands))

    ours, theirs = function(*leaves), parts(run(call, given))
    for one, other in zip(ours, theirs, strict=True):
        value = one.detach().resolve_conj().numpy() if isinstance(one, torch.Tensor) else one
        np.testing.assert_allclose(value, other, rtol=1e-10, atol=1e-12)
        if isinstance(one, torch.Tensor):
            assert value.dtype == np.asarray(other).dtype
    smooth = [one for one in ours if isinstance(one, torch.Tensor) and one.requires_grad]
    if (call.partition("(")[0] in FLAT and "(c" not in call) or not any(
        isinstance(one, torch.Tensor) and one.dtype.is_differentiable for one in ours
    ):
        return
    assert smooth
    assert gradcheck(lambda *x: tuple(one for one in function(*x) if one.requires_grad), leaves)


@pytest.mark.parametrize("call", DECOMPOSITIONS.split())
def test_decompositions_record(call):
    given = arrays()
    name = inputs_of(call)[0]
    leaf = torch.tensor(given[name], requires_grad=True)
    ours, theirs = parts(run(call, {name: leaf})), parts(run(call, given))
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert one.requires_grad == (not call.startswith("empty"))
        if "empty" not in call:
            sizes = np.sort(np.abs(one.detach().numpy()), None), np.sort(np.abs(other), None)
            np.testing.assert_allclose(*sizes, rtol=1e-9, atol=1e-12)


def test_every_function_of_the_table_is_called():
    spaces = {"": np, "linalg.": np.linalg, "fft.": np.fft}
    called = re.findall(r"\s(linalg\.|fft\.|)(\w+)\(", CALLS + DECOMPOSITIONS)
    assert set(TABLE) <= {getattr(spaces[space], name) for space, name in called}


def test_what_needs_no_gradient_gives_what_it_gives_in_torch():
    x = torch.ones(2)
    assert type(np.concatenate([x, x])) is np.ndarray
    assert type(np.linalg.norm(x)) is np.float32
    assert isinstance(np.sum(x), torch.Tensor)
    assert type(np.histogram(x)[0]) is np.ndarray
    y = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert type(np.stack([y, y])) is np.ndarray
    assert np.asarray(x).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(y)


def test_arrays_and_numbers_go_with_tensors():
    y = torch.ones(2, requires_grad=True)
    joined = np.concatenate([np.zeros(1, np.float32), y, [3.0]])
    joined.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    assert joined.tolist() == [0.0, 1.0, 1.0, 3.0]


@pytest.mark.parametrize(
    "call", ["histogram(y)", "interp(y, [0, 1], [0, 1])", "unwrap(y)", "bincount(y)"]
)
def test_a_function_that_is_not_covered_says_so(call):
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="not among those that work on tensors"):
        run(call, {"y": y})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("sum(y, where=[True, False])", "where"),
        ("concatenate([y, y], out=np.empty(4))", "out"),
        ("pad(y, 1, mode='mean')", "mode"),
        ("einsum(y, [0], y, [0])", "string"),
        ("sum(y, initial=3.0)", "initial"),
    ],
)
def test_an_option_that_is_not_covered_says_so(call, words):
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=words):
        run(call, {"y": y})


def test_transforms_go_through_numpys_functions():
    def energy(x):
        return np.sum(np.concatenate([x, np.sin(x)]) ** 2)

    x = torch.tensor([0.3, 0.5], dtype=torch.float64)
    expected = 2 * x + torch.sin(2 * x)
    assert torch.allclose(torch.func.grad(energy)(x), expected)
    both = torch.stack([x, 2 * x])
    assert torch.vmap(energy)(both).shape == (2,)
    assert torch.allclose(torch.vmap(torch.func.grad(energy))(both)[0], expected)
    assert torch.allclose(torch.func.jvp(energy, (x,), (torch.ones_like(x),))[1], expected.sum())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        tangent = torch.autograd.forward_ad.unpack_dual(energy(dual)).tangent
    assert torch.allclose(tangent, expected.sum())
    assert np.concatenate([torch.ones(2, device="meta")] * 2).shape == (4,)


def test_another_class_that_knows_tensors_is_asked():
    class Quantity:
        def __array_function__(self, function, types, args, kwargs):
            return "mine"

    y = torch.ones(2, requires_grad=True)
    assert np.concatenate([y, Quantity()]) == "mine"
    assert torch.ones(2).__array_function__(np.sum, (Quantity,), (y,), {}) is NotImplemented
