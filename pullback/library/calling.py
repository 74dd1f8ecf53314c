"""A call of a user's operator, whole: every mode, transform, device and kind of argument.

The straight line for the usual call is written by straight_line.py; whatever is not usual comes
here. The order is that of torch's dispatcher: who watches, mapped tensors, autocast, kernels
registered for autograd, then the graph, and below it the kernel of the device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pullback.autograd.function_apply import alive, finish, start
from pullback.core.forward import LEVELS, visible_levels
from pullback.core.mode import Mode, changed, current, get_mode, settle
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.library import alias_check, autocasting, fallback, kernels, returns, tags, vmap_rule
from pullback.library.binding import bind, split
from pullback.library.keys import IMPLICIT
from pullback.library.node import node_class
from pullback.library.overload import OpOverload, OpOverloadPacket
from pullback.library.registry import Kernel, Operator
from pullback.library.schema import Argument
from pullback.operators import dispatch
from pullback.operators.written import WRITTEN
from pullback.transforms.batched import is_batched_at
from pullback.transforms.vmap_level import VmapLevel

# Whether calls skip kernels registered for autograd, and the graph.
below: ContextVar[bool] = ContextVar("pullback_below_autograd", default=False)


class below_autograd:  # noqa: N801 (a context)
    """Inside, operators run their kernels alone: for kernels that do the work of autograd.

    >>> import pullback as torch
    >>> with torch._C._AutoDispatchBelowAutograd():
    ...     pass
    """

    def __enter__(self) -> None:
        self._token = below.set(True)
        self._before = settle()
        current.set(changed(self._before, grad=False))  # built-in operators record nothing either

    def __exit__(self, *_: object) -> None:
        current.set(self._before)
        below.reset(self._token)


def call(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator on whatever the caller passed."""
    if settle().functions:
        return dispatch.above(operator.overload, args, kwargs)
    if may_override(args) or may_override(kwargs.values()):
        taken, answer = dispatch.overloaded(operator.overload, args, kwargs)
        if taken:
            return answer
    values = bind(operator.schema, args, kwargs)
    result = run(operator, values)
    note_plain_classes(values)
    return result


def may_override(values: Any) -> bool:
    """Whether any value is of a class that could have a `__torch_function__`."""
    for value in values:
        kind = value.__class__
        if kind is list or kind is tuple:
            if may_override(value):
                return True
        elif kind not in PLAIN_CLASSES and hasattr(kind, "__torch_function__"):
            return True
    return False


def run(operator: Operator, values: list[Any]) -> Any:
    """Run an operator on bound values."""
    if not operator.alive:
        raise RuntimeError(
            f"{operator.qualname} no longer exists: the Library that defined it is gone."
        )
    tensors = tensors_of(values)
    if any(tensor.__class__ is not Tensor for tensor in tensors):
        values = [_alive(value) for value in values]
        tensors = tensors_of(values)
    mode = settle()
    if mode.levels and not operator.is_composite:
        for level in reversed(mode.levels):
            if not isinstance(level, VmapLevel):
                names = [argument.name for argument in operator.schema.arguments]
                return level.process(operator.declaration, dict(zip(names, values, strict=True)))
            if any(is_batched_at(tensor, level) for tensor in tensors):
                return vmap_rule.apply(operator, values, level)
    if operator.autocast and (cast := autocasting.cast(operator, values, tensors)) is not None:
        with autocasting.disabled(cast.device_type):
            return run(operator, cast.values)
    kernel = kernels.choose(operator, values, tensors)
    is_below = below.get()
    if not is_below and (special := kernels.for_autograd(operator, tensors)) is not None:
        return _in_place_of_autograd(operator, special, values)
    if kernel.key == IMPLICIT:
        return returns.checked(operator, _called(operator, kernel.kernel, values))
    if LEVELS:
        _refuse_tangents(operator, tensors)
    if operator.legacy is not None and not is_below:
        return operator.legacy.run(operator, values, kernel, mode)
    if is_below or (operator.kind != "custom_op" and operator.formula is None):
        return _unrecorded(operator, kernel, values, tensors, mode, graph=not is_below)
    return _recorded(operator, kernel, values, tensors, mode)


