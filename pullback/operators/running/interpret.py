"""Runs a declaration step by step: every case, no hurry.

The built functions come here for whatever is not plain (numbers, mixed dtypes, transforms, hooks,
`out=`), and the tests compare the two.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy

from pullback.core import errors, overriding
from pullback.core.arrays import (
    F32,
    LIBRARIES,
    NAMESPACES,
    Array,
    as_array,
    library_among,
    namespace,
)
from pullback.core.dtype import NARROW, OF_NUMBERS, from_numpy_dtype
from pullback.core.explain.cause import ended
from pullback.core.forward import LEVELS, seeing, visible_levels
from pullback.core.home import is_ours
from pullback.core.layout import cast_kept
from pullback.core.memory.narrow import converted, number_array
from pullback.core.mode import FRESH, Mode, changed, current, fast, get_mode, settle
from pullback.core.origin import getframe
from pullback.core.ports import ports
from pullback.core.promotion import is_half, promote_to_float, result_dtype
from pullback.core.tensor import Tensor, class_for, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN
from pullback.operators.declare import REQUIRED, Op
from pullback.operators.derive import any_dual, propagate
from pullback.operators.dispatch import dispatch, replaced
from pullback.operators.options import missing
from pullback.operators.running import answered, layouts
from pullback.operators.running.answered import normalise as normalise
from pullback.operators.running.recording import KeptInputs, input_edges, pack_inputs, record

_WITH_DATA = frozenset({numpy.ndarray, type(None)})
# What NumPy raises where arrays do not fit; the user is told by `explained`.
REFUSALS = (ValueError, TypeError, MemoryError, OverflowError)
NUMBERS = (bool, int, float, complex, numpy.generic)
_USUAL = frozenset({Tensor, bool, int, float, complex, str, type(None)})
_KNOWN = (Tensor, tuple, list, numpy.ndarray, numpy.generic, bool, int, float, complex)


def call(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator on whatever the user passed."""
    for one in args:
        if one is REQUIRED:  # asked here too: a call more would cost each call that is not plain
            check_given(op, op.name, args)
    mode = get_mode()
    if mode is FRESH:
        mode = settle()
    if mode.dispatch or overriding.answering:
        answer = answered.shortly(op, args, kwargs, mode)
        if answer is not answered.ELSEWHERE:
            return answer
    if mode.autocast is not None and not mode.functions and not _overriding(args, kwargs):
        return ports.autocast(op, args, kwargs, mode)
    out = kwargs.pop("out", None)
    if mode.functions:
        bind(op, args, kwargs)  # a wrong call is refused before anybody is asked
        return dispatch.public_call(op, args, kwargs, out)
    asked: list[Any] = []
    if overriding.classes and (found := dispatch.guests(args, kwargs, out)):
        functions, asked = dispatch.apart(found)
        if functions:
            answer = dispatch.overridden(op, args, kwargs, out, functions)
            if answer is not NotImplemented:
                return answer
    bound = bind(op, args, kwargs)
    if op.numbers:
        for one in bound.values():  # a generator is a call
            if type(one) not in _USUAL and not isinstance(one, _KNOWN):
                bound = with_elements(op, bound)
                break
    if replaced.kernels and out is None:
        answer = replaced.answer(op, op.name, bound, mode)
        if answer is not replaced.ELSEWHERE:
            return answer
    if layouts.HANDLERS:
        taken, answer = layouts.taken(op, op.name, bound, out)
        if taken:
            return answer
    answers = bool(asked or mode.dispatch)
    watched = answers or mode.tracing is not None
    if mode.dual_depth == 1 and out is None and mode.forward_ad and not watched:
        answer = ports.pushed(op, mode, bound)
        if answer is not NotImplemented:
            return answer
    if mode.levels:
        if out is not None:
            raise RuntimeError(
                f"{op.name}: out= cannot be used inside vmap; use the value that is returned."
            )
        return mode.levels[-1].process(op, bound)
    if mode.dual_depth and out is None:
        return _with_tangents(op, bound, mode)
    if answers and out is None and any_tensor(bound):
        return answered.call(op, bound, mode, asked)
    values = {p.name: bound[p.name] for p in op.inputs}
    if not any_tensor(values) and not (op.of_numbers and _all_numbers(values)):
        if mode.tracing is not None and any_array(values):
            options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
            return mode.tracing.arrays(op, values, options)
        taken, answer = ports.met(op, args, kwargs)
        if taken:
            return answer
        raise errors.not_a_tensor(op.name, op.inputs[0].name, bound[op.inputs[0].name])
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    if answers and out is not None:  # without one of numbers alone, which nobody takes
        check_out(op, out, values, mode)
        dispatch.results(op, {**bound, "out": out}, asked)
        return out
    if mode.tracing is not None:
        return _written_down(op, values, options, out, mode)
    try:
        arrays = input_arrays(op, values)
    except TypeError:
        taken, answer = ports.met(op, args, kwargs)
        if taken:
            return answer
        raise
    normalise(op, options, arrays)
    if out is not None:
        if any_dual(values):
            raise NotImplementedError(
                f"{op.name}: out= cannot take a result with a tangent; leave it away."
            )
        exact = options.get("dtype") is not None  # asked for: nothing is converted once more
        return _into(op, out, values, compute(op, arrays, options), mode, exact=exact)
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    result = compute(op, arrays, options)
    tensors = [_result(array, mode) for array in outputs_of(op, result)]
    return finished(op, values, options, tensors, mode, kept)


