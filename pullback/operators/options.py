"""Options that name dimensions and shapes: checked by annotation, and under NumPy's names too."""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy

from pullback.core import errors, origin
from pullback.core.memory.narrow import is_of_numbers
from pullback.core.tensor import Tensor
from pullback.operators.declare import OPERAND_NAMES, REQUIRED, Op

T = TypeVar("T", bound=Callable[..., Any])
# Not `int | float` where it is asked: four classes joined anew take twenty times as long.
_LISTS, _UNORDERED, _BYTES = (tuple, list), (Set, Mapping), (bytes, bytearray)
_REAL = (int, float, numpy.generic)
_NUMBERS = (*_REAL, complex)


def as_dim(dim: Any, ndim: int, op: str) -> int:
    """A dimension as a non-negative int. A 0-d tensor has dimension 0 and -1, as in torch."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    # Python counts bools and tensors of one element among the indices, torch only 0-d tensors.
    if isinstance(dim, bool) or getattr(dim, "ndim", 0) != 0:
        raise errors.not_an_int(op, "dim", dim)
    try:
        number = operator.index(dim)
    except TypeError:
        raise missing(op, "dim") if dim is REQUIRED else errors.not_an_int(op, "dim", dim) from None
    limit = ndim or 1
    if not -limit <= number < limit:
        raise errors.bad_dim(op, number, ndim)
    return number + limit if number < 0 else number


def as_dims(dims: Any, ndim: int, op: str) -> tuple[int, ...] | None:
    """Dimensions as a tuple of non-negative ints; None and () stay, and mean all of them."""
    if dims is None:
        return None
    if type(dims) is int:
        return (dims,) if 0 <= dims < ndim else (as_dim(dims, ndim, op),)
    if type(dims) is tuple and len(dims) in (1, 2):  # as most are
        first, last = dims[0], dims[-1]
        inside = type(first) is int is type(last) and 0 <= first <= last < ndim
        if inside and (first < last or len(dims) == 1):
            return dims
    if not isinstance(dims, _LISTS):
        if isinstance(dims, _UNORDERED):
            raise errors.unordered(op, "dim", dims)
        if not is_sequence(dims) or getattr(dims, "ndim", 1) == 0:
            return (as_dim(dims, ndim, op),)
    checked = tuple([as_dim(dim, ndim, op) for dim in dims])
    if len(set(checked)) != len(checked):
        twice = next(dim for dim in checked if checked.count(dim) > 1)
        raise errors.repeated_dim(op, twice)
    return checked


def as_required_dims(dims: Any, ndim: int, op: str) -> tuple[int, ...]:
    """As `as_dims`, but None is refused."""
    if type(dims) is tuple and len(dims) == 1 and type(dims[0]) is int and 0 <= dims[0] < ndim:
        return dims  # as most are
    checked = as_dims(dims, ndim, op)
    if checked is None:
        raise errors.not_an_int(op, "dim", dims)
    return checked


def is_sequence(value: Any) -> bool:
    """Whether an argument is several values; bytes are ints to Python, and never meant as such."""
    return isinstance(value, Iterable) and not isinstance(value, _BYTES)


def as_shape(shape: Any, ndim: int, op: str) -> tuple[int, ...]:
    """A shape as a tuple of ints."""
    if type(shape) is tuple:
        for size in shape:  # a loop: `all` over a generator takes twice as long
            if type(size) is not int:
                break
        else:
            return shape
    if type(shape) is int:
        return (shape,)
    if isinstance(shape, _UNORDERED):
        raise errors.unordered(op, "size", shape)
    if not is_sequence(shape) or getattr(shape, "ndim", 1) == 0:
        shape = (shape,)
    shape = tuple(shape)
    if shape and isinstance(shape[0], bool):  # torch looks for bools in the first place only
        raise _no_shape(op, shape)
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise _no_shape(op, shape) from None


def _no_shape(op: str, shape: Any) -> TypeError:
    return TypeError(f"{op.lstrip('_')}(): a shape must consist of ints, got {shape!r}.")


def as_optional_dim(dim: Any, ndim: int, op: str) -> int | None:
    """As `as_dim`; None stays."""
    if type(dim) is int and 0 <= dim < ndim:
        return dim
    return None if dim is None else as_dim(dim, ndim, op)


def as_int(value: Any, op: str, name: str) -> int:
    """An option that is an int, or a tensor that holds one; TypeError for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, bool):  # which torch takes for no number
        raise errors.not_an_int(op, name, value)
    try:
        return operator.index(getattr(value, "_array", value))
    except (TypeError, ValueError):
        raise errors.not_an_int(op, name, value) from None