def tensors_of(values: Any) -> list[Tensor]:
    """The tensors among bound values, those in lists included."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif value.__class__ is list:
            found += [one for one in value if isinstance(one, Tensor)]
    return found


# Classes of tensors that are plain ones to an operator: parameters, and subclasses that change
# nothing of how operators see them. Found as they come by, so that later calls take the short way.
PLAIN_CLASSES: set[type] = {Tensor}


def note_plain_classes(values: list[Any]) -> None:
    """Remember the classes of tensors that need no special care."""
    for tensor in tensors_of(values):
        cls = tensor.__class__
        if cls in PLAIN_CLASSES:
            continue
        same = all(
            getattr(cls, name, None) is getattr(Tensor, name, None)
            for name in ("_array", "_cell", "_node", "device", "__torch_dispatch__")
        )
        own = getattr(getattr(cls, "__torch_function__", None), "__func__", None)
        if same and own is getattr(getattr(Tensor, "__torch_function__", None), "__func__", None):
            PLAIN_CLASSES.add(cls)


def _alive(value: Any) -> Any:
    if value.__class__ is list:
        return [alive(one) for one in value]
    return alive(value)


def _refuse_tangents(operator: Operator, tensors: list[Tensor]) -> None:
    for level in visible_levels():
        if any(level.get(tensor) is not None for tensor in tensors):
            raise NotImplementedError(
                f"{operator.qualname} has no forward-mode rule, and an argument of it carries a "
                "tangent. Use reverse mode (func.vjp, autograd.grad) for it, or write the function "
                "with operators that have one."
            )


def _called(operator: Operator, kernel: Kernel, values: list[Any]) -> Any:
    args, kwargs = split(operator.schema, values)
    if kernel.with_keyset:
        return kernel.function(kernels.KEYSET, *args, **kwargs)
    return kernel.function(*args, **kwargs)


def _in_place_of_autograd(operator: Operator, kernel: Kernel, values: list[Any]) -> Any:
    """A kernel registered for autograd: it does what the graph would, in the caller's mode."""
    return returns.checked(operator, _called(operator, kernel, values))


# Below the graph ----------------------------------------------------------------------------------


def kernel_mode(mode: Mode) -> Mode:
    """The mode that kernels run in: nothing is recorded, mapped or pushed forward."""
    if LEVELS or mode.levels:
        return changed(mode, grad=False, forward_ad=False, levels=())
    return changed(mode, grad=False)


def computed(operator: Operator, kernel: kernels.Chosen, values: list[Any]) -> Any:
    """The kernel's result, checked; writes that are declared are counted."""
    if get_mode().dispatch:
        # Below autograd, as for built-in operators: the mode stands in the place of the kernel.
        raw = dispatch.hand_over(operator.overload, *passed(operator, values))
    else:
        raw = _called(operator, kernel.kernel, values)
    result = returns.checked(operator, raw)
    if operator.schema.is_mutable:
        _count_writes(operator, values)
    if kernel.key != "Meta" and operator.kind != "define":
        module = getattr(kernel.kernel.function, "__module__", "an unknown module")
        alias_check.check(operator, values, result, module)
    if operator.result_rule is not None:
        operator.result_rule(operator, values, result)
    return result


