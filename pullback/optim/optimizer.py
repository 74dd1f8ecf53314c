"""`Optimizer`: parameter groups, state, hooks; and what programs import from torch's file.

An algorithm fills in `step`. Those that treat each element by itself share one, in
`elementwise.py`.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pullback.autograd.grad_mode import enable_grad, no_grad
from pullback.autograd.profile.recorder import active
from pullback.autograd.profiler import record_function
from pullback.core.dtype import DTYPES, get_default_dtype
from pullback.core.hooks import RemovableHandle
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import NO_GRAD, PLAIN, current, get_mode
from pullback.core.passes import running
from pullback.core.tensor import Tensor
from pullback.nn.parameter import Parameter
from pullback.operators.pointwise.complex import view_as_real
from pullback.optim import param_groups, state_dicts
from pullback.optim.param_groups import required

_recorders, _running_pass = active(), running.get

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = (
    Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]  # with names
)
_RequiredParameter = type(required)

_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

# Programs put these into the docstrings of optimizers of their own.
_params_doc = "params: the tensors to optimize, (name, tensor) pairs, or dicts with options"
_foreach_doc = "foreach (bool, optional): accepted; tensors are always stepped together here"
_fused_doc = "fused (bool, optional): accepted where dtypes allow; there is one implementation"
_capturable_doc = "capturable (bool, optional): for graphs of accelerators"
_differentiable_doc = "differentiable (bool, optional): whether autograd records the step"
_maximize_doc = "maximize (bool, optional): climb instead of descending"


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    >>> import pullback as torch
    >>> from pullback.optim.optimizer import register_optimizer_step_pre_hook
    >>> sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    >>> with register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("step")):
    ...     sgd.step()
    step
    """
    return RemovableHandle.add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer.

    >>> import pullback as torch
    >>> from pullback.optim.optimizer import register_optimizer_step_post_hook
    >>> sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    >>> with register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("step")):
    ...     sgd.step()
    step
    """
    return RemovableHandle.add(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base class of optimizers: `param_groups`, `state`, `step`, `zero_grad`, hooks, state dicts.

    A subclass passes its parameters and default options to `super().__init__`, and defines `step`:

    >>> import pullback as torch
    >>> class Plain(torch.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> (x * x).backward()
    >>> Plain([x]).step()
    >>> x
    tensor([0.8000], requires_grad=True)
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    # For wrappers that are optimizers by class, but never call this class's __init__.
    _zero_grad_profile_name = "Optimizer.zero_grad"

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        self._patch_step_function()
        self.state = defaultdict(dict)
        self.param_groups = []
        for group in param_groups.listed(params):
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _make_hooks(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hooks()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])

    # ------------------------------------------------------------------ stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients; `closure` recomputes the loss first."""
        raise NotImplementedError(f"{type(self).__name__} has no step() of its own.")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None; or, with False, fill them with zeros."""
        if _recorders:
            with record_function(self._zero_grad_profile_name):
                self._forget(set_to_none)
        else:
            self._forget(set_to_none)

    def _forget(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none and p.__class__ in PLAIN_PARAMETERS and _running_pass() is None:
                    p._stored_grad = None  # as the setter leaves it
                    continue
                g = p.grad
                if g is None:
                    continue
                if set_to_none:
                    p.grad = None
                elif g.grad_fn is not None:
                    g.detach_().zero_()
                else:
                    g.requires_grad_(False).zero_()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters: a dict with "params" and options that differ.

        >>> import pullback as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
        >>> optimizer.add_param_group({"params": torch.ones(3, requires_grad=True), "lr": 1.0})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 1.0]
        """
        self.param_groups.append(
            param_groups.completed(param_group, self.defaults, self.param_groups)
        )

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """`step` with the hooks called around it, and a name in profiles."""

        @functools.wraps(func)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            self, *_ = args
            if _recorders:
                with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                    return self._hooked_step(func, args, kwargs)
            if (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks
            ):
                return self._hooked_step(func, args, kwargs)
            out = func(*args, **kwargs)
            if (
                "_optimizer_step_code" in self.__dict__
                or type(self)._optimizer_step_code is not _none
            ):
                self._optimizer_step_code()
            return out

        return hooked

    def _hooked_step(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        pre_hooks = (
            *_global_optimizer_pre_hooks.values(),
            *self._optimizer_step_pre_hooks.values(),
        )
        for hook in pre_hooks:
            args, kwargs = _replaced(hook, hook(self, args, kwargs), args, kwargs)
        out = func(*args, **kwargs)
        self._optimizer_step_code()
        post_hooks = (
            *self._optimizer_step_post_hooks.values(),
            *_global_optimizer_post_hooks.values(),
        )
        for hook in post_hooks:
            hook(self, args, kwargs)
        return out

    def _patch_step_function(self) -> None:
        """See that the class's `step`, whoever wrote it, calls hooks."""
        kind = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{kind.__name__}.zero_grad"
        if not getattr(kind.step, "hooked", None):
            kind.step = self.profile_hook_step(kind.step)  # type: ignore[method-assign]  # as torch's optimizers do
            kind.step.hooked = True  # type: ignore[attr-defined]  # as torch's optimizers do

    def _optimizer_step_code(self) -> None:
        """Called after each step; tools put something of their own here."""

    def _cuda_graph_capture_health_check(self) -> None:
        """No graphs are captured here."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return RemovableHandle.add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle.add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict()` reads the state."""
        return _placed(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with what was read; it may return another dict."""
        return _placed(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another dict."""
        return _placed(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return _placed(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ------------------------------------------------------------------ state dicts

    def state_dict(self) -> dict[str, Any]:
        """State and options, the parameters by number; tensors are the optimizer's own, no copies.

        >>> import pullback as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], momentum=0.9)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        for before in list(self._optimizer_state_dict_pre_hooks.values()):
            before(self)
        made = state_dicts.written(self)
        for after in list(self._optimizer_state_dict_post_hooks.values()):
            returned = after(self, made)
            made = made if returned is None else returned
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`; tensors take their parameter's dtype, "step" keeps its.

        Its tensors are used as they are where nothing has to be converted, as torch does.
        """
        state_dict = state_dict.copy()
        for before in list(self._optimizer_load_state_dict_pre_hooks.values()):
            returned = before(self, state_dict)
            state_dict = state_dict if returned is None else returned
        self.__setstate__(state_dicts.read(self, state_dict))
        for after in list(self._optimizer_load_state_dict_post_hooks.values()):
            after(self)

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor, value: Tensor, param_id: int, param_groups: Any, key: Any = None
    ) -> Tensor:
        chosen = (group for group in param_groups or () if param_id in group["params"])
        captured = any(group.get("capturable") for group in chosen)
        return state_dicts.fitted(param, value, key, beside=captured)


def _replaced(hook: Any, result: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of the step, as a hook that ran before it wants them."""
    if result is None:
        return args, kwargs
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        f"The step hook {hook} returned {result!r}; return None, or a tuple of the new positional "
        "arguments (the optimizer first) and the new keyword arguments."
    )


def _placed(table: OrderedDict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle.add(table, hook)
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# What optimizers are written with ----------------------------------------------------------------


_none = Optimizer._optimizer_step_code


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `step`: recorded by autograd if the optimizer is differentiable, else not."""

    @functools.wraps(func)
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if get_mode() is PLAIN and not self.defaults.get("differentiable"):
            try:  # no_grad(), without a note of the line: few ask for that of an optimizer's state
                current.set(NO_GRAD)
                return func(self, *args, **kwargs)
            finally:
                current.set(PLAIN)
        with enable_grad() if self.defaults.get("differentiable") else no_grad():
            return func(self, *args, **kwargs)

    return step


# Whose `.grad` is what is stored, once no pass runs that could still add to it.
PLAIN_PARAMETERS: frozenset[Any] = frozenset({Tensor, Parameter})


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """The loss that a closure computes, with grad mode on; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element; numbers as they are."""
    return x.item() if isinstance(x, Tensor) else x


_to_scalar = _get_value


def _stack_if_compiling(x: Any) -> Any:
    return x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype of counters: float32, unless all that is made is float64."""
    double = DTYPES["float64"]
    return double if get_default_dtype() is double and not is_fused else DTYPES["float32"]


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """What torch would choose on a CPU: neither."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Any = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the functions of optimizers; nothing to switch off here."""
    return lambda function: function


def _view_as_real(params: list[Tensor], *states: list[Tensor]) -> None:
    """Replace, in the lists, complex parameters and their state by real views of them."""
    for place, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *states):
                tensors[place] = view_as_real(tensors[place])


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    if not p.is_floating_point():
        raise RuntimeError(
            f"fused=True is for floating point parameters, and one has dtype {p.dtype}; leave "
            "fused out."
        )
    if p.is_meta:
        raise RuntimeError(
            "fused=True is for parameters with data, and one is on device 'meta'; leave fused out."
        )


__dir__ = _only_public(globals(), "ParamsT required")
