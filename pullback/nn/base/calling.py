"""Calling a module: its forward, with the hooks around it."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pullback.core.hooks import RemovableHandle
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base import hooks_for_all as for_all
from pullback.nn.base import naming
from pullback.nn.base.hooks_for_all import IN_USE
from pullback.utils.hooks import BackwardHook


class Called:
    """The part of `Module` that runs forward and hooks."""

    forward: Callable[..., Any]

    _backward_pre_hooks: OrderedDict[int, Any]
    _backward_hooks: OrderedDict[int, Any]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Any]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Any]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    _compiled_call_impl: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks if there are any."""
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or IN_USE
        ):
            try:  # costs nothing while nothing is raised
                return self.forward(*args, **kwargs)
            except Exception as error:
                naming.note_module(error, self)
                raise
        try:
            return self._call_hooked(args, kwargs)
        except Exception as error:
            naming.note_module(error, self)
            raise

    _wrapped_call_impl = __call__

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not compiled."""
        return self._call_hooked(args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module, in place; the arguments are those of `compile`."""
        import pullback

        compile = getattr(pullback, "compile", None)
        if compile is None:
            raise RuntimeError("Module.compile() needs pullback.compile, which is not there.")
        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def _replicate_for_data_parallel(self) -> Any:
        """A copy without parameters: what takes their place need not be a leaf (`replicate`)."""
        made = copy.copy(self)
        made.__dict__["_parameters"] = {}
        for name in ("_buffers", "_modules"):
            made.__dict__[name] = dict(self.__dict__[name])
        return made

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._before_forward(args, kwargs)
            full, old = self._get_backward_hooks()
            before = self._get_backward_pre_hooks()
            watch = None
            if full or before:
                watch = BackwardHook(self, full, before)
                args = watch.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for number, hook, with_kwargs, _ in self._hooks_after():
                called.add(number)
                result = self._after_forward(hook, with_kwargs, args, kwargs, result)
            if watch is not None:
                result = self._watched(watch, result)
            if old:
                self._hook_last_node(args, result, old)
        except Exception:
            # Hooks that are always to be called, whose errors would hide the first one.
            for number, hook, with_kwargs, always in self._hooks_after():
                if always and number not in called:
                    self._call_after_failure(hook, with_kwargs, args, kwargs, result)
            raise
        return result

    def _hooks_after(self) -> list[tuple[int, Any, bool, bool]]:
        """Hooks on forward: id, hook, whether it wants kwargs, whether it is always called."""
        everywhere, own = for_all.forward_hooks, self._forward_hooks
        return [
            *(
                (
                    number,
                    hook,
                    number in for_all.forward_hooks_with_kwargs,
                    number in for_all.forward_hooks_always_called,
                )
                for number, hook in everywhere.items()
            ),
            *(
                (
                    number,
                    hook,
                    number in self._forward_hooks_with_kwargs,
                    number in self._forward_hooks_always_called,
                )
                for number, hook in own.items()
            ),
        ]

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """Backward hooks to be called: full ones, and those of the old kind."""
        full: list[Any] = []
        old: list[Any] = []
        if for_all.backward_hooks:
            everywhere = old if for_all.backward_kind.full is False else full
            everywhere.extend(for_all.backward_hooks.values())
        own = old if self._is_full_backward_hook is False else full
        own.extend(self._backward_hooks.values())
        return full, old

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*for_all.backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _before_forward(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hooks = [*for_all.forward_pre_hooks.items(), *self._forward_pre_hooks.items()]
        for number, hook in hooks:
            if number in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not isinstance(replaced, tuple) or len(replaced) != 2:
                    raise RuntimeError(
                        "A forward pre-hook with kwargs must return None or (args, kwargs), got "
                        f"{replaced!r}."
                    )
                args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _after_forward(
        self, hook: Any, with_kwargs: bool, args: Any, kwargs: dict[str, Any], result: Any
    ) -> Any:
        if with_kwargs:
            replaced = hook(self, args, kwargs, result)
        else:
            replaced = hook(self, args, result)
        return result if replaced is None else replaced

    def _call_after_failure(
        self, hook: Any, with_kwargs: bool, args: Any, kwargs: dict[str, Any], result: Any
    ) -> None:
        try:
            self._after_forward(hook, with_kwargs, args, kwargs, result)
        except Exception as error:  # told, since the first error is the one to raise
            warnings.warn(
                f"A forward hook that is always called failed as well: {error!r}.",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def _watched(self, watch: BackwardHook, result: Any) -> Any:
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                f"{type(self).__name__} has full backward hooks and returns "
                f"{type(result).__name__}: only tensors, alone or in a tuple, are watched.",
                UserWarning,
                stacklevel=stacklevel(),
            )
            return result
        return watch.setup_output_hook(result)

    def _hook_last_node(self, args: Any, result: Any, hooks: list[Any]) -> None:
        """The old kind of backward hook: on the node of the first tensor that is returned."""
        tensor = result
        while not isinstance(tensor, Tensor):
            tensor = next(iter(tensor.values())) if isinstance(tensor, dict) else tensor[0]
        node = tensor.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(_for_module(hook, self))
            _warn_of_missing(node, args, result)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; it may return other arguments."""
        table = self._forward_pre_hooks
        handle = RemovableHandle(table, extra_dict=self._forward_pre_hooks_with_kwargs)
        _enter(table, handle, hook, prepend=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; it may return another output.

        >>> import pullback as torch
        >>> layer = torch.nn.Identity()
        >>> with layer.register_forward_hook(lambda module, args, out: out * 2):
        ...     layer(torch.ones(1))
        tensor([2.])
        """
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = RemovableHandle(self._forward_hooks, extra_dict=extra)
        _enter(self._forward_hooks, handle, hook, prepend=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when both are known.

        It may return another grad_input.
        """
        self._choose_backward_hooks(full=True)
        handle = RemovableHandle(self._backward_hooks)
        _enter(self._backward_hooks, handle, hook, prepend=prepend)
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` when it is known; it may return another one."""
        handle = RemovableHandle(self._backward_pre_hooks)
        _enter(self._backward_pre_hooks, handle, hook, prepend=prepend)
        return handle

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The old kind, which sees the last node of forward only; use the full one."""
        self._choose_backward_hooks(full=False)
        return RemovableHandle.add(self._backward_hooks, hook)

    def _choose_backward_hooks(self, *, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Full backward hooks and those of the old kind cannot be mixed on one module; use "
                "register_full_backward_hook for all of them."
            )
        self._is_full_backward_hook = full


def _enter(
    table: OrderedDict[int, Any], handle: RemovableHandle, hook: Any, *, prepend: bool
) -> None:
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)


def _warn_of_missing(node: Any, args: Any, result: Any) -> None:
    """Say what a hook of the old kind, which sees one node, does not see."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(one, Tensor) for one in results):
        why = "the module returns something else than a tensor or a tuple of tensors"
    elif not all(isinstance(one, Tensor) for one in args):
        why = "the module takes something else than tensors"
    elif any(one.grad_fn is not node for one in results if one.grad_fn is not None):
        why = "outputs are generated by different nodes"
    elif not _begins_at(node, args):
        why = "the forward contains multiple nodes"
    else:
        return
    warnings.warn(
        f"Using a non-full backward hook when {why}: it misses some gradients. Use "
        "register_full_backward_hook, which sees those of the module's inputs and outputs.",
        FutureWarning,
        stacklevel=stacklevel(),
    )


def _begins_at(node: Any, args: Any) -> bool:
    """Whether a node takes the arguments themselves, and not what was made of them."""
    before = [edge[0] for edge in node.next_functions if edge[0] is not None]
    made = {one.grad_fn for one in args if one.grad_fn is not None}
    leaves = {id(one) for one in args}
    rest = {one for one in before if id(getattr(one, "variable", None)) not in leaves}
    return rest == made


def _for_module(hook: Callable[..., Any], module: Any) -> Callable[..., Any]:
    return lambda grad_input, grad_output: hook(module, grad_input, grad_output)
