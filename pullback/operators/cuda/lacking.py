"""What NumPy has and CuPy has not, or not so: by the names that `namespace` looks them up under.

`"name"` is a function, `"linalg.name"` one of a part, `"reduce maximum"` a ufunc's method and
`"ufunc name"` its call.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy

__all__ = ["LACKING", "lacking"]

LACKING: dict[str, Any] = {}
F = TypeVar("F", bound=Callable[..., Any])


def lacking(*names: str, of_space: bool = False) -> Callable[[F], F]:
    """Enter a function; with `of_space` it is made from the namespace when first asked for."""

    def enter(function: F) -> F:
        if of_space:
            function.of_space = True  # type: ignore[attr-defined]  # which `Space` asks for
        for name in names:
            LACKING[name] = function
        return function

    return enter


# Reductions ---------------------------------------------------------------------------------------

_METHODS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}


def _settled(result: Any, out: Any, initial: Any, combine: Any) -> Any:
    if initial is not None:
        result = combine(result, initial)
    if out is None:
        return result
    out[...] = result
    return out


@lacking("every reduce")
def _reduce(
    space: Any, ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Any:  # fmt: skip
    name = ufunc.__name__
    if where is not True:
        neutral = {"add": 0, "multiply": 1, "logical_or": False, "logical_and": True}.get(name)
        array = space.cupy.where(where, array, initial if neutral is None else neutral)
    if axis == ():
        return _settled(array if dtype is None else array.astype(dtype), out, initial, ufunc)
    if name in ("maximum", "minimum"):
        if initial is not None and _is_empty(array, axis):
            return space.cupy.full(_reduced(array.shape, axis, keepdims), initial, array.dtype)
        array = array if dtype is None else array.astype(dtype)
        if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
            single = array.astype(numpy.float32)
            return getattr(single, _METHODS[name])(axis, keepdims=keepdims).astype(array.dtype)
        return _settled(
            getattr(array, _METHODS[name])(axis, keepdims=keepdims), out, initial, ufunc
        )
    if name in ("add", "multiply"):
        result = getattr(array, _METHODS[name])(axis, dtype, None, keepdims)
        return _settled(result, out, initial, ufunc)
    if name in _METHODS:
        return _settled(
            getattr(array, _METHODS[name])(axis, keepdims=keepdims), out, initial, ufunc
        )
    return _one_by_one(ufunc, array, axis, keepdims)


def _is_empty(array: Any, axis: Any) -> bool:
    dims = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return any(array.shape[dim] == 0 for dim in dims)


def _reduced(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    count = len(shape)
    dims = range(count) if axis is None else (axis,) if isinstance(axis, int) else axis
    gone = {dim % count for dim in dims}
    kept = [1 if dim in gone else size for dim, size in enumerate(shape)]
    return tuple(n for dim, n in enumerate(kept) if keepdims or dim not in gone)


def _one_by_one(ufunc: Any, array: Any, axis: Any, keepdims: bool) -> Any:
    """By halves: log2 of the length many calls."""
    dims = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for dim in sorted((d % array.ndim for d in dims), reverse=True):
        front = array.swapaxes(0, dim) if dim else array
        while front.shape[0] > 1:
            half, odd = divmod(front.shape[0], 2)
            joined = ufunc(front[:half], front[half : 2 * half])
            if odd:
                joined[:1] = ufunc(joined[:1], front[-1:])
            front = joined
        front = front.swapaxes(0, dim) if dim else front
        array = front if keepdims else front.squeeze(dim)
    return array


@lacking("every accumulate")
def _accumulate(
    space: Any, ufunc: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    name = ufunc.__name__
    if name in ("add", "multiply"):
        result = (array.cumsum if name == "add" else array.cumprod)(axis, dtype)
    else:
        # Each step reaches twice as far: log2 of the length many calls.
        result = array.copy() if dtype is None else array.astype(dtype)
        moved = result.swapaxes(0, axis)
        reach = 1
        while reach < moved.shape[0]:
            moved[reach:] = ufunc(moved[:-reach], moved[reach:])
            reach *= 2
    return _settled(result, out, None, ufunc)


@lacking("every outer")
def _outer(space: Any, ufunc: Any, a: Any, b: Any) -> Any:
    return ufunc(a.reshape(a.shape + (1,) * b.ndim), b)


@lacking("every reduceat")
def _reduceat(
    space: Any, ufunc: Any, array: Any, indices: Any, axis: int = 0, dtype: Any = None
) -> Any:
    if ufunc.__name__ != "add":
        raise NotImplementedError(f"{ufunc.__name__}.reduceat on a device")
    size = array.shape[axis]
    shape = (*array.shape[:axis], size + 1, *array.shape[axis + 1 :])
    total = space.cupy.zeros(shape, array.dtype if dtype is None else dtype)
    moved = total.swapaxes(0, axis)
    moved[1:] = array.cumsum(axis).swapaxes(0, axis)
    indices = space.cupy.asarray(indices)
    ends = space.cupy.append(indices[1:], size)
    return (moved[ends] - moved[indices]).swapaxes(0, axis)


@lacking("every at")
def _at(space: Any, ufunc: Any, target: Any, indices: Any, values: Any = None) -> None:
    name = ufunc.__name__
    if name not in ("add", "maximum", "minimum", "multiply", "subtract"):
        raise NotImplementedError(f"{name}.at on a device")
    if name == "subtract":
        name, values = "add", -values
    if target.dtype.kind == "c" and name == "add":
        values = space.cupy.asarray(values)
        _at(space, ufunc, target.real, indices, values.real)
        _at(space, ufunc, target.imag, indices, values.imag)
        return
    if name != "add":
        _combine_at(space, getattr(space.cupy, name), target, indices, values)
        return
    wide = _WIDER.get(target.dtype.char if target.dtype.kind != "V" else "E")
    if wide is not None:
        whole = target.astype(wide)
        space.cupy.add.at(whole, indices, _as(values, wide))
        target[...] = whole.astype(target.dtype)
        return
    space.cupy.add.at(target, indices, _as(values, target.dtype))


def _as(values: Any, dtype: Any) -> Any:
    return values.astype(dtype) if hasattr(values, "astype") else values


# What atomic additions do not know, or would round at each step, by what they know.
_WIDER = {"?": "i4", "b": "i4", "B": "i4", "h": "i4", "H": "i4", "e": "f4", "E": "f4"}


def _combine_at(space: Any, ufunc: Any, target: Any, indices: Any, values: Any) -> None:
    """Sorted by place, the values of one place are neighbours, and are combined by halves.

    CuPy's atomic maximum takes no NaN, and that of float64 goes by way of float32.
    """
    cupy = space.cupy
    flat = cupy.arange(target.size).reshape(target.shape)[indices]
    values = cupy.broadcast_to(cupy.asarray(values, target.dtype), flat.shape).reshape(-1)
    flat = flat.reshape(-1)
    if not flat.size:
        return
    order = cupy.argsort(flat, kind="stable")
    places, parts = flat[order], values[order]
    reach = 1
    while reach < parts.size:
        same = places[reach:] == places[:-reach]
        parts[reach:] = cupy.where(same, ufunc(parts[reach:], parts[:-reach]), parts[reach:])
        reach *= 2
    last = cupy.ones(places.shape, bool)
    last[:-1] = places[1:] != places[:-1]
    # What is not the last of its place is written to a place of its own, behind all.
    whole = cupy.empty(target.size + 1, target.dtype)
    whole[:-1] = target.reshape(-1)
    whole[-1:] = whole[:1]
    spots = cupy.where(last, places, target.size)
    whole[spots] = ufunc(whole[spots], parts)
    target[...] = whole[:-1].reshape(target.shape)


# Products -----------------------------------------------------------------------------------------


@lacking("vecdot", "ufunc vecdot", of_space=True)
def _vecdot(space: Any) -> Any:
    def vecdot(a: Any, b: Any, axis: int = -1, out: Any = None) -> Any:
        if not isinstance(a, space.ndarray) and not isinstance(b, space.ndarray):
            return numpy.vecdot(a, b, axis=axis)  # type: ignore[call-overload]  # NumPy has the option
        a, b = space.brought(a), space.brought(b)
        left = a.conj() if a.dtype.kind == "c" else a
        if axis == -1 and a.ndim and b.ndim:
            made = space.cupy.matmul(left[..., None, :], b[..., :, None])[..., 0, 0]
        else:
            made = (left * b).sum(axis)
        return _settled(made, out, None, None)

    return vecdot


# Elementwise --------------------------------------------------------------------------------------


def _logical(name: str) -> Any:
    """CuPy's know no complex numbers: what is not 0 is true."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from pullback.operators.cuda.found import found

        own = getattr(found.cupy, name)
        given = [one != 0 if getattr(one, "dtype", None) is not None and one.dtype.kind == "c"
                 else one for one in args]  # fmt: skip
        return own(*given, **kwargs)

    return call


