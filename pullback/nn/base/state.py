"""Taking a module's state out, and putting one in."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.autograd.grad_mode import no_grad
from pullback.core.hooks import RemovableHandle
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base.swapping import get_swap_module_params_on_conversion
from pullback.nn.parameter import Parameter, is_lazy
from pullback.utils.swapping import swap_tensors

if TYPE_CHECKING:
    pass

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"  # torch's name, which libraries read


class _IncompatibleKeys(NamedTuple):
    """What load_state_dict(strict=False) found missing or too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Stateful:
    """The part of `Module` that saves and loads."""

    _version: int = 1

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  # of Modules, which are made of this class
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Any]
    _state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_post_hooks: OrderedDict[int, Any]

    def get_extra_state(self) -> Any:
        """More to keep in the state dict; to be written by a module that has some."""
        raise RuntimeError("get_extra_state() is for modules that define it, with set_extra_state.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state gave."""
        raise RuntimeError("set_extra_state() is for modules that define it, with get_extra_state.")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Enter this module's own tensors, without those of the modules below."""
        persistent = (
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        )
        for name, tensor in itertools.chain(self._parameters.items(), persistent):
            if tensor is not None:
                destination[prefix + name] = (
                    tensor if keep_vars or is_lazy(tensor) else tensor.detach()
                )
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by name, detached unless `keep_vars`.

        >>> import pullback as torch
        >>> list(torch.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        for name, value in zip(("destination", "prefix", "keep_vars"), args, strict=False):
            if name == "destination":
                destination = value
            elif name == "prefix":
                prefix = value
            else:
                keep_vars = value
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if replaced is not None:
                destination = replaced
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own tensors, without those of the modules below."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        own = {
            name: tensor
            for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items())
            if tensor is not None and name not in self._non_persistent_buffers_set
        }
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._take(name, tensor, state_dict[key], assign=assign)
            if problem:
                error_msgs.append(f"{key}: {problem}")
        self._take_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + _EXTRA_STATE_KEY_SUFFIX:
                    name, *below = key[len(prefix) :].split(".", 1)
                    if name not in (self._modules if below else own):
                        unexpected_keys.append(key)

    def _take(self, name: str, tensor: Tensor, given: Any, *, assign: bool) -> str:
        """Take one value; what is wrong with it, or ""."""
        if not isinstance(given, Tensor):
            return f"a Tensor is needed, got {type(given).__name__}."
        if is_lazy(tensor):
            if is_lazy(given):
                return ""
            tensor.materialize(given.shape)  # type: ignore[attr-defined]  # the lazy ones have it
        if given.shape != tensor.shape:
            if tensor.ndim or given.shape != (1,):
                return (
                    f"the saved shape {tuple(given.shape)} is not the module's "
                    f"{tuple(tensor.shape)}."
                )
            given = given[0]  # as numbers were saved long ago
        if tensor.is_meta and not given.is_meta and not assign:
            warnings.warn(
                f"load_state_dict(): {name} is on the meta device, so that nothing is copied; did "
                "you mean assign=True?",
                UserWarning,
                stacklevel=stacklevel(),
            )
        try:
            with no_grad():
                self._put(name, tensor, given, assign=assign)
        except Exception as error:  # one of many problems that are told together
            return f"it could not be taken: {error}"
        return ""

    def _put(self, name: str, tensor: Tensor, given: Tensor, *, assign: bool) -> None:
        if get_swap_module_params_on_conversion():
            loaded: Any = tensor.module_load(given, assign=assign)
            if isinstance(tensor, Parameter) and not isinstance(loaded, Parameter):
                loaded = Parameter(loaded, requires_grad=tensor.requires_grad)
            swap_tensors(tensor, loaded)
        elif not assign:
            tensor.copy_(given)
        elif not isinstance(tensor, Parameter):
            setattr(self, name, given)
        elif isinstance(given, Parameter):
            setattr(self, name, given.requires_grad_(tensor.requires_grad))
        else:
            setattr(self, name, Parameter(given, requires_grad=tensor.requires_grad))

    def _take_extra_state(
        self,
        state_dict: Any,
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a state dict's values in; with `assign`, take its tensors instead.

        With `strict`, names must be exactly the module's.

        >>> import pullback as torch
        >>> a, b = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
        >>> b.load_state_dict(a.state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict(): the state must be a dict, got {type(state_dict).__name__}."
            )
        metadata = getattr(state_dict, "_metadata", None) or {}
        given: Any = OrderedDict(state_dict)
        given._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        problems: list[str] = []
        loading = _Loading(metadata, assign, missing, unexpected, problems)
        loading.load(self, given, "")
        if strict:
            if unexpected:
                problems.insert(0, f"unexpected names: {', '.join(map(repr, unexpected))}.")
            if missing:
                problems.insert(0, f"missing names: {', '.join(map(repr, missing))}.")
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(
                f"load_state_dict(): the state does not fit {type(self).__name__}:\n\t{listed}"
            )
        return _IncompatibleKeys(missing, unexpected)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before a state dict is made."""
        return RemovableHandle.add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after; it changes it in place."""
        with suppress(AttributeError):  # methods take no marks
            hook._from_public_api = True  # type: ignore[attr-defined]  # a mark on the function
        return RemovableHandle.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "This function is a hook by register_state_dict_post_hook already, which takes it "
                "for one that returns nothing; register another function here."
            )
        return RemovableHandle.add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, ...)` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        called = hook
        if with_module:
            # A method of the module: the table must not hold the module that holds the table.
            called = WithModule(hook, self)
        return RemovableHandle.add(self._load_state_dict_pre_hooks, called)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and those below have loaded."""
        return RemovableHandle.add(self._load_state_dict_post_hooks, hook)


class _Loading(NamedTuple):
    """What all modules of one load_state_dict share."""

    metadata: Mapping[str, Any]
    assign: bool
    missing: list[str]
    unexpected: list[str]
    problems: list[str]

    def load(self, module: Any, local: Any, prefix: str) -> None:
        """Load a module from its part of the state, and those below it."""
        about = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            about["assign_to_params_buffers"] = True
        collect = True  # names are gathered in any case, and judged at the end
        module._load_from_state_dict(
            local, prefix, about, collect, self.missing, self.unexpected, self.problems
        )
        for name, child in module._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                part = {key: value for key, value in local.items() if key.startswith(path)}
                self.load(child, part, path)
        found = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in list(module._load_state_dict_post_hooks.values()):
            if hook(module, found) is not None:
                raise RuntimeError(
                    "A load_state_dict post-hook must return None; change the lists in place."
                )


class WithModule:
    """Calls a hook with its module first, which it knows weakly."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        """Call the hook with its module."""
        return self.hook(self.module(), *args)

    def __getstate__(self) -> Any:
        return self.hook, self.module()

    def __setstate__(self, state: Any) -> None:
        self.hook, module = state
        self.module = weakref.ref(module)
