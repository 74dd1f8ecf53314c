"""Calls of the standard's functions as text, to be run on any namespace of the standard.

`f`, `g` and `h` are matrices of floats, `v` a vector, `t` has three dimensions; `i`, `j` and `u`
are integers, `b` bools, `c` complex numbers, `s` a symmetric positive definite matrix, `z` numbers
with NaN, infinities and signed zeros.
"""

import itertools

import numpy

UNARY_REAL = """
    abs acos asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log
    log1p log2 log10 negative positive real reciprocal round sign signbit sin sinh square sqrt
    tan tanh trunc
"""
UNARY_COMPLEX = """
    abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag isfinite isinf isnan log
    log1p log2 log10 negative positive real reciprocal round sign sin sinh square sqrt tan tanh
"""
UNARY_INTEGER = """
    abs bitwise_invert ceil floor isfinite isinf isnan negative positive round sign square trunc
"""
BINARY_REAL = """
    add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract
"""
BINARY_COMPLEX = """
    add divide equal multiply not_equal pow subtract
"""
BINARY_INTEGER = """
    add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor equal
    floor_divide greater greater_equal less less_equal maximum minimum multiply not_equal pow
    remainder subtract
"""
BINARY_BOOL = """
    bitwise_and bitwise_or bitwise_xor equal logical_and logical_or logical_xor
"""