LACKING.update(
    {f"ufunc logical_{name}": _logical(f"logical_{name}") for name in ("not", "and", "or", "xor")}
)


@lacking("copyto", of_space=True)
def _copyto(space: Any) -> Any:
    def copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
        if not isinstance(target, space.ndarray):
            numpy.copyto(target, source, casting, where)  # type: ignore[arg-type]  # checked by NumPy
            return
        source = space.brought(source)
        if where is True:
            target[...] = source
        else:
            target[...] = space.cupy.where(space.brought(where), _as(source, target.dtype), target)

    return copyto


@lacking("concatenate", of_space=True)
def _concatenate(space: Any) -> Any:
    """CuPy sends a table of addresses to the device, which no graph can hold: arrays one by one."""
    cupy = space.cupy

    def concatenate(arrays: Any, axis: int | None = 0, out: Any = None, **options: Any) -> Any:
        if not cupy.cuda.get_current_stream().is_capturing():
            return cupy.concatenate(arrays, axis, out, **options)
        dtype = options.get("dtype") or cupy.result_type(*arrays)
        parts = [one.reshape(-1) for one in arrays] if axis is None else arrays
        place = 0 if axis is None else axis % parts[0].ndim
        if out is None:
            shape = list(parts[0].shape)
            shape[place] = sum(one.shape[place] for one in parts)
            out = cupy.empty(shape, dtype)
        start = 0
        for one in parts:
            end = start + one.shape[place]
            out[(slice(None),) * place + (slice(start, end),)] = one
            start = end
        return out

    return concatenate


