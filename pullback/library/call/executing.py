"""Below the graph: a kernel runs, and its result is held against the schema."""

from __future__ import annotations

from typing import Any

from pullback.core.forward import LEVELS
from pullback.core.mode import Mode, changed, current, get_mode, with_grad
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.library.call import alias_check, fallback, kernels, returns
from pullback.library.call.binding import split
from pullback.library.registry import Kernel, Operator
from pullback.operators.dispatch import dispatch


def tensors_of(values: Any) -> list[Tensor]:
    """The tensors among bound values, those in lists included."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif value.__class__ is list:
            found += [one for one in value if isinstance(one, Tensor)]
    return found


def answering(tensors: list[Tensor]) -> list[Any]:
    """The tensors whose classes answer operators below autograd, one of each class."""
    if all(tensor.__class__ is Tensor for tensor in tensors):
        return []
    return dispatch.answering(dispatch.guests(tuple(tensors), {}))


def called(operator: Operator, kernel: Kernel, values: list[Any]) -> Any:
    """What a kernel makes of bound values."""
    args, kwargs = split(operator.schema, values)
    if kernel.with_keyset:
        return kernel.function(kernels.KEYSET, *args, **kwargs)
    return kernel.function(*args, **kwargs)


def kernel_mode(mode: Mode) -> Mode:
    """The mode that kernels run in: nothing is recorded, mapped or pushed forward."""
    if LEVELS or mode.levels:
        return changed(mode, grad=False, forward_ad=False, levels=())
    return with_grad(mode, grad=False)


def computed(operator: Operator, kernel: kernels.Chosen, values: list[Any]) -> Any:
    """The kernel's result, checked; writes that are declared are counted."""
    written = _written(operator, values) if operator.schema.is_mutable else []
    asked = answering(tensors_of(values))
    if get_mode().dispatch or asked:
        # Below autograd, as for built-in operators: mode or class stands in the kernel's place.
        before = [tensor._version for tensor in written]
        raw = dispatch.hand_over(operator.overload, *passed(operator, values), asked)
        # Where the handler ran the operator, the write is counted already.
        pairs = zip(written, before, strict=True)
        written = [tensor for tensor, version in pairs if tensor._version == version]
    else:
        raw = called(operator, kernel.kernel, values)
    result = returns.checked(operator, raw)
    for tensor in written:
        bump(tensor, operator.qualname)
    if kernel.key != "Meta" and operator.kind != "define" and not asked:
        module = getattr(kernel.kernel.function, "__module__", "an unknown module")
        alias_check.check(operator, values, result, module)
    if operator.result_rule is not None:
        operator.result_rule(operator, values, result)
    return result


def passed(operator: Operator, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound values as they may be passed: without those that stand at their defaults."""
    args, kwargs = split(operator.schema, values)
    defaults = {a.name: a.default for a in operator.schema.keyword_only}
    kept = {n: v for n, v in kwargs.items() if not dispatch.is_default(v, defaults[n])}
    return args[: least(operator, values)], kept


def _written(operator: Operator, values: list[Any]) -> list[Tensor]:
    """The tensors that the schema says are written."""
    pairs = zip(operator.schema.arguments, values, strict=True)
    return tensors_of([value for argument, value in pairs if argument.is_write])


def least(operator: Operator, values: list[Any]) -> int:
    """How many positional arguments are left without trailing ones that are at their default."""
    count = len(operator.schema.positional)
    while count:
        argument, value = operator.schema.arguments[count - 1], values[count - 1]
        if not argument.has_default_value() or isinstance(value, Tensor):
            break
        if type(value) is not type(argument.default) or value != argument.default:
            break
        count -= 1
    return count


def unrecorded(
    operator: Operator,
    kernel: kernels.Chosen,
    values: list[Any],
    tensors: list[Tensor],
    mode: Mode,
    *,
    graph: bool,
) -> Any:
    """A kernel of the lower-level interface: it runs in the caller's grad mode."""
    try:
        if not graph:
            current.set(kernel_mode(mode))
        result = computed(operator, kernel, values)
    finally:
        current.set(mode)
    if graph and mode.grad and not mode.inference:
        fallback.attach(operator, tensors, returns.flat(result))
    return result