def passed(operator: Operator, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound values as they may be passed: without those that stand at their defaults."""
    args, kwargs = split(operator.schema, values)
    defaults = {a.name: a.default_value for a in operator.schema.keyword_only}
    kept = {n: v for n, v in kwargs.items() if not dispatch.is_default(v, defaults[n])}
    return args[: least(operator, values)], kept


def _count_writes(operator: Operator, values: list[Any]) -> None:
    for argument, value in zip(operator.schema.arguments, values, strict=True):
        if argument.is_write:
            for tensor in tensors_of([value]):
                bump(tensor, operator.qualname)


def _unrecorded(
    operator: Operator,
    kernel: kernels.Chosen,
    values: list[Any],
    tensors: list[Tensor],
    mode: Mode,
    *,
    graph: bool,
) -> Any:
    """A kernel of the lower-level interface: it runs in the caller's grad mode."""
    if not graph:
        current.set(kernel_mode(mode))
    try:
        result = computed(operator, kernel, values)
    finally:
        current.set(mode)
    if graph and mode.grad and not mode.inference:
        fallback.attach(operator, tensors, returns.flat(result))
    return result


# The graph ----------------------------------------------------------------------------------------


def _recorded(
    operator: Operator,
    kernel: kernels.Chosen,
    values: list[Any],
    tensors: list[Tensor],
    mode: Mode,
) -> Any:
    recording = mode.grad and not mode.inference
    tracked = recording and any(tensor.requires_grad for tensor in tensors)
    if tracked and operator.refuses_recording:
        raise tags.recorded_out(operator)
    if tracked and operator.schema.is_mutable:
        fallback.warn_of_write(operator, values)
    if not tracked:
        current.set(kernel_mode(mode))
        try:
            return computed(operator, kernel, values)
        finally:
            current.set(mode)
    positional, keywords = split(operator.schema, values)
    flat_args = flattened(operator, positional)
    ctx = started(operator, positional, flat_args, values, mode)
    current.set(kernel_mode(mode))
    try:
        result = computed(operator, kernel, values)
        _set_up(operator, ctx, positional, keywords, result)
    finally:
        current.set(mode)
    return with_history(operator, ctx, flat_args, result, mode)


def started(
    operator: Operator,
    positional: tuple[Any, ...],
    flat_args: tuple[Any, ...],
    values: list[Any],
    mode: Mode,
    function: Any = None,
) -> Any:
    """The node of a call, with the edges that its arguments have before the kernel runs."""
    ctx = start(function or node_class(operator)._forward_cls, flat_args, mode)
    lists = [
        is_tensor_list(*pair) for pair in zip(operator.schema.positional, positional, strict=True)
    ]
    if any(lists):
        ctx._lengths = tuple(
            len(value) if listed else None for value, listed in zip(positional, lists, strict=True)
        )
        ctx.needs_input_grad = nested_needs(positional, ctx._lengths)
        # Even if all are tensors: gradients of lists have to be taken apart.
        ctx._is_tensor = tuple(isinstance(arg, Tensor) for arg in flat_args)
    else:
        ctx._lengths = None
    ctx._least = least(operator, values)
    return ctx


def is_tensor_list(argument: Argument, value: Any) -> bool:
    """Whether an argument is a list whose elements have gradients of their own."""
    return value.__class__ is list and argument.type.is_tensor_like


def flattened(operator: Operator, positional: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, tensors of lists one by one."""
    found: list[Any] = []
    for argument, value in zip(operator.schema.positional, positional, strict=True):
        if is_tensor_list(argument, value):
            found += value
        else:
            found.append(value)
    return tuple(found)


def nested_needs(positional: tuple[Any, ...], lengths: tuple[int | None, ...]) -> Any:
    """`ctx.needs_input_grad`: a bool for each argument, a list of them for lists of tensors."""
    return tuple(
        [isinstance(one, Tensor) and one.requires_grad for one in value]
        if length is not None
        else isinstance(value, Tensor) and value.requires_grad
        for value, length in zip(positional, lengths, strict=True)
    )


def least(operator: Operator, values: list[Any]) -> int:
    """How many positional arguments are left without trailing ones that are at their default."""
    count = len(operator.schema.positional)
    while count:
        argument, value = operator.schema.arguments[count - 1], values[count - 1]
        if not argument.has_default_value() or isinstance(value, Tensor):
            break
        if type(value) is not type(argument.default_value) or value != argument.default_value:
            break
        count -= 1
    return count


def _set_up(
    operator: Operator,
    ctx: Any,
    positional: tuple[Any, ...],
    keywords: dict[str, Any],
    result: Any,
) -> None:
    formula = operator.formula
    if formula is None or formula.setup_context is None:
        return
    if keywords:
        formula.setup_context(
            ctx=ctx, inputs=positional, keyword_only_inputs=keywords, output=result
        )
    else:
        formula.setup_context(ctx=ctx, inputs=positional, output=result)


def with_history(
    operator: Operator, ctx: Any, flat_args: tuple[Any, ...], result: Any, mode: Mode
) -> Any:
    """The result, led to the node; what the call wrote to stays as it was."""
    schema = operator.schema
    ctx._out_lengths = tuple(
        len(one) if isinstance(one, list) else 1
        for one in (result if isinstance(result, tuple) else (result,))
    )
    if schema.is_view:
        ctx._is_pure_view = True
    function = type(ctx)._forward_cls
    if isinstance(result, Tensor):
        if schema.returns[0].is_write:
            return result
        return finish(function, ctx, flat_args, result, mode, split=False)
    if result is None:
        return None
    values = returns.flat(result)
    written = [
        one.is_write
        for one, length in zip(_each_return(operator), ctx._out_lengths, strict=True)
        for _ in range(length)
    ]
    # In the place of what was written stands None, so that numbers of gradients stay right.
    own = tuple(None if write else value for value, write in zip(values, written, strict=True))
    made = finish(function, ctx, flat_args, own, mode, split=False)
    made = [
        value if write else new for value, new, write in zip(values, made, written, strict=True)
    ]
    return returns.rebuilt(result, made)


def _each_return(operator: Operator) -> list[Any]:
    schema = operator.schema
    elements = getattr(schema.returns[0].type, "elements", None)
    return schema.returns if elements is None else [schema.returns[0]] * len(elements)


# The object ---------------------------------------------------------------------------------------


class _Overload(OpOverload):
    """An overload of a user's operator; each gets a class of its own, whose call is written."""

    _operator: Operator

    def redispatch(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator below autograd: its kernel alone."""
        with below_autograd():
            return call(self._operator, args, kwargs)


def overload_of(operator: Operator, group: OpOverloadPacket, tags: list[Any]) -> OpOverload:
    """The object through which an operator is called."""
    cls = type("OpOverload", (_Overload,), {"__module__": OpOverload.__module__})
    overload: OpOverload = cls(group, operator.schema, _runner(operator), tags=tags)
    overload.__dict__["_operator"] = operator
    write_call(operator, cls)
    return overload


def _runner(operator: Operator) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(operator, args, kwargs)


def write_call(operator: Operator, cls: Any) -> None:
    """Give a class the `__call__` that is written for the operator's schema."""
    from pullback.library.straight_line import written

    before = cls.__dict__.get("__call__")
    WRITTEN[:] = [one for one in WRITTEN if one.function is not before]
    cls.__call__ = written(operator)