@lacking("stack", of_space=True)
def _stack(space: Any) -> Any:
    concatenate = _concatenate(space)

    def stack(arrays: Any, axis: int = 0, out: Any = None, **options: Any) -> Any:
        place = axis % (arrays[0].ndim + 1)
        key = (slice(None),) * place + (None,)
        return concatenate([one[key] for one in arrays], place, out, **options)

    return stack


@lacking("broadcast", of_space=True)
def _broadcast(space: Any) -> Any:
    def broadcast(*arrays: Any) -> Any:
        return SimpleNamespace(shape=numpy.broadcast_shapes(*[numpy.shape(a) if not isinstance(
            a, space.ndarray) else a.shape for a in arrays]))  # fmt: skip

    return broadcast


@lacking("frombuffer")
def _frombuffer(*args: Any, **kwargs: Any) -> Any:
    return numpy.frombuffer(*args, **kwargs)


@lacking("lib.stride_tricks.as_strided", of_space=True)
def _as_strided(space: Any) -> Any:
    def as_strided(x: Any, shape: Any = None, strides: Any = None, **options: Any) -> Any:
        if not isinstance(x, space.ndarray):
            return numpy.lib.stride_tricks.as_strided(x, shape, strides, **options)
        shape = x.shape if shape is None else shape
        strides = x.strides if strides is None else strides
        return space.cupy.lib.stride_tricks.as_strided(x, shape, strides)

    return as_strided


@lacking("array", of_space=True)
def _array(space: Any) -> Any:
    def array(value: Any, dtype: Any = None, *, copy: Any = True, order: str = "K") -> Any:
        """On the device; what is already there stays the same only if `copy` says so."""
        if isinstance(value, space.ndarray) and not copy:
            return value if dtype is None else value.astype(dtype, copy=False)
        return space.cupy.array(value, dtype, copy=True, order=order)

    return array


@lacking("ndarray", of_space=True)
def _ndarray(space: Any) -> Any:
    return space.cupy.ndarray


# Linear algebra ----------------------------------------------------------------------------------


@lacking("linalg.solve", of_space=True)
def _solve(space: Any) -> Any:
    def solve(a: Any, b: Any) -> Any:
        """As NumPy: `b` is a vector only if it has one dimension, and batches broadcast."""
        cupy = space.cupy
        vector = b.ndim == 1
        b = b[:, None] if vector else b
        batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if 0 in (*batch, *b.shape[-2:]):
            made = cupy.zeros((*batch, *b.shape[-2:]), b.dtype)
            return made[..., 0] if vector else made
        a = cupy.broadcast_to(a, (*batch, *a.shape[-2:]))
        b = cupy.broadcast_to(b, (*batch, *b.shape[-2:]))
        made = cupy.linalg.solve(cupy.ascontiguousarray(a), cupy.ascontiguousarray(b))
        if bool(cupy.isnan(made).any()) or bool(cupy.isinf(made).any()):
            _refuse_singular(space, a)
        return made[..., 0] if vector else made

    return solve


def _refuse_singular(space: Any, a: Any) -> None:
    """LinAlgError where a matrix of finite numbers has no inverse."""
    if bool(space.cupy.isfinite(a).all()) and bool((space.cupy.linalg.det(a) == 0).any()):
        raise numpy.linalg.LinAlgError("Singular matrix")


@lacking("linalg.inv", of_space=True)
def _inv(space: Any) -> Any:
    def inv(a: Any) -> Any:
        if not a.size:
            return a.copy()
        made = space.cupy.linalg.inv(a)
        if not bool(space.cupy.isfinite(made).all()):
            _refuse_singular(space, a)
        return made

    return inv


@lacking("linalg.cholesky", of_space=True)
def _cholesky(space: Any) -> Any:
    def cholesky(a: Any, *, upper: bool = False) -> Any:
        if not a.size:
            return a.copy()
        lower = a.mT.conj() if upper else a
        made = space.cupy.linalg.cholesky(space.cupy.ascontiguousarray(lower))
        if bool(space.cupy.isnan(made).any()):
            raise numpy.linalg.LinAlgError("Matrix is not positive definite")
        return space.cupy.ascontiguousarray(made.mT.conj()) if upper else made

    return cholesky