CREATION = """
    arange(5) arange(2,10,3) arange(5,1) arange(5,1,-2) arange(0.5,3.0,0.5)
    arange(3,dtype=xp.float32) asarray(3) asarray([1.5,2]) asarray([[True],[False]])
    asarray([1j,2]) asarray(f,dtype=xp.float32) asarray(f,copy=True) empty((2,3)).shape
    empty_like(i).dtype eye(3) eye(2,4,k=1) eye(4,2,k=-1) eye(2,k=5) eye(3,dtype=xp.int8)
    full((2,),3) full(3,2.5) full((2,2),True) full_like(f,7) full_like(i,2,dtype=xp.float64)
    linspace(0,1,5) linspace(0,1,5,endpoint=False) linspace(1,-1,1)
    linspace(0,1,0,endpoint=False) linspace(0,3,4,dtype=xp.float32) *meshgrid(v,v[:2])
    *meshgrid(v,v[:2],indexing="ij") ones(3) ones((2,2),dtype=xp.uint16) ones_like(b)
    zeros((0,3)) zeros_like(c) tril(f) tril(f,k=1) triu(f,k=-1) triu(xp.stack([f,g]),k=1)
    from_dlpack(f)
"""
MANIPULATION = """
    *broadcast_arrays(f,v) broadcast_to(v,(2,4)) concat([f,g]) concat([f,g],axis=1)
    concat([f,v],axis=None) concat([f,xp.astype(g,xp.float32)],axis=-1) expand_dims(f,axis=1)
    expand_dims(f,axis=-1) flip(f) flip(f,axis=0) flip(f,axis=(0,-1)) moveaxis(t,0,-1)
    moveaxis(t,(0,1),(-1,-2)) permute_dims(t,(2,0,1)) repeat(v,2) repeat(f,2,axis=0) repeat(f,3)
    repeat(v,xp.asarray([1,0,2,3])) reshape(f,(4,3)) reshape(f,(-1,),copy=True)
    reshape(f,(2,6),copy=False) roll(f,1) roll(f,1,axis=0) roll(f,(1,-2),axis=(0,1))
    squeeze(xp.ones((1,2,1)),0) squeeze(xp.ones((1,2,1)),(0,2)) stack([f,g])
    stack([f,g],axis=-1) tile(v,(2,)) tile(f,(2,1)) tile(f,(2,1,2)) *unstack(f)
    *unstack(t,axis=1)
"""
REDUCTIONS = [
    f"{name}({x}{options})"
    for name, x, options in itertools.product(
        ("max", "mean", "min", "prod", "std", "sum", "var", "all", "any", "count_nonzero"),
        ("f", "t"),
        ("", ",axis=0", ",axis=(0,1)", ",axis=-1,keepdims=True", ",keepdims=True"),
    )
    if not (name in ("all", "any") and x == "f")
]
STATISTICAL = """
    sum(i) sum(u) prod(u) sum(i,dtype=xp.float64) sum(f,dtype=xp.float32) prod(i,axis=0) sum(c)
    sum(xp.asarray(2.0)) max(xp.asarray(2)) prod(c,axis=1) std(f,correction=1) mean(c,axis=0)
    var(f,axis=0,correction=2.0) var(f,axis=1,correction=0.5) cumulative_sum(v)
    cumulative_sum(f,axis=1) cumulative_sum(i,axis=0,include_initial=True)
    cumulative_sum(u,axis=0) cumulative_sum(v,dtype=xp.float32) cumulative_prod(v)
    cumulative_prod(f,axis=0) cumulative_prod(u,axis=1,include_initial=True) diff(v)
    diff(f,axis=0) diff(f,n=2) diff(v,prepend=v[:1],append=v[:2]) all(b) any(b,axis=0)
    all(b,axis=(0,1),keepdims=True) min(i) clip(f,-0.5,0.5) clip(f,min=0.0) clip(f,max=0.25)
    clip(f,g-1,g+1) clip(i,2,5) clip(f) max(xp.ones((2,0)),axis=0) sum(xp.zeros((0,3)),axis=0)
"""
SEARCHING = """
    argmax(f) argmax(f,axis=0) argmax(f,axis=1,keepdims=True) argmax(f,keepdims=True) argmin(f)
    argmin(i,axis=-1) *nonzero(i) *nonzero(b) searchsorted(xp.sort(v),f)
    searchsorted(v,v,side="right",sorter=xp.argsort(v)) where(b,f,g) where(b,f,1.0) where(b,2,i)
    where(b,i,xp.astype(i,xp.int8)) sort(f) sort(f,axis=0,descending=True) argsort(f)
    argsort(i,axis=0) argsort(f,descending=True) take(f,xp.asarray([2,0,2]),axis=0)
    take(v,xp.asarray([1,1,3])) take_along_axis(f,xp.argsort(f,axis=1),axis=1) *unique_all(i)
    *unique_counts(i) *unique_inverse(i) unique_values(i) *unique_all(z) unique_values(f)
"""
DTYPES = """
    astype(f,xp.int32) astype(i,xp.bool) astype(b,xp.float64) astype(f,xp.complex64)
    isdtype(f.dtype,"real_floating") isdtype(f.dtype,("integral","bool"))
    isdtype(f.dtype,xp.float64) isdtype(u.dtype,"unsigned_integer")
    isdtype(i.dtype,"signed_integer") isdtype(c.dtype,"numeric") isdtype(b.dtype,"numeric")
    isdtype(b.dtype,"bool") can_cast(xp.int8,xp.int16) can_cast(xp.float64,xp.float32)
    can_cast(i,xp.int64) finfo(xp.float32).eps finfo(f).max finfo(c).bits
    finfo(xp.float32).smallest_normal iinfo(xp.uint16).max iinfo(i).min
"""
LINEAR = """
    matmul(f,xp.matrix_transpose(g)) matmul(t,xp.permute_dims(t,(0,2,1))) matmul(v,v)
    matmul(f,v) matmul(i,xp.matrix_transpose(i)) matrix_transpose(t) tensordot(f,g,axes=2)
    tensordot(f,g,axes=((1,),(1,))) tensordot(v,v,axes=0) vecdot(f,g) vecdot(f,g,axis=-2)
    vecdot(c,c) vecdot(i,i) linalg.cholesky(s) linalg.cholesky(s,upper=True)
    linalg.cross(f[:,:3],g[:,:3]) linalg.cross(f[:3,:],g[:3,:],axis=-2)
    linalg.cross(f[:,:3],f[0,:3]) linalg.det(s)
    linalg.det(xp.stack([s,2*s])) linalg.diagonal(t) linalg.diagonal(t,offset=1)
    linalg.eigh(s).eigenvalues linalg.eigvalsh(s) linalg.inv(s) linalg.matrix_norm(f)
    linalg.matrix_norm(f,ord=1,keepdims=True) linalg.matrix_norm(f,ord="nuc")
    linalg.matrix_norm(t,ord=-2) linalg.matrix_power(s,3) linalg.matrix_power(s,-2)
    linalg.matrix_rank(s) linalg.matrix_rank(f,rtol=0.9) linalg.outer(v,v) linalg.pinv(f)
    linalg.pinv(f,rtol=0.5) linalg.qr(f).R.shape
    linalg.qr(xp.matrix_transpose(f),mode="complete").Q.shape *linalg.slogdet(s)
    linalg.solve(s,v[:3]) linalg.solve(s,f) linalg.solve(xp.stack([s,s,s]),s)
    linalg.solve(xp.stack([s,2*s]),xp.stack([f,f])) linalg.svd(f).S
    linalg.svd(f,full_matrices=False).Vh.shape linalg.svd(f).Vh.shape linalg.svdvals(t)
    linalg.trace(f) linalg.trace(t,offset=1) linalg.trace(u) linalg.trace(i,dtype=xp.float64)
    linalg.vector_norm(f) linalg.vector_norm(f,axis=0,ord=1) linalg.vector_norm(c,axis=1)
    linalg.vector_norm(t,axis=(0,1),keepdims=True)
    linalg.vector_norm(f,ord=xp.inf,keepdims=True) linalg.vector_norm(f,ord=0,axis=1)
    linalg.vecdot(f,g) linalg.matmul(s,s)
"""
FOURIER = """
    fft.fft(c) fft.fft(c,n=3,axis=0,norm="ortho") fft.ifft(c) fft.fftn(c) fft.ifftn(c,axes=(0,))
    fft.fftn(c,s=(2,3),axes=(0,1),norm="forward") fft.rfft(f) fft.rfft(f,axis=0,n=5)
    fft.irfft(c) fft.irfft(c,n=5) fft.rfftn(f) fft.irfftn(c) fft.irfftn(c,s=(2,5),axes=(0,1))
    fft.hfft(c) fft.hfft(c,n=7) fft.ihfft(f) fft.fftfreq(5) fft.fftfreq(4,d=0.5)
    fft.rfftfreq(5,d=2.0) fft.rfftfreq(4,dtype=xp.float32) fft.fftshift(f)
    fft.fftshift(f,axes=(0,)) fft.ifftshift(f) fft.ifftshift(v)
    fft.fft(xp.astype(c,xp.complex64))
"""