def check_given(op: Op, called: str, args: tuple[Any, ...]) -> None:
    """Refuse a call that lacks an argument: what has NumPy's names too may stay away in a `def`."""
    for place, one in enumerate(args):
        if one is REQUIRED:  # `sum.full` is `sum` to users
            raise missing(called.partition(".")[0], op.positional[place])


def elsewhere(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A plain call with an array of another library: by the line that was written for that."""
    for one in args:
        library = LIBRARIES.get(type(getattr(one, "_array", None)))
        if library is not None:
            return library.call(op, args, kwargs)
    return call(op, args, kwargs)


def _overriding(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument overrides calls itself: it is asked before autocast."""
    return bool(overriding.classes and dispatch.types_of(args, kwargs))


def finished(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    tensors: list[Tensor],
    mode: Mode,
    kept: KeptInputs | None,
) -> Any:
    """The results, with their history and tangents."""
    record(op, values, options, tensors, mode, kept)
    if mode.grad and not mode.inference and values:
        for one in tensors:
            if one._node is None and one._cell is UNWRITTEN:
                one._cell = ended(op.name, getframe(2), *values.values())
    if LEVELS:
        propagate(op, values, options, tensors)
    return tensors[0] if len(op.outputs) == 1 and op.outputs != ("*",) else tuple(tensors)


def _written_down(
    op: Op, values: dict[str, Any], options: dict[str, Any], out: Any, mode: Mode
) -> Any:
    """The call as a step of the program that is being captured, recorded like any other."""
    if out is not None:
        targets = check_out(op, out, values, mode)
        mode.tracing.results_into(op, targets, values, options)
        return out
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    tensors = mode.tracing.results(op, values, options)
    return finished(op, values, options, tensors, mode, kept)


def _with_tangents(op: Op, bound: dict[str, Any], mode: Mode) -> Any:
    """The operator as it runs outside of function transforms, then the tangents of its results."""
    try:
        current.set(changed(mode, dual_depth=seeing(0)))
        made = op.function(**bound)
    finally:
        current.set(mode)
    results = list(made) if isinstance(made, tuple | list) else [made]
    if all(isinstance(result, Tensor) for result in results):
        values = {p.name: bound[p.name] for p in op.inputs}
        options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
        normalise(op, options, values)
        propagate(op, values, options, results)
    return made


def bind(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, defaults filled in."""
    positional = op.positional
    if not kwargs and not op.keywords and len(args) == len(positional):
        return dict(zip(positional, args, strict=True))
    if len(args) == len(positional) and kwargs.keys() == op.keywords:
        return {**dict(zip(positional, args, strict=True)), **kwargs}
    if len(args) > len(positional):
        raise TypeError(
            f"{op.name}() takes at most {len(positional)} positional arguments ({len(args)} given)."
        )
    bound = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        if name in bound:
            raise TypeError(f"{op.name}() got two values for argument {name!r}.")
        bound[name] = value
    known = {param.name for param in op.params}
    if unknown := bound.keys() - known:
        raise TypeError(
            f"{op.name}() got an unknown argument {sorted(unknown)[0]!r}; it takes {sorted(known)}."
        )
    for param in op.params:
        if param.name not in bound:
            if param.default is REQUIRED:
                raise TypeError(f"{op.name}() misses its argument {param.name!r}.")
            bound[param.name] = param.default
    return bound


def with_elements(op: Op, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments, numbers of types that NumPy does not know as tensors: core/numbers."""
    from pullback.operators.running.on_numbers import as_tensor

    return {
        name: as_tensor(one) if name in op.number_names and type(one) not in _USUAL else one
        for name, one in bound.items()
    }


def any_tensor(values: dict[str, Any]) -> bool:
    """Whether any input is a tensor."""
    for value in values.values():
        if isinstance(value, Tensor):
            return True
        if isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value):
            return True
    return False


def _all_numbers(values: dict[str, Any]) -> bool:
    return all(isinstance(value, numbers.Number) for value in values.values())


def any_array(values: dict[str, Any]) -> bool:
    """Whether any input is a bare array, as rules on arrays give them while they are captured."""
    return any(isinstance(value, numpy.ndarray | numpy.generic) for value in values.values())


def input_arrays(op: Op, values: dict[str, Any]) -> dict[str, Any]:
    """Arrays of the inputs, brought to one dtype where the operator promotes."""
    arrays: dict[str, Any] = {}
    for param in op.inputs:
        value = values[param.name]
        if param.kind == "tensors":
            arrays[param.name] = tuple(_array_of(op, param.name, v) for v in value)
        elif value is None and param.kind == "optional":
            arrays[param.name] = None
        else:
            arrays[param.name] = _array_of(op, param.name, value)
    if op.check_inputs is not None:
        op.check_inputs(op.name, arrays)
    return promoted(op, arrays) if op.promote else arrays


def _is_own(value: Any) -> bool:
    """Whether it is an array that is met inside alone (of a captured program, of a device).

    One of NumPy's own classes comes from the user, who means a tensor.
    """
    kind = type(value)
    if kind in LIBRARIES:
        return True
    return isinstance(value, numpy.ndarray) and is_ours(kind)


def _array_of(op: Op, name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array
    if _is_own(value):
        return value
    if name in op.number_names:
        if isinstance(value, numpy.generic):
            return value.item() if op.promote else as_array(value)
        if isinstance(value, numbers.Number):
            return value
    raise errors.not_a_tensor(op.name, name, value)


def promoted(op: Op, arrays: dict[str, Any]) -> dict[str, Any]:
    """All of `arrays` (Python numbers among them) in the dtype that torch computes in."""
    flat = [v for v in arrays.values() if v is not None and type(v) is not tuple]
    dtype = result_dtype(flat)
    if op.promote == "float":
        dtype = promote_to_float(dtype)
    return {name: _cast(op, value, dtype) for name, value in arrays.items()}


_PLAIN = frozenset({numpy.ndarray, int, float})


def brought(op: Op, *operands: Any) -> list[Any] | None:
    """The operands of a written function in the dtype that torch computes in.

    None if one is neither a plain array nor a number.
    """
    for one in operands:
        if type(one) not in _PLAIN:
            return None
    if op.check_inputs is not None:
        names = [param.name for param in op.inputs]
        op.check_inputs(op.name, dict(zip(names, operands, strict=True)))
    dtype = result_dtype(operands)
    if op.promote == "float":
        dtype = promote_to_float(dtype)
    if op.wide_numbers and is_half(dtype):
        return None
    return [_cast(op, one, dtype) for one in operands]


def _cast(op: Op, value: Any, dtype: numpy.dtype[Any]) -> Any:
    if value is None or type(value) is tuple:
        return value
    if op.wide_numbers and is_half(dtype) and getattr(value, "ndim", 0) == 0:
        dtype = dtype if getattr(value, "dtype", None) == dtype else F32
    if isinstance(value, numbers.Number) and not isinstance(value, numpy.generic):
        if dtype.char == OF_NUMBERS:
            return number_array(value, dtype)
        try:
            made = numpy.array(value, None if dtype in NARROW else dtype)
            return converted(made, dtype) if dtype in NARROW else made
        except OverflowError:
            if isinstance(value, int) and dtype.kind in "iu" and abs(value) < 2**63:
                return numpy.array(value).astype(dtype)  # wraps, as torch does
            raise RuntimeError(
                f"{op.name}: the number {value} does not fit {from_numpy_dtype(dtype)}."
            ) from None
    if value.dtype == dtype:
        return value
    return converted(value, dtype) if dtype in NARROW else cast_kept(value, dtype)


def compute(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """The forward's results; its refusals explained."""
    if len(NAMESPACES) > 1 and any(type(one) not in _WITH_DATA for one in arrays.values()):
        library = library_among(arrays.values()) if LIBRARIES else None
        if library is not None:
            try:
                return rounded_once(op, arrays, library.compute(op, arrays, options))
            except REFUSALS as error:
                raise explained(op, arrays, error) from None
        from pullback.operators.running import meta

        if meta.among(arrays):
            try:
                return rounded_once(op, arrays, meta.compute(op, arrays, options))
            except REFUSALS as error:
                raise explained(op, arrays, error) from None
        from pullback.operators.running import on_numbers

        if on_numbers.among(arrays):
            try:
                return on_numbers.compute(op, arrays, options)
            except on_numbers.CLEAR:
                raise
            except REFUSALS as error:
                raise explained(op, arrays, error) from None
    first = next((v for v in arrays.values() if v is not None), None)
    xp = namespace(first[0] if type(first) is tuple and first else first)
    try:
        return rounded_once(op, arrays, op.forward(xp, **arrays, **options))
    except REFUSALS as error:
        raise explained(op, arrays, error) from None


def rounded_once(op: Op, arrays: dict[str, Any], result: Any) -> Any:
    """The result in half precision, where only a number beside it made it float32."""
    if not op.wide_numbers or result.dtype != F32:
        return result
    for one in arrays.values():
        if is_half(one.dtype):
            return result.astype(one.dtype)
    return result


def explained(
    op: Op, arrays: dict[str, Any], error: Exception, target: Array | None = None
) -> Exception:
    """NumPy's refusal in torch's type, with the operator's name and the shapes."""
    if op.check_inputs is not None:  # which the fast path leaves to NumPy
        try:
            op.check_inputs(op.name, arrays)
        except RuntimeError as clearer:
            return clearer
    shapes = [getattr(v, "shape", None) for v in arrays.values() if v is not None]
    if op.kind == "elementwise" and None not in shapes:
        try:
            numpy.broadcast_shapes(*shapes)  # type: ignore[arg-type]  # no None among them
        except ValueError:
            return errors.shapes_do_not_broadcast(op.name, *shapes)  # type: ignore[arg-type]  # no None among them
        result = numpy.broadcast_shapes(*shapes)  # type: ignore[arg-type]  # no None among them
        if target is not None and result != target.shape:
            return errors.inplace_shape(f"{op.name}_", target.shape, result)
    listed = ", ".join(f"{name} {getattr(v, 'shape', v)}" for name, v in arrays.items())
    return errors.kernel_failed(op.name, listed, error)


def outputs_of(op: Op, result: Any) -> list[Array]:
    """The forward's outputs as a list of arrays."""
    if len(op.outputs) == 1 and op.outputs != ("*",):
        return [as_array(result)]
    return [as_array(value) for value in result]


def _result(array: Array, mode: Mode) -> Tensor:
    tensor = new(Tensor if type(array) is numpy.ndarray else class_for(array))
    tensor._array = array
    tensor._node = None
    if mode.inference:
        tensor._cell = INFERENCE_CELL
    else:
        tensor._cell = UNWRITTEN if mode.grad else fast.unrecorded
    return tensor


def _into(op: Op, out: Any, values: dict[str, Any], result: Any, mode: Mode, *, exact: bool) -> Any:
    from pullback.operators.running.inplace import check_out_dtype, check_target, write_out

    targets = check_out(op, out, values, mode)
    results = outputs_of(op, result)
    operands = values if op.kind == "elementwise" else None
    for target, array in zip(targets, results, strict=True):  # all of them, before any is written
        if op.exact_out:
            _check_apart(op, target, values)
        precise = exact or not op.casts_out or op.exact_out
        if precise and not _is_absolute(op, target, array, values):
            check_out_dtype(op.name, target, array)
        check_target(op.name, target, array, operands)
    for target, array in zip(targets, results, strict=True):
        write_out(op.name, target, array, operands)
    return out


def _is_absolute(op: Op, target: Tensor, array: Array, values: dict[str, Any]) -> bool:
    """Whether absolute values go where torch lets them: real ones, or as what they are of."""
    if op.kind != "elementwise" or array.dtype.kind in "cW":
        return False
    first = next(iter(values.values()))
    if not isinstance(first, Tensor):  # a number: what is absolute of it is real
        return False
    own = first._array.dtype
    return own.kind in "cW" and (target._array.dtype.kind not in "cW" or target._array.dtype == own)


def _check_apart(op: Op, target: Tensor, values: dict[str, Any]) -> None:
    if op.kind == "elementwise":
        return
    for value in values.values():
        if isinstance(value, Tensor) and numpy.may_share_memory(value._array, target._array):
            raise errors.written_while_read(op.name)


def check_out(op: Op, out: Any, values: dict[str, Any], mode: Mode) -> Any:
    """The tensors given as `out=`; refused where gradients would be lost."""
    single = len(op.outputs) == 1 and op.outputs != ("*",)
    targets = (out,) if single or isinstance(out, Tensor) else out
    if not isinstance(targets, tuple | list) or (not single and len(targets) != len(op.outputs)):
        raise TypeError(
            f"{op.name}(): argument `out` must be {len(op.outputs)} Tensors, got "
            f"{type(out).__name__ if not isinstance(out, tuple | list) else len(out)}."
        )
    for target in targets:
        if not isinstance(target, Tensor):
            raise errors.not_a_tensor(op.name, "out", target)
    if LEVELS and any(level.get(one) is not None for level in visible_levels() for one in targets):
        raise NotImplementedError(
            f"{op.name}: out= cannot be a tensor with a tangent, which would stay; leave it away."
        )
    tracked = any(edge is not None for edge in input_edges(op, values))
    if mode.grad and (tracked or any(target.requires_grad for target in targets)):
        raise errors.out_requires_grad(op.name)
    return targets
