"""The functions that register something on an operator named by a string, overload or definition.

With `lib` a registration lives as long as that Library; without, for ever.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import origin
from pullback.library import low_level, registering, registry
from pullback.library.call.keys import IMPLICIT, device_keys
from pullback.library.definition import CustomOpDef
from pullback.library.overload import OpOverload
from pullback.library.registry import Operator

__all__ = [
    "impl_abstract",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]


def _decorated(register: Callable[[Any], object], function: Any) -> Any:
    """Register a function, or return what does."""

    def decorate(given: Any) -> Any:
        register(given)
        return given

    return decorate if function is None else decorate(function)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Register a kernel for one type of device, several, or None: all without one of their own.

    >>> import pullback as torch
    >>> torch.library.define("doc::fourfold", "(Tensor x) -> Tensor")
    >>> @torch.library.register_kernel("doc::fourfold", "cpu")
    ... def _(x):
    ...     return x * 4
    >>> torch.ops.doc.fourfold(torch.ones(2))
    tensor([4., 4.])
    """
    if not isinstance(op, str | OpOverload | CustomOpDef):
        raise _no_operator("register_kernel", op)
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    operator = registry.find(op, "register_kernel")

    def register(function: Callable[..., Any]) -> None:
        # The implementation for all devices of a plain definition is differentiated through.
        keys = [IMPLICIT] if device_types is None and operator.kind == "define" else None
        for key in keys or device_keys(device_types):
            low_level.add_kernel(lib, operator.qualname, key, function)

    return _decorated(register, func)


def _no_operator(asking: str, op: Any) -> ValueError:
    return ValueError(
        f"{asking}: the operator must be a name such as 'ns::op', an OpOverload or a CustomOpDef, "
        f"got {type(op).__name__}."
    )


def _registered(op: Any, asking: str, lib: Any, attribute: str) -> Operator:
    """The operator; what is registered there ends with `lib`."""
    operator = registry.find(op, asking)
    if lib is not None:
        lib._ends_with(operator, attribute)
    return operator


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Register how an operator is differentiated.

    `setup_context(ctx, inputs, output)` runs after the kernel and saves what is needed;
    `backward(ctx, *grads)` returns one gradient for each positional argument.

    >>> import pullback as torch
    >>> torch.library.define("doc::half", "(Tensor x) -> Tensor")
    >>> torch.library.impl("doc::half", "cpu", lambda x: x / 2)  # doctest: +ELLIPSIS
    <function ...>
    >>> torch.library.register_autograd("doc::half", lambda ctx, g: g / 2)
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.ops.doc.half(x).sum().backward()
    >>> x.grad
    tensor([0.5000, 0.5000])
    """
    operator = _registered(op, "register_autograd", lib, "formula")
    views = isinstance(op, CustomOpDef)
    registering.autograd(operator, backward, setup_context, views=views)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register what an operator returns for tensors that have no data.

    >>> import pullback as torch
    >>> torch.library.define("doc::pairs", "(Tensor x) -> Tensor")
    >>> @torch.library.register_fake("doc::pairs")
    ... def _(x):
    ...     return x.new_empty((x.shape[0], x.shape[0]))
    """
    if isinstance(op, CustomOpDef):
        return _decorated(op.register_fake, func)
    operator = _registered(op, "register_fake", lib, "fake")
    return _decorated(
        lambda given: registering.fake(operator, given, allow_override=allow_override), func
    )


def impl_abstract(
    qualname: str, func: Callable[..., Any] | None = None, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """The old name of `register_fake`."""
    warnings.warn(
        "impl_abstract is the old name of register_fake; use that.",
        FutureWarning,
        stacklevel=origin.stacklevel(),
    )
    return register_fake(qualname, func, lib=lib)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register how an operator runs on a whole batch.

    The rule is called as `func(info, in_dims, *args, **kwargs)` and returns `(output, out_dims)`.

    >>> import pullback as torch
    >>> @torch.library.custom_op("doc::negated", mutates_args=())
    ... def negated(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(-x.numpy())
    >>> @torch.library.register_vmap("doc::negated")
    ... def _(info, in_dims, x):
    ...     return negated(x), in_dims[0]
    >>> torch.func.vmap(negated)(torch.ones(2, 1))
    tensor([[-1.],
            [-1.]])
    """
    operator = _registered(op, "register_vmap", lib, "vmap_rule")
    return _decorated(lambda given: registering.vmap(operator, given), func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Register the dtype that floating inputs are cast to inside an autocast region.

    >>> import pullback as torch
    >>> @torch.library.custom_op("doc::same", mutates_args=())
    ... def same(x: torch.Tensor) -> torch.Tensor:
    ...     return x.clone()
    >>> torch.library.register_autocast(same, "cpu", torch.float16)
    >>> with torch.library.autocast("cpu"):
    ...     same(torch.ones(1)).dtype
    torch.float16
    """
    operator = _registered(op, "register_autocast", lib, "autocast")
    registering.autocast(operator, device_type, cast_inputs)


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: type,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Register what replaces the `__torch_dispatch__` of a class, for one operator.

    It is called as `func(mode_or_cls, func, types, args, kwargs)`.

    >>> import pullback as torch
    >>> from pullback.utils._python_dispatch import TorchDispatchMode
    >>> class Zeros(TorchDispatchMode):
    ...     pass
    >>> @torch.library.register_torch_dispatch("doc::shout", Zeros)  # doctest: +SKIP
    ... def _(mode, func, types, args, kwargs):
    ...     return torch.zeros_like(args[0])
    """
    if isinstance(op, OpOverload):
        overload: Any = op
    else:
        overload = registry.find(op, "register_torch_dispatch").overload
    return _decorated(
        lambda given: registering.torch_dispatch(overload, torch_dispatch_class, given), func
    )
