"""`torch._prims_common`: questions about dtypes, dims and strides that decompositions ask."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

import pullback
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (a class, and the name of arguments)
from pullback.core.tensor import Tensor

__all__ = [
    "ELEMENTWISE_TYPE_PROMOTION_KIND",
    "Number",
    "NumberType",
    "TensorLike",
    "TensorLikeType",
    "canonicalize_dim",
    "canonicalize_dims",
    "check",
    "corresponding_complex_dtype",
    "corresponding_real_dtype",
    "dtype_or_default",
    "dtype_to_type",
    "elementwise_dtypes",
    "get_computation_dtype",
    "get_higher_dtype",
    "is_boolean_dtype",
    "is_complex_dtype",
    "is_contiguous",
    "is_float_dtype",
    "is_integer_dtype",
    "is_low_precision_dtype",
    "make_contiguous_strides_for",
    "number_type",
    "reduction_dims",
    "type_to_dtype",
]

Number = (bool, int, float, complex)
NumberType: TypeAlias = bool | int | float | complex
TensorLike = Tensor
TensorLikeType: TypeAlias = Tensor

_COMPLEX = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
_COMPLEX["bfloat16"] = "complex64"
_WIDER = {"float16": "float32", "bfloat16": "float32", "complex32": "complex64"}
_DEFAULTS = {bool: "bool", int: "int64"}


def _name(dtype: Dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _named(name: str) -> Dtype:
    found: Dtype = getattr(pullback, name)
    return found


def check(b: bool, s: Any, exc_type: type[Exception] = RuntimeError) -> None:
    """Raise with the words that `s()` gives, unless `b`."""
    if not b:
        raise exc_type(s())


# Dtypes -------------------------------------------------------------------------------------------


def is_boolean_dtype(dtype: Dtype) -> bool:
    """Whether it is bool."""
    return dtype is pullback.bool


def is_float_dtype(dtype: Dtype) -> bool:
    """Whether it is a real floating-point dtype."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: Dtype) -> bool:
    """Whether it is complex."""
    return dtype.is_complex


def is_integer_dtype(dtype: Dtype) -> bool:
    """Whether it is an integer, and not bool."""
    return not (dtype.is_floating_point or dtype.is_complex or is_boolean_dtype(dtype))


def is_low_precision_dtype(dtype: Dtype) -> bool:
    """Whether computations in it are done in a wider one."""
    return _name(dtype) in _WIDER


def corresponding_complex_dtype(dtype: Dtype) -> Dtype:
    """The complex dtype whose parts are of a real one."""
    return _named(_COMPLEX[_name(dtype)])


def corresponding_real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of the parts of a complex one."""
    return dtype.to_real()


def get_computation_dtype(dtype: Dtype) -> Dtype:
    """The dtype that is computed in: of half precision the single one."""
    return _named(_WIDER.get(_name(dtype), _name(dtype)))


def dtype_or_default(dtype: Dtype | None) -> Dtype:
    """The dtype, or the default one."""
    return pullback.get_default_dtype() if dtype is None else dtype


def dtype_to_type(dtype: Dtype) -> type:
    """The Python type of its numbers."""
    if is_boolean_dtype(dtype):
        return bool
    if is_integer_dtype(dtype):
        return int
    return complex if dtype.is_complex else float


def type_to_dtype(kind: type) -> Dtype:
    """The dtype that a Python number of a type has as a tensor."""
    if kind in _DEFAULTS:
        return _named(_DEFAULTS[kind])
    default: Dtype = pullback.get_default_dtype()
    if kind is float:
        return default
    if kind is complex:
        return corresponding_complex_dtype(default)
    raise ValueError(f"There is no dtype for numbers of {kind}.")


def number_type(x: NumberType) -> type:
    """The Python type of a number."""
    return next(kind for kind in Number if isinstance(x, kind))


def get_higher_dtype(a: Any, b: Any) -> Dtype | None:
    """What two dtypes, tensors or numbers have in common; of None the other."""
    known = [_dtype_of(one) for one in (a, b) if one is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else pullback.promote_types(*known)


def _dtype_of(value: Any) -> Dtype:
    if isinstance(value, Dtype):
        return value
    return value.dtype if isinstance(value, Tensor) else type_to_dtype(type(value))


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):  # noqa: N801 (torch's name)
    """How the dtype of a result follows from that of the operands."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


def elementwise_dtypes(
    *args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[Dtype, Dtype]:
    """The dtype to compute in, and that of the result."""
    given = [one for one in args if one is not None]
    common = given[0].dtype if isinstance(given[0], Tensor) else type_to_dtype(type(given[0]))
    if len(given) > 1:
        made: Any = given[0] if isinstance(given[0], Tensor) else pullback.tensor(given[0])
        common = pullback.result_type(made, given[1])
        for one in given[2:]:
            common = pullback.promote_types(common, pullback.result_type(made, one))
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    exact = not (common.is_floating_point or common.is_complex)
    if type_promotion_kind is kinds.NO_OPMATH:
        return common, common
    if type_promotion_kind is kinds.INT_TO_FLOAT and exact:
        common = pullback.get_default_dtype()
    if type_promotion_kind is kinds.BOOL_TO_LONG and is_boolean_dtype(common):
        return pullback.int64, pullback.int64
    inner = get_computation_dtype(common)
    if type_promotion_kind is kinds.ALWAYS_BOOL:
        return inner, pullback.bool
    if type_promotion_kind is kinds.COMPLEX_TO_FLOAT and common.is_complex:
        return inner, corresponding_real_dtype(common)
    return inner, common


# Shapes -------------------------------------------------------------------------------------------


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dim from 0 on, of a tensor of `rank` dimensions; one of none counts as one of one."""
    if rank < 0:
        raise IndexError(f"A rank is not negative, got {rank}.")
    if not rank:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
            f"{idx})"
        )
    return idx % rank


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """The same of one dim or several."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple([canonicalize_dim(rank, one, wrap_scalar) for one in indices])


def reduction_dims(shape: Sequence[int], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dims that are summed over: those given, each once, or all."""
    if dims is None:
        return tuple(range(len(shape)))
    found: tuple[int, ...] = canonicalize_dims(len(shape), tuple(dims))
    if len(set(found)) != len(found):
        raise RuntimeError("duplicate value in the list of dims")
    return found


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """Strides without gaps: the last dimension fastest, or the one before it if not `row_major`."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) >= 2:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def is_contiguous(a: Tensor) -> bool:
    """Whether the elements lie in memory as they are counted."""
    return a.is_contiguous()
