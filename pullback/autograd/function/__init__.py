"""Functions whose backward the user writes: `autograd.Function`.

`apply` here is the fast path for the usual call: tensors and other values by position, plain
grad mode, one fresh tensor as result. Everything else goes on in apply.py.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from pullback.autograd.check.functions import Finding, Report, check
from pullback.autograd.function import errors as function_errors
from pullback.autograd.function.apply import (
    apply_whole,
    fills,
    finish,
    missing_setup_context,
    pass_cause_on,
)
from pullback.autograd.function.ctx import FunctionCtx
from pullback.autograd.function.jvp import missing_jvp
from pullback.autograd.function.legacy import Legacy, NestedIO
from pullback.autograd.function.legacy import _iter_None_tensors as _iter_None_tensors
from pullback.autograd.function.legacy import _iter_tensors as _iter_tensors
from pullback.autograd.function.legacy import _iter_tensors_permissive as _iter_tensors_permissive
from pullback.autograd.function.legacy import _map_tensor_data as _map_tensor_data
from pullback.autograd.function.legacy import _nested_map as _nested_map
from pullback.autograd.function.legacy import _unflatten as _unflatten
from pullback.autograd.function.node import BackwardCFunction, missing_backward, next_function_id
from pullback.autograd.function.once import once_differentiable
from pullback.autograd.function.results import recorded, recorded_write
from pullback.autograd.function.saved import save
from pullback.autograd.function.vmap import VmapInfo, missing_vmap
from pullback.core.arrays import LIBRARIES, recorded_on_devices
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import FORWARD, current, fast, get_mode
from pullback.core.nesting import running
from pullback.core.node import QUIET
from pullback.core.origin import getframe, internal, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.operators.dispatch.observers import observed_function, observers
from pullback.transforms.batched import Batched

__all__ = [
    "BackwardCFunction",
    "Finding",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "Report",
    "VmapInfo",
    "check",
    "once_differentiable",
]

_ContextMethodMixin = FunctionCtx


class FunctionMeta(type):
    """Gives every Function class the class of its nodes."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        about = {
            "_forward_cls": cls,
            "_autograd_function_id": next_function_id(),
            "__module__": __name__,
            "__qualname__": f"{name}Backward",
        }
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), about)
        super().__init__(name, bases, members)


class Function(Legacy, FunctionCtx, metaclass=FunctionMeta):
    """A differentiable function with its own backward: subclass it, then call `apply`.

    `forward` computes the results without recording. It either takes `ctx` first, or leaves
    that to `setup_context(ctx, inputs, output)`. `backward` gets ctx and one gradient for each
    result, and returns one for each argument of forward. `autograd.function.check` reports what is
    wrong with a Function.

    >>> import pullback as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(x):
    ...         return x ** 3
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output):
    ...         ctx.save_for_backward(*inputs)
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * g * x ** 2
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    # Whether vmap makes its own rule by running the methods below under vmap.
    generate_vmap_rule: ClassVar[bool] = False
    # Whether `ctx.saved_tensors` can be read once only, so that backward can free each tensor
    # early.
    clear_saved_tensors_on_access: ClassVar[bool] = False
    # Whether backward gets its gradients as one list, from which it can drop them early.
    boxed_grads_call: ClassVar[bool] = False

    @classmethod
    def forward(cls, *args: Any, **kwargs: Any) -> Any:
        """Compute the results. A static method; takes ctx first unless there is a setup_context."""
        raise function_errors.no_forward(cls.__name__)

    setup_context = staticmethod(missing_setup_context)
    backward = staticmethod(missing_backward)
    vjp = staticmethod(missing_backward)
    jvp = staticmethod(missing_jvp)
    vmap = staticmethod(missing_vmap)

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[int, ...]:
        return (ctx._autograd_function_id,)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:  # one fast path, long on purpose
        """Call forward and record its backward."""
        if observers.active is not None:
            return observed_function(cls, apply_whole, args, kwargs)
        mode = get_mode()
        recording = mode is fast.plain
        split = cls.setup_context is not missing_setup_context
        if (
            not (recording or mode is fast.no_grad or mode is fast.forward)
            or kwargs
            or running.get()
            or (split and not fills(cls, len(args)))
        ):
            return apply_whole(cls, args, kwargs)
        ctx: Any = cls._backward_cls()
        edges: list[Any] = []
        needs = []
        for arg in args:
            if isinstance(arg, Tensor):
                if arg.__class__ is Batched:  # of a vmap that has ended
                    return apply_whole(cls, args, kwargs)
                edge = arg._node
                if edge is not None and edge._special:
                    edge = (edge() or edge_of(arg)) if recording else (arg.requires_grad or None)
                edges.append(edge)
                needs.append(edge is not None)
            else:
                needs.append(False)
        tracked = recording and True in needs
        ctx._edges = tuple(edges) if tracked else ()
        ctx.needs_input_grad = tuple(needs)
        ctx._is_tensor = (
            None if len(edges) == len(needs) else tuple([isinstance(a, Tensor) for a in args])
        )
        ctx.to_save = ctx._rare = ctx._g_sizes = None
        ctx._saved = ctx._versions = ()
        ctx._materializes = True
        ctx._cold = QUIET
        frame: Any = getframe(1)
        if internal[frame.f_code.co_filename]:
            frame = user_frame(frame)
        ctx._code, ctx._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        ctx._seq = numbering.next()
        if LIBRARIES:
            recorded_on_devices(ctx)
        try:
            current.set(FORWARD)
            if split:
                raw = cls.forward(*args)
                cls.setup_context(ctx, args, raw)
            else:
                raw = cls.forward(ctx, *args)
        finally:
            current.set(mode)
        if ctx._rare is None:
            usual = recorded(ctx, args, raw, tracked)
        else:
            usual = tracked and recorded_write(ctx, args, raw)
        if not usual:
            return finish(cls, ctx, args, raw, mode, split=split)
        if recording and not tracked:
            pass_cause_on(args, raw if raw.__class__ is tuple else (raw,))
        to_save = ctx.to_save
        if to_save is not None:
            ctx.to_save = None
            if tracked:
                save(cls, ctx, to_save, mode)
        return raw

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        warnings.warn(
            f"{name} should not be instantiated: its methods are static, and instances do nothing. "
            f"Call {name}.apply(...).",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: functions are called through `apply`."""
        raise function_errors.old_style(type(self).__name__)


class InplaceFunction(Function):
    """Kept for old programs: stores whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(NestedIO, Function):
    """Kept for old programs; it cannot be called, only its helpers remain."""


__dir__ = _only_public(globals())
