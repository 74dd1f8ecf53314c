"""`Function.apply`, whole: keywords, both styles, tangents, transforms, every kind of result.

The fast path for the usual call is in function.py.
"""

from __future__ import annotations

import inspect
from typing import Any

from pullback.autograd.function import errors as function_errors
from pullback.autograd.function.jvp import propagate, series_batches
from pullback.autograd.function.results import Results
from pullback.autograd.function.saved import save
from pullback.autograd.function.vmap import apply_at, has_generated_rule, level_of
from pullback.core.arrays import LIBRARIES, recorded_on_devices
from pullback.core.explain import anomaly
from pullback.core.explain.cause import inherited
from pullback.core.forward import LEVELS, visible_levels
from pullback.core.mode import Mode, changed, current, settle
from pullback.core.nesting import inside_transform, running
from pullback.core.node import QUIET
from pullback.core.origin import getframe, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.transforms.batched import Batched


def apply_whole(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a custom Function on whatever the user passed, in any mode."""
    mode = settle()
    split = is_split(cls)
    args = bound(cls, args, kwargs, split=split)
    levels = mode.levels
    if LEVELS:
        series = series_batches(cls, args)
        levels = tuple(one for one in levels if one not in series)
    if mode.levels:
        mode.levels[-1].refuse_function(cls)
    # Batches of dual tensors map tangents alone: forward sees nothing of it, and jvp takes them.
    derivatives = running.get()
    mapped = levels and (derivatives or any(not one.for_tangents for one in levels))
    if not split and (mapped or derivatives):
        raise function_errors.needs_setup_context(cls.__name__)
    args = tuple(alive(arg) for arg in args)
    if mapped:
        has_generated_rule(cls)  # refused without a rule, whatever the arguments are
        level = level_of(args, levels)
        if level is not None:
            return apply_at(cls, args, level)
    ctx = start(cls, args, mode)
    try:
        current.set(changed(mode, grad=False, forward_ad=False))
        if split:
            raw = cls.forward(*args)
            cls.setup_context(ctx, args, raw)
        else:
            raw = cls.forward(ctx, *args)
    finally:
        current.set(mode)
    return finish(cls, ctx, args, raw, mode, split=split)


def alive(arg: Any) -> Any:
    """The argument, out of the wrappers of transforms that have ended."""
    while arg.__class__ is Batched and not arg.level.open:
        arg = arg.value
    return arg


def is_split(cls: Any) -> bool:
    """Whether forward does without ctx, and setup_context gets it."""
    return cls.setup_context is not missing_setup_context


def missing_setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Called after a forward that takes no ctx: the place to save for backward.

    `inputs` is the tuple of all arguments, `output` what forward returned.
    """
    raise function_errors.no_setup_context(type(ctx)._forward_cls.__name__)


def node_class(cls: Any) -> Any:
    """The class of a call's node; inside reverse transforms it has a name of its own, as torch's.

    There the node is one that the transform made from the Function's methods.
    """
    usual = cls._backward_cls
    if not any(derivative.level is None for derivative in running.get()):
        return usual
    known = usual.__dict__.get("_generated")
    if known is None:
        name = f"{cls.__name__}GeneratedBackward"
        members = {"__module__": usual.__module__, "__qualname__": name}
        known = usual._generated = type(name, (usual,), members)
    return known


def start(cls: Any, args: tuple[Any, ...], mode: Mode) -> Any:
    """The ctx of a call, with the edges that the arguments have before forward runs."""
    ctx = node_class(cls)()
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    recording = mode.grad and not mode.inference
    ctx._edges = tuple(edge_of(tensor) for tensor in tensors) if recording else ()
    ctx._is_tensor = (
        None if len(tensors) == len(args) else tuple(isinstance(arg, Tensor) for arg in args)
    )
    ctx.needs_input_grad = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
    ctx.to_save = ctx._rare = ctx._g_sizes = None
    ctx._saved = ctx._versions = ()
    ctx._materializes = True
    ctx._cold = QUIET
    frame = user_frame(getframe(2))
    ctx._code, ctx._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    ctx._seq = numbering.next()
    if LIBRARIES:
        recorded_on_devices(ctx)
    return ctx


def finish(cls: Any, ctx: Any, args: tuple[Any, ...], raw: Any, mode: Mode, *, split: bool) -> Any:
    """Everything after forward: history, tangents, saved values; in this order."""
    recorded = any(edge is not None for edge in ctx._edges)
    if not recorded:
        ctx._edges = ()
    elif anomaly.state.enabled:
        anomaly.remember(ctx)
    results = Results(ctx, args, raw, recorded=recorded)
    if split:
        results.also_saved = (*_tuple(ctx.to_save), *_tuple(ctx.saved_for_forward))
    outputs = results.finish()
    if not recorded and mode.grad:
        pass_cause_on(args, outputs)
    if LEVELS and visible_levels():
        propagate(ctx, args, outputs, results.dirty)
    to_save = ctx.to_save
    ctx.to_save = None
    ctx._saved = ctx._versions = ()
    if recorded and to_save is not None:
        save(cls, ctx, to_save, mode)
    if ctx._rare is not None:
        for name in ("dirty_tensors", "non_differentiable", "saved_for_forward"):
            ctx._rare.pop(name, None)
    return outputs if isinstance(raw, tuple) else outputs[0]


def pass_cause_on(args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Results would say that the no_grad around forward is why they have no history."""
    cell = inherited(*args)
    for one in outputs:
        if isinstance(one, Tensor) and one._node is None and one._cell.__class__ is tuple:
            one._cell = cell


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


_POSITIONAL = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


# Arguments by keyword -----------------------------------------------------------------------------


def bound(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, split: bool
) -> tuple[Any, ...]:
    """All arguments by position. The split style fills in defaults, as torch does."""
    if not split:
        return _in_order(cls, args, kwargs) if kwargs else args
    if not kwargs and fills(cls, len(args)):
        return args
    call = inspect.signature(cls.forward).bind(*args, **kwargs)
    call.apply_defaults()
    if call.kwargs:
        if inside_transform():
            raise function_errors.keyword_in_transform(cls.__name__, next(iter(call.kwargs)))
        names = list(inspect.signature(cls.forward).parameters)
        raise function_errors.unknown_argument(cls.__name__, next(iter(call.kwargs)), names)
    return call.args


def fills(cls: Any, count: int) -> bool:
    """Whether so many positional arguments leave no parameter of a split forward to its default."""
    forward = getattr(cls.forward, "__func__", cls.forward)
    node_class = cls._backward_cls
    known = node_class.__dict__.get("_forward_arity")
    if known is None or known[0] is not forward:
        kinds = [parameter.kind for parameter in _parameters(cls.forward)]
        positional = sum(kind in _POSITIONAL for kind in kinds)
        others = set(kinds) - _POSITIONAL
        variadic = others == {inspect.Parameter.VAR_POSITIONAL}
        known = (forward, positional if variadic or not others else None, variadic)
        node_class._forward_arity = known
    least = known[1]
    return least is not None and (count == least or (known[2] and count > least))


def _parameters(forward: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(forward).parameters.values())


def _in_order(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    parameters = _parameters(cls.forward)[1:]  # without ctx
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    by_name = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    for name in kwargs:
        if name not in by_name:
            raise function_errors.unknown_argument(cls.__name__, name, by_name)
        if names.index(name) < len(args):
            raise function_errors.argument_twice(name)
    values = list(args)
    left = dict(kwargs)
    for position, name in enumerate(names[len(args) :], start=len(args)):
        if not left:
            break
        if name not in left:
            raise function_errors.argument_gap(cls.__name__, name, position)
        values.append(left.pop(name))
    return tuple(values)