def as_bool(value: Any, op: str, name: str) -> bool:
    """An option that is True or False; TypeError for whatever else Python takes for one."""
    if value is True or value is False:
        return bool(value)
    raise errors.not_a_bool(op, name, value)


def as_number(value: Any, op: str, name: str) -> Any:
    """An option that is a number, or a tensor of none that requires grad, without dimensions."""
    if isinstance(value, _NUMBERS):
        return value
    if isinstance(value, Tensor) and not value.requires_grad and not value._array.ndim:
        return value._array.item()
    if is_of_numbers(value):
        return value
    raise errors.not_a_number(op, name, value)


def check_int(value: Any, op: str, name: str) -> Any:
    """Refuse what is no int; one that a tensor holds is given, and symbols of sizes stay."""
    if isinstance(value, Tensor):
        if value._array.ndim == 0 and value._array.dtype.kind in "iu" and not value.requires_grad:
            return value._array.item()
    elif not isinstance(value, bool) and hasattr(type(value), "__index__"):
        return value
    raise errors.not_an_int(op, name, value)


def check_float(value: Any, op: str, name: str) -> Any:
    """Refuse what is no real number; one in a tensor without dimensions and history is given."""
    if isinstance(value, Tensor):
        if value._array.ndim == 0 and value._array.dtype.kind != "c" and not value.requires_grad:
            return value._array.item()
    elif isinstance(value, _REAL) or hasattr(type(value), "__float__"):
        return value
    raise errors.not_a_number(op, name, value)


def check_int_if_given(value: Any, op: str, name: str) -> Any:
    """As `check_int`; None stands for an option that was not given."""
    return None if value is None else check_int(value, op, name)


def check_float_if_given(value: Any, op: str, name: str) -> Any:
    """As `check_float`; None stands for an option that was not given."""
    return None if value is None else check_float(value, op, name)


def check_bool_if_given(value: Any, op: str, name: str) -> None:
    """As `as_bool`; None stands for an option that was not given."""
    if value is not None:
        as_bool(value, op, name)


def check_tensor(value: Any, op: str, name: str) -> None:
    """Refuse an array or a number where only arithmetic would tell that it is no tensor."""
    if not isinstance(value, Tensor) and not hasattr(type(value), "__torch_function__"):
        raise errors.not_a_tensor(op, name, value)


class Typed(NamedTuple):
    """What refuses the values that an annotation excludes and gives the others as plain ones."""

    check: Callable[[Any, str, str], Any]
    unlike: str  # a condition on `{}`
    usual: tuple[type, ...]


TYPED: dict[str, Typed] = {
    "Tensor": Typed(check_tensor, "{0}.__class__ is not Tensor", (Tensor,)),
    "bool": Typed(as_bool, "{0} is not True and {0} is not False", (bool,)),
    "int": Typed(check_int, "{0}.__class__ is not int", (int,)),
    "float": Typed(
        check_float, "{0}.__class__ is not float and {0}.__class__ is not int", (float, int)
    ),
    "Number": Typed(
        as_number, "{0}.__class__ is not int and {0}.__class__ is not float", (int, float)
    ),
    "bool | None": Typed(check_bool_if_given, "{0} is not None", (bool, type(None))),
    "int | None": Typed(check_int_if_given, "{0} is not None", (int, type(None))),
    "float | None": Typed(check_float_if_given, "{0} is not None", (float, int, type(None))),
}


# What a parameter's `check` says -> check(value, ndim of the first tensor, operator's name).
NORMALISE: dict[str, Callable[[Any, int, str], Any]] = {
    "dim": as_dim,
    "optional_dim": as_optional_dim,
    "dims": as_dims,
    "required_dims": as_required_dims,
    "shape": as_shape,
}


def other_names(own: Sequence[str]) -> dict[str, str]:
    """NumPy's names of operands among these parameters: other -> its own."""
    return {
        theirs: ours
        for ours, names in OPERAND_NAMES.items()
        for theirs in names
        if ours in own and theirs not in own
    }


