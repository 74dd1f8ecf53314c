"""What shape, dtype and strides the results of a call will have.

For most calls a look at the inputs says it; the rest is asked of the declaration's own forward, the
way tensors on device "meta" ask (operators/running/meta.py).
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.interpreter.words import words
from pullback.core.memory import meta
from pullback.core.memory.meta import MetaArray
from pullback.operators.declare import Op
from pullback.operators.running import meta as operators_meta

__all__ = ["has_its_shapes", "may_round", "results_of"]


def results_of(
    tracer: Any, op: Op, arrays: dict[str, Any], options: dict[str, Any]
) -> tuple[list[Any], bool]:
    """Arrays of the geometry of an operator's results, and whether it drew random numbers."""
    single = len(op.outputs) == 1 and op.outputs != ("*",)
    if op.kind == "view":
        made = _viewed(op, arrays, options)
        return ([made] if single else list(made)), False
    if op.kind == "elementwise" and single:
        quick = _elementwise(op, arrays, options)
        if quick is not None:
            return [quick], False
    given = {name: _without_data(one) for name, one in arrays.items()}
    tracer.inferring, tracer.drew = True, False
    try:
        made = operators_meta.compute(op, given, options)
    except NotImplementedError as error:
        raise CannotCapture(f"{op.name}: {error}") from error
    except (ValueError, TypeError) as error:
        from pullback.operators.running.interpret import explained

        raise explained(op, given, error) from None
    finally:
        tracer.inferring = False
    return ([made] if single else list(made)), tracer.drew


def may_round(call: Call) -> bool:
    """Whether sizes of its results may be no simple expressions of sizes of its inputs.

    A pool or a diagonal rounds, or takes the smaller of two.
    """
    op = call.op
    if op is None or call.random or op.kind == "elementwise" or op.meta:
        return False
    return op.name not in _SIMPLE and "adjoint" not in op.name


def has_its_shapes(call: Call) -> bool:
    """Whether an operator itself gives the shapes that a call is written with."""
    op = call.op
    assert op is not None
    names = {one.name for one in op.inputs}
    given: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, one in call.kwargs.items():
        (given if name in names else options)[name] = _without_data(one)
    try:
        made = operators_meta.compute(op, given, options)
    except Exception:  # eager says what is wrong
        return False
    single = len(op.outputs) == 1 and op.outputs != ("*",)
    shapes = [tuple(one.shape) for one in ([made] if single else made)]
    return shapes == [tuple(one.shape) for one in call.results]


def _viewed(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """A view operator reads nothing, so it runs as it is."""
    try:
        return op.forward(numpy, **arrays, **options)
    except (ValueError, TypeError) as error:
        from pullback.operators.running.interpret import explained

        raise explained(op, arrays, error) from None


def _without_data(one: Any) -> Any:
    if one.__class__ in (TracedArray, Value):
        return meta.strided(one.shape, one.dtype, one.strides)
    if one.__class__ is tuple:
        return tuple([_without_data(part) for part in one])
    return one


# Operators that keep, move, repeat, cut (which sizes/family.py looks at) and pick.
_SIMPLE = words("""
    _view _reshape_alias _unsafe_view expand_view transpose t _permute unsqueeze _squeeze
    _squeeze_dims _squeeze_all select slice_along unbind _split _unsafe_split _split_with_sizes
    _cat _stack clone embedding index_select gather _index scatter scatter_add index_add index_copy
    masked_fill _index_put tril triu flip _to_copy _to_fixed
""")
_PLAIN = frozenset({float, int, bool, str, type(None)})  # options that a formula can be told
_OF_FORMULAS = (numpy.float32, numpy.float64, numpy.float16)
_known: dict[Any, Any] = {}
_shape_of: Any = numpy.ndarray.shape.__get__  # a descriptor of C
_MOST_KNOWN = 5000


def _elementwise(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> MetaArray | None:
    """The result of contiguous operands; its dtype is asked once for each of their dtypes."""
    shapes: list[Any] = []
    key: list[Any] = [op]
    for one in arrays.values():
        if one.__class__ is TracedArray:
            if not one.flags.c_contiguous:
                return None
            shapes.append(_shape_of(one))  # plain numbers: comparing them is no decision
            key.append(one.dtype)
        elif isinstance(one, numpy.ndarray):
            shapes.append(one.shape)
            key.append(one.dtype)
        else:
            key.append(type(one))
    if options:
        try:
            key.append(
                tuple((name, type(one), one) for name, one in options.items())
            )  # 1 is no True
            hash(key[-1])
        except TypeError:
            return None
    shape = shapes[0]
    for one in shapes[1:]:
        if one == shape or not one:
            continue
        if shape:
            try:
                shape = numpy.broadcast_shapes(*shapes)
            except ValueError:
                return None  # said properly by the slow path
            break
        shape = one
    known = _known.get(tuple(key))
    if known is None:
        known = _told(op, arrays, options)
        if known is not None:
            _known[tuple(key)] = known
    if known is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        given = {name: _without_data(one) for name, one in arrays.items()}
        made: MetaArray = operators_meta.compute(op, given, options)
        if made.shape != shape or not made.flags.c_contiguous:
            return made
        known = _known[tuple(key)] = made.dtype
    return meta.of(shape, known)


def _told(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """The dtype of a result that need not be asked for: a formula has that of its operands.

    Running one of the normal law once would load SciPy, a quarter of a second.
    """
    if op.formula is None and op.name != "erf":
        return None
    dtypes = {getattr(one, "dtype", None) for one in arrays.values() if one is not None}
    dtype = dtypes.pop()
    if dtypes or dtype not in _OF_FORMULAS:
        return None
    if op.formula is not None:
        if any(type(one) not in _PLAIN for one in options.values()):
            return None
        missing = tuple([name for name, one in arrays.items() if one is None])
        op.formula.root(tuple([options[name] for name in op.formula.options]), missing)  # refuses
    return dtype
