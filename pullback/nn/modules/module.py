"""Module: a function with parameters, made of other modules.

Assigning is registering: a Parameter, a Module or a buffer that becomes an attribute goes to a
table of its own, where walking, saving and moving find it.
"""

from __future__ import annotations

from collections import OrderedDict
from types import FunctionType
from typing import Any, ClassVar, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.nn.base import hooks_for_all as for_all
from pullback.nn.base.calling import Called
from pullback.nn.base.conversion import Convertible
from pullback.nn.base.hooks_for_all import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from pullback.nn.base.state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from pullback.nn.base.state import Stateful
from pullback.nn.base.state import WithModule as _WrappedHook  # noqa: F401 (torch's name for it)
from pullback.nn.base.state import _IncompatibleKeys as _IncompatibleKeys
from pullback.nn.base.walking import Walking
from pullback.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

M = TypeVar("M", bound="Module")

_TABLES = ("_parameters", "_buffers", "_modules")


class Module(Called, Stateful, Convertible, Walking):
    """Base class of layers and models: define `forward`; `__init__` calls `super().__init__()`.

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
    _modules: dict[str, Module | None]
    call_super_init: bool = False
    dump_patches: bool = False
    _hides_no_weight: ClassVar[Any] = None  # see `nn/base/weights.py`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A class that has `__init__` of a private base names itself where an argument is wrong."""
        super().__init_subclass__(**kwargs)
        made = cls.__init__
        private = getattr(made, "__qualname__", "").startswith("_")
        if private and "__init__" not in cls.__dict__ and not cls.__name__.startswith("_"):
            own = FunctionType(
                made.__code__, made.__globals__, "__init__", made.__defaults__, made.__closure__
            )
            own.__kwdefaults__, own.__annotations__ = made.__kwdefaults__, made.__annotations__
            own.__module__, own.__doc__ = made.__module__, made.__doc__
            own.__qualname__ = f"{cls.__name__}.__init__"
            cls.__init__ = own  # type: ignore[method-assign]  # the same code by another name

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
            self._enter_module(name, value)
        elif name in known.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a module: assign a Module or None, not "
                    f"{type(value).__name__}."
                )
            known["_modules"][name] = None
        elif isinstance(value, Tensor) and isinstance(value, Buffer):
            self._need_init("buffers")
            if value.persistent:  # classes may have a register_buffer of their own, of two
                self.register_buffer(name, value)
            else:
                self.register_buffer(name, value, persistent=False)
        elif name in known.get("_buffers", ()):
            if value is not None and not _is_like_a_tensor(value):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a buffer: assign a Tensor or None, not "
                    f"{type(value).__name__}."
                )
            if value is not None and for_all.buffer_registration_hooks:
                value = for_all.asked(for_all.buffer_registration_hooks, self, name, value)
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
        if param is not None and for_all.parameter_registration_hooks:
            param = for_all.asked(for_all.parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is part of the state but not trained, such as a running mean."""
        self._need_init("buffers")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not _is_like_a_tensor(tensor):
            raise TypeError(f"Buffer {name!r} must be a Tensor, got {type(tensor).__name__}.")
        if tensor is not None and for_all.buffer_registration_hooks:
            tensor = for_all.asked(for_all.buffer_registration_hooks, self, name, tensor)
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
        self._enter_module(name, module)

    def _enter_module(self, name: str, module: Module | None) -> None:
        if module is not None and for_all.module_registration_hooks:
            module = for_all.asked(for_all.module_registration_hooks, self, name, module)
        self._modules[name] = module

    register_module = add_module

    def train(self: M, mode: bool = True) -> M:
        """Set training mode (or, with False, evaluation mode) of this module and all submodules."""
        if not isinstance(mode, bool):
            raise ValueError(f"train(): mode must be a bool, got {type(mode).__name__}.")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Set evaluation mode here and in all submodules."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Whether the parameters are to be trained."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of the parameters to None, or set them to zero."""
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


def _addindent(s_: str, numSpaces: int) -> str:  # noqa: N803 (torch's name)
    """All lines but the first moved to the right."""
    return s_.replace("\n", "\n" + " " * numSpaces)


# How modules find parameters, whatever a trace has put in its place when others load.
from_tables = Module.__getattr__

# torch's names for the tables of hooks that see all modules.
_global_forward_pre_hooks = for_all.forward_pre_hooks
_global_forward_hooks = for_all.forward_hooks
_global_forward_hooks_with_kwargs = for_all.forward_hooks_with_kwargs
_global_forward_hooks_always_called = for_all.forward_hooks_always_called
_global_backward_pre_hooks = for_all.backward_pre_hooks
_global_backward_hooks = for_all.backward_hooks
_global_buffer_registration_hooks = for_all.buffer_registration_hooks
_global_module_registration_hooks = for_all.module_registration_hooks
_global_parameter_registration_hooks = for_all.parameter_registration_hooks


def _has_any_global_hook() -> bool:
    return bool(for_all.IN_USE)


__dir__ = _only_public(globals())


def _is_like_a_tensor(value: Any) -> bool:
    """A tensor, or what takes the calls of torch's functions itself."""
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")
