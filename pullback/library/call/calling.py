"""A call of a user's operator, whole: every mode, transform, device and kind of argument.

The fast path for the usual call is written by fast_path.py; whatever is not usual comes
here. The order is that of torch's dispatcher: who watches, mapped tensors, autocast, kernels
registered for autograd, then the graph, and below it the kernel of the device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from pullback.autograd.function.apply import alive
from pullback.core.forward import LEVELS, visible_levels
from pullback.core.mode import Mode, current, settle, with_grad
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor
from pullback.library.call import autocasting, kernels, returns, vmap_rule
from pullback.library.call.binding import bind
from pullback.library.call.executing import answering, called, tensors_of, unrecorded
from pullback.library.call.keys import DEVICE_KEYS, IMPLICIT
from pullback.library.call.recording import recorded
from pullback.library.overload import OpOverload, OpOverloadPacket
from pullback.library.registry import Kernel, Operator
from pullback.operators.dispatch import dispatch
from pullback.transforms.batched import is_batched_at
from pullback.transforms.vmap_level import VmapLevel

# Whether calls skip kernels registered for autograd, and the graph.
below: ContextVar[bool] = ContextVar("pullback_below_autograd", default=False)


class below_autograd(Whole):  # noqa: N801 (a context)
    """Inside, operators run their kernels alone: for kernels that do the work of autograd.

    >>> import pullback as torch
    >>> with torch._C._AutoDispatchBelowAutograd():
    ...     pass
    """

    _before: tuple[Mode, bool] | None = None

    def _enter(self) -> None:
        mode = settle()
        self._before = mode, below.get()
        below.set(True)
        current.set(with_grad(mode, grad=False))  # built-in operators record nothing either

    def _leave(self) -> None:
        if self._before is not None:
            current.set(self._before[0])
            below.set(self._before[1])


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
    if mode.levels and (taken := _at_level(operator, values, tensors, mode.levels)) is not None:
        return taken()
    if autocasting.enabled() and (inside := autocasting.region(operator, tensors)) is not None:
        return _in_region(operator, values, inside)
    is_below = below.get()
    if operator.legacy is not None and not is_below:
        operator.legacy.check_has_formula(operator, tensors, mode)
    if (mode.dispatch or answering(tensors)) and not operator.is_composite:
        kernel = kernels.BY_MODE  # whatever is registered, mode or class stands in its place
    else:
        kernel = kernels.choose(operator, values, tensors)
    if not is_below and (special := kernels.for_autograd(operator, tensors)) is not None:
        return _in_place_of_autograd(operator, special, values)
    if kernel.key == IMPLICIT:
        return returns.checked(operator, called(operator, kernel.kernel, values))
    if LEVELS:
        _refuse_tangents(operator, tensors)
    if operator.legacy is not None and not is_below:
        return operator.legacy.run(operator, values, kernel, mode)
    if operator.schema.is_view and operator.formula is not None:
        _refuse_symbolic_view(operator)
    if is_below or (operator.kind != "custom_op" and operator.formula is None):
        return unrecorded(operator, kernel, values, tensors, mode, graph=not is_below)
    return recorded(operator, kernel, values, tensors, mode)


def _at_level(
    operator: Operator, values: list[Any], tensors: list[Tensor], levels: tuple[Any, ...]
) -> Callable[[], Any] | None:
    """What a transform makes of the call; None where it concerns none of them."""
    composite = operator.kernels.get(IMPLICIT)
    for level in reversed(levels):
        if not isinstance(level, VmapLevel):
            names = [argument.name for argument in operator.schema.arguments]
            bound = dict(zip(names, values, strict=True))
            return partial(level.process, operator.declaration, bound)
        if any(is_batched_at(tensor, level) for tensor in tensors):
            if composite is not None and operator.vmap_rule is None:
                return lambda: returns.checked(operator, called(operator, composite, values))
            return partial(vmap_rule.apply, operator, values, level)
    return None


def _in_region(operator: Operator, values: list[Any], device_type: str) -> Any:
    """The call inside an autocast region: by its kernel for that, or with its inputs cast."""
    kernel = operator.kernels.get(f"Autocast{DEVICE_KEYS[device_type]}")
    with autocasting.without(device_type):
        if kernel is not None:
            return returns.checked(operator, called(operator, kernel, values))
        return run(operator, autocasting.cast(operator, values, device_type))


# Classes of tensors that are plain ones to an operator: parameters, and subclasses that change
# nothing of how operators see them. Found as they come by, so that later calls take the fast path.
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


def _refuse_symbolic_view(operator: Operator) -> None:
    """A view by sizes that may be symbols cannot be made anew by its formula."""
    for argument in operator.schema.arguments:
        if "SymInt" in argument.type.text:
            raise RuntimeError(
                f"{operator.qualname} returns a view, has a formula and takes the SymInt "
                f"{argument.name!r}; such operators are not supported. Declare it as an int."
            )


def _refuse_tangents(operator: Operator, tensors: list[Tensor]) -> None:
    for level in visible_levels():
        if any(level.get(tensor) is not None for tensor in tensors):
            raise NotImplementedError(
                f"{operator.qualname} has no forward-mode rule, and an argument of it carries a "
                "tangent. Use reverse mode (func.vjp, autograd.grad) for it, or write the function "
                "with operators that have one."
            )


def _in_place_of_autograd(operator: Operator, kernel: Kernel, values: list[Any]) -> Any:
    """A kernel registered for autograd: it does what the graph would, in the caller's mode."""
    return returns.checked(operator, called(operator, kernel, values))


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
    from pullback.library.call.fast_path import written

    cls.__call__ = written(operator)
