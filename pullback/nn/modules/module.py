"""Module: a function with parameters, made of other modules.

Assigning is registering: a Parameter, a Module or a buffer that becomes an attribute goes to a
table of its own, where walking, saving and moving find it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.autograd.grad_mode import no_grad
from pullback.core import dtype as dtypes
from pullback.core.device import as_device, device
from pullback.core.dtype import DTYPES, dtype
from pullback.core.tensor import Tensor
from pullback.nn.modules.calling import Called
from pullback.nn.modules.state import Stateful
from pullback.nn.modules.walking import Walking
from pullback.nn.parameter import Buffer, Parameter

__all__ = ["Module"]

M = TypeVar("M", bound="Module")

_TABLES = ("_parameters", "_buffers", "_modules")


class Module(Called, Stateful, Walking):
    """Base of all layers and models: write `__init__`, which calls super's, and `forward`.

    >>> import pullback as torch
    >>> class Scaled(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scaled()
    >>> model(torch.ones(2))
    tensor([2., 2.], grad_fn=<MulBackward0>)
    >>> [name for name, _ in model.named_parameters()]
    ['factor']
    """

    training: bool
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = ", ".join([*map(repr, args), *kwargs])
            raise TypeError(
                f"{type(self).__name__}: Module.__init__ takes no arguments, got {given}."
            )
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        put("_modules", {})
        put("_is_full_backward_hook", None)
        for name in (
            "_backward_pre_hooks",
            "_backward_hooks",
            "_forward_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_forward_pre_hooks",
            "_forward_pre_hooks_with_kwargs",
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            put(name, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; to be written by the subclass."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward(); define it, and call the module itself."
        )

    # ------------------------------------------------------------------ attributes

    def __getattr__(self, name: str) -> Any:
        # Only for what is no ordinary attribute.
        known = self.__dict__
        for table in _TABLES:
            if table in known and name in known[table]:
                return known[table][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.__dict__
        if isinstance(value, Parameter):
            self._need_init("parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif name in known.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a parameter: assign a Parameter or None, not "
                    f"{type(value).__name__}."
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._need_init("modules")
            self._forget(name, keep="_modules")
            known["_modules"][name] = value
        elif name in known.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a module: assign a Module or None, not "
                    f"{type(value).__name__}."
                )
            known["_modules"][name] = None
        elif isinstance(value, Buffer):
            self._need_init("buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in known.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a buffer: assign a Tensor or None, not "
                    f"{type(value).__name__}."
                )
            known["_buffers"][name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def _need_init(self, what: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}: {what} cannot be assigned before super().__init__() ran; "
                "call it first."
            )

    def _forget(self, name: str, keep: str) -> None:
        self.__dict__.pop(name, None)
        for table in _TABLES:
            if table != keep:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _check_name(self, name: Any, what: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"The name of a {what} must be a str, got {type(name).__name__}.")
        if "." in name:
            raise KeyError(f"The name of a {what} must not contain a dot: {name!r}.")
        if not name:
            raise KeyError(f"The name of a {what} must not be empty.")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"{type(self).__name__} has an attribute {name!r} already.")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Enter a parameter under a name; None is a place that is kept empty."""
        self._need_init("parameters")
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"Parameter {name!r} must be a Parameter, got {type(param).__name__}.")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Parameter {name!r} must be a leaf; this one was computed.")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Enter a tensor that belongs to the state but is not trained, as a running mean."""
        self._need_init("buffers")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"Buffer {name!r} must be a Tensor, got {type(tensor).__name__}.")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Enter a module under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"Module {name!r} must be a Module, got {type(module).__name__}.")
        self._check_name(name, "module", self._modules)
        self._modules[name] = module

    register_module = add_module

    # ------------------------------------------------------------------ changing all of it

    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` with each module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of all parameters, gradients and buffers by what `fn` gives."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with no_grad():
                parameter.data = fn(parameter)
                if parameter.grad is not None:
                    changed = fn(parameter.grad)
                    parameter.grad = None
                    parameter.grad = changed.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move and convert all parameters and buffers; dtypes apply to floating ones only.

        >>> import pullback as torch
        >>> torch.nn.Linear(2, 2).to(torch.float64).weight.dtype
        torch.float64
        """
        place, kind, options = _destination(args, kwargs)
        if kind is not None and not (kind.is_floating_point or kind.is_complex):
            raise TypeError(
                f"Module.to(): parameters need a floating or complex dtype, not {kind}."
            )

        def moved(tensor: Tensor) -> Tensor:
            wanted = kind if tensor.is_floating_point() or tensor.is_complex() else None
            return tensor.to(place or tensor.device, wanted or tensor.dtype, **options)

        return self._apply(moved)

    def _converted(self: M, kind: dtype) -> M:
        return self._apply(lambda t: t.to(kind) if t.is_floating_point() else t)

    def type(self: M, dst_type: dtype) -> M:
        """Convert all parameters and buffers."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def float(self: M) -> M:
        """Convert floating parameters and buffers to float32."""
        return self._converted(DTYPES["float32"])

    def double(self: M) -> M:
        """Convert floating parameters and buffers to float64."""
        return self._converted(DTYPES["float64"])

    def half(self: M) -> M:
        """Convert floating parameters and buffers to float16."""
        return self._converted(DTYPES["float16"])

    def bfloat16(self: M) -> M:
        """Convert floating parameters and buffers to bfloat16."""
        return self._converted(dtypes.bfloat16)

    def cpu(self: M) -> M:
        """Move all parameters and buffers to the host."""
        return self._apply(lambda tensor: tensor.to("cpu"))

    def cuda(self: M, device: int | device | None = None) -> M:
        """Move all parameters and buffers to a GPU."""
        place = "cuda" if device is None else device
        return self._apply(lambda tensor: tensor.to(place))

    def train(self: M, mode: bool = True) -> M:
        """Choose training mode (or, with False, evaluation) for this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train(): mode must be a bool, got {type(mode).__name__}.")  # noqa: TRY004 (the type that torch raises)
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Choose evaluation mode."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Whether the parameters are to be trained."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters, or set them to zero."""
        for parameter in self.parameters():
            g = parameter.grad
            if g is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif g.grad_fn is not None:
                g.detach_().zero_()
            else:
                g.requires_grad_(False)
                g.zero_()

    def share_memory(self: M) -> M:
        """Move parameters and buffers to memory that other processes see too."""
        return self._apply(lambda tensor: tensor.share_memory_())

    # ------------------------------------------------------------------ as text, and copied

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` says of this module besides its name and children."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [
            f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()
        ]
        if len(own) == 1 and not children:
            return f"{self._get_name()}({own[0]})"
        lines = [*own, *children]
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"

    def __dir__(self) -> list[str]:
        named = [name for table in _TABLES for name in self.__dict__[table]]
        return sorted({*super().__dir__(), *named})

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A state of an older version may lack tables.
        fresh = Module.__new__(Module)
        Module.__init__(fresh)
        self.__dict__.update({**fresh.__dict__, **state})


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _destination(args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Device, dtype and further options from the arguments of `to`, in any of its forms."""
    place, kind, options = None, None, dict(kwargs)
    for name, value in [*((None, arg) for arg in args), *kwargs.items()]:
        if isinstance(value, Tensor) and name in (None, "tensor", "other"):
            place, kind = value.device, value.dtype
        elif isinstance(value, dtype):
            kind = value
        elif isinstance(value, str | device) or (name == "device" and value is not None):
            place = as_device(value)
        elif isinstance(value, bool) and name is None:
            options["non_blocking"] = value
    for name in ("device", "dtype", "tensor", "other"):
        options.pop(name, None)
    return place, kind, options
