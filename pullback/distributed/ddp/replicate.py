"""`replicate`: gradients averaged over ranks as in DistributedDataParallel, without a wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback.distributed.ddp.module import DistributedDataParallel
from pullback.nn.modules.module import Module

__all__ = ["replicate"]

_KEY = "_replicated_by"
_classes: dict[type, type] = {}


class _Replicated:
    """What a module is besides, once `replicate` was called for it."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Whether backward passes average; if not, gradients wait here for one that does."""
        vars(self)[_KEY][0].require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let `hook(state, bucket)` reduce the buckets."""
        vars(self)[_KEY][0].register_comm_hook(state, hook)

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("A module that replicate() was called for has no copies: copy it first.")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("A module that replicate() was called for goes nowhere by pickle.")


def replicate(
    module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any
) -> Module:
    """Average a module's gradients over ranks, in place: its parameters keep their names.

    Ranks begin with the first one's values. Keywords are those of `DistributedDataParallel`;
    parameters of `ignored_modules` are left alone.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed._composable import replicate
    >>> def train():
    ...     model = replicate(torch.nn.Linear(1, 1, bias=False))
    ...     model(torch.full((1, 1), dist.get_rank() + 1.0)).sum().backward()
    ...     return list(model.state_dict()), model.weight.grad.item()
    >>> dist.threads.run(train, 2)
    [(['weight'], 1.5), (['weight'], 1.5)]
    """
    if _KEY in vars(module):
        raise ValueError(f"replicate was called for this {type(module).__name__} already.")
    left_out = {
        id(held) for one in ignored_modules or () for held in (*one.parameters(), *one.buffers())
    }
    names = [
        name
        for name, held in (*module.named_parameters(), *module.named_buffers())
        if id(held) in left_out
    ]
    if names:
        vars(module)["_ddp_params_and_buffers_to_ignore"] = names
    wrapper = DistributedDataParallel(module, **kwargs)
    vars(module)[_KEY] = (wrapper,)  # in a tuple: it is no part of the module
    module.register_forward_pre_hook(lambda *_: wrapper._prepare_ranks(), prepend=True)
    module.register_forward_hook(lambda _, args, output: wrapper._await_backward(output))
    before = type(module)
    if before not in _classes:
        _classes[before] = type(f"DDP{before.__name__}", (_Replicated, before), {})
    module.__class__ = _classes[before]
    return module