def numpy_spelled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a plain function of operators take `axis` and `keepdims` as declared ones do.

    And NumPy's names of operands, which cost a call without names nothing here.
    """
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    others = other_names(own)

    @wraps(function)
    def spelled(*args: Any, axis: Any = None, keepdims: Any = None, **kwargs: Any) -> Any:
        if axis is None and keepdims is None and not kwargs:  # to hand on no names takes 0.1 us
            return function(*args)
        found = [(others[theirs], kwargs.pop(theirs)) for theirs in others.keys() & kwargs.keys()]
        for name, value in (("dim", axis), ("keepdim", keepdims), *found):
            if value is not None:
                if name in kwargs:
                    raise TypeError(f"{function.__name__}() got {name!r} twice, under two names.")
                kwargs[name] = value
        return function(*args, **kwargs)

    return spelled


def numpy_named(function: T) -> T:
    """Show a function that has NumPy's names of operands as parameters without them.

    They stand by place, where Python fills them in at once, and are not meant to be given so.
    """
    shown = inspect.signature(function)
    others = {name for names in OPERAND_NAMES.values() for name in names}
    parameters = [
        one.replace(default=one.empty) if one.default is REQUIRED else one
        for one in shown.parameters.values()
        if one.name not in others
    ]
    function.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's name
    return function


def operand(called: str, name: str, given: Any, **others: Any) -> Any:
    """An operand that came under one of its other names, and may under no other."""
    for theirs, value in others.items():
        if value is None:
            continue
        if given is not REQUIRED:
            raise both_names(called, name, theirs)
        given = value
    return given


def also_called(**names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a plain function of operators take arguments under other names too: other -> its own.

    And NumPy's names of its first operand.
    """
    names |= dict.fromkeys(OPERAND_NAMES["input"], "input")

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def spelled(*args: Any, **kwargs: Any) -> Any:
            for theirs in names.keys() & kwargs.keys():
                if names[theirs] in kwargs:
                    raise TypeError(
                        f"{function.__name__}() got {names[theirs]!r} twice, under two names."
                    )
                kwargs[names[theirs]] = kwargs.pop(theirs)
            return function(*args, **kwargs)

        return spelled

    return decorated


def respelled(
    op: Op,
    called: str,
    args: tuple[Any, ...],
    renamed: dict[str, Any],
    kwargs: dict[str, Any],
    *,
    inplace: bool,
) -> Any:
    """The call under torch's names; where it lacks an argument, the error that says which."""
    given = dict(zip(op.positional, args, strict=True)) | kwargs
    given = {name: value for name, value in given.items() if value is not REQUIRED}
    defaults = {param.name: param.default for param in op.params}
    names = {**op.spellings, **op.operand_names}
    for theirs, value in renamed.items():
        if value is None:
            continue
        ours = names[theirs]
        usual = defaults[ours]
        if ours in given and (usual is REQUIRED or given[ours] != usual):
            raise both_names(called, ours, theirs)
        given[ours] = value
    for name, default in defaults.items():
        if default is REQUIRED and name not in given:
            raise missing(called, name)
    # What is declared for its in-place form alone, as that of a comparison, has the name of it.
    function = getattr(Tensor, called) if inplace or called != op.name else op.function
    return function(**given)


def both_names(called: str, ours: str, theirs: str) -> TypeError:
    """An argument was given twice, under two names."""
    return TypeError(
        f"{called}() got both {ours!r} and {theirs!r}, which mean the same, or more arguments by "
        "position than it takes."
    )


def missing(called: str, name: str) -> TypeError:
    """An argument that must be given was not."""
    return TypeError(f"{called}() misses its argument {name!r}.")


# The default of the places that stand between an operator's last argument and its keywords.
UNFILLED: Any = object()


def numbers_between(op: Op, called: str, given: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as it is written today: `x.add_(2, y)` is `x.add_(y, alpha=2)`.

    What multiplies the first tensor may stand before it too: `addmm(2, x, 3, a, b)`.
    """
    args = [value for value in given if value is not UNFILLED]
    order = "".join("T" if isinstance(a, Tensor) else "n" if _is_number(a) else "?" for a in args)
    rest = "T" * (len(op.positional) - 1)
    orders = [[], [f"Tn{rest}"], [f"Tn{rest}", f"nT{rest}", f"Tnn{rest}", f"nTn{rest}"]]
    if order not in orders[len(op.once_positional)]:
        kinds = ", ".join(type(value).__name__ for value in args)
        count = "1 argument" if len(op.positional) == 1 else f"{len(op.positional)} arguments"
        raise TypeError(
            f"{called}() takes {count} by position "
            f"({', '.join(op.positional)}), but got {len(args)}: {kinds}. Name the others."
        )
    numbers = [value for value in args if not isinstance(value, Tensor)]
    options = dict(zip(op.once_positional, numbers, strict=False))
    today = ", ".join((*op.positional, *(f"{name}=" for name in options)))
    warnings.warn(
        f"{called}: numbers between the tensors are deprecated; write {called}({today}).",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    tensors = [value for value in args if isinstance(value, Tensor)]
    function = op.function if called == op.name else getattr(Tensor, called)
    return function(*tensors, **{**kwargs, **options})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | numpy.number)