def calls():
    """All of them."""
    yield from (f"{name}(h)" for name in UNARY_REAL.split())
    yield from (f"{name}(xp.astype(h,xp.float32))" for name in UNARY_REAL.split())
    yield "acosh(f*f+1)"
    yield "logical_not(b)"
    yield "bitwise_invert(b)"
    yield from (f"{name}(c)" for name in UNARY_COMPLEX.split())
    yield from (f"{name}({x})" for name in UNARY_INTEGER.split() for x in "ij")
    yield from (f"{name}(xp.abs(f),g)" for name in BINARY_REAL.split())
    yield from (f"{name}(xp.abs(f),v)" for name in BINARY_REAL.split())
    yield from (f"{name}(xp.abs(f),2.0)" for name in BINARY_REAL.split())
    yield from (f"{name}(1.5,g)" for name in BINARY_REAL.split())
    yield from (f"{name}(c,xp.conj(c))" for name in BINARY_COMPLEX.split())
    yield from (f"{name}(i,u)" for name in BINARY_INTEGER.split())
    yield from (f"{name}(u,2)" for name in BINARY_INTEGER.split())
    yield from (f"{name}(b,~b)" for name in BINARY_BOOL.split())
    # 0-d arrays count as much as others.
    yield from ("add(xp.astype(f,xp.float32),xp.asarray(1.0))", "multiply(u,xp.asarray(3))")
    yield from (f"{name}(z)" for name in ("isnan", "isinf", "isfinite", "sign", "signbit", "floor"))
    yield from CREATION.split() + MANIPULATION.split() + REDUCTIONS + STATISTICAL.split()
    yield from (
        call.replace("_floating", " floating").replace("_integer", " integer")
        for call in DTYPES.split()
    )
    yield from SEARCHING.split() + LINEAR.split() + FOURIER.split()


def operands(xp):
    """The arrays that the calls name, on a namespace."""
    rng = numpy.random.default_rng(0)
    matrix = rng.standard_normal((3, 3))
    arrays = {
        "f": rng.standard_normal((3, 4)),
        "g": rng.standard_normal((3, 4)),
        "h": rng.uniform(0.05, 0.95, (3, 4)),
        "v": rng.standard_normal(4),
        "t": rng.standard_normal((2, 3, 4)),
        "s": matrix @ matrix.T + 3 * numpy.eye(3),
        "c": rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4)),
        "i": rng.integers(0, 6, (3, 4)),
        "j": rng.integers(-6, 6, (3, 4)).astype("int16"),
        "u": rng.integers(1, 5, (3, 4)).astype("uint16"),
        "b": rng.integers(0, 2, (3, 4)).astype(bool),
        "z": numpy.array([1.5, numpy.nan, -numpy.inf, -0.0, numpy.nan, 1.5]),
    }
    return {name: xp.asarray(array) for name, array in arrays.items()}
