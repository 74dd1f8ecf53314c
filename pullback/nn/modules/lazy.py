"""Lazy modules: sizes that follow from the first input are left open until it comes."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from pullback.core.hooks import RemovableHandle
from pullback.core.listing import only_public as _only_public
from pullback.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Comes before a Module class; its parameters are UninitializedParameter at first.

    At the first call, `initialize_parameters` is given the arguments, and has to `materialize` all
    of them. Then the module becomes an instance of `cls_to_become`.

    >>> import pullback as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> layer(torch.ones(2, 5)).shape
    torch.Size([2, 3])
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _initialize_hook: RemovableHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # No method of the module itself: its table of hooks would keep it alive.
        register: Any = self.register_forward_pre_hook  # type: ignore[attr-defined]  # mixed into modules
        self._initialize_hook = register(_initialise, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """Whether anything is still without a shape."""
        own = itertools.chain(self._parameters.values(), self._buffers.values())
        return any(is_lazy(one) for one in own)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give all parameters and buffers their shapes, from the arguments of the first call."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters().")

    def _replicate_for_data_parallel(self) -> Any:
        if self.has_uninitialized_params():
            raise RuntimeError("A lazy module must be called once before it is replicated.")
        return super()._replicate_for_data_parallel()  # type: ignore[misc]  # mixed into modules


def _initialise(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"{type(module).__name__}: initialize_parameters() left parameters without a shape."
        )
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


__dir__ = _only_public(globals())
