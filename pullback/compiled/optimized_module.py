"""`OptimizedModule`: what `compile` makes of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.nn.modules.module import Module

__all__ = ["OptimizedModule", "innermost_fn"]


class OptimizedModule(Module):
    """A module around another, `_orig_mod`, whose attributes it shows."""

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        """`dynamo_ctx` makes a compiled function of the module; None: it runs as it is."""
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["training"] = mod.training
        self.__dict__["_compiler"] = dynamo_ctx
        self.__dict__["_compiled"] = None if dynamo_ctx is None else dynamo_ctx(mod)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; hooks of all modules are called for the one inside alone."""
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks:
            return super().__call__(*args, **kwargs)
        if self._backward_pre_hooks:
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module inside gives."""
        called = self.__dict__.get("_compiled") or self._modules["_orig_mod"]
        return called(*args, **kwargs)  # type: ignore[misc]  # one of them is there

    def __getstate__(self) -> dict[str, Any]:
        """Without programs, which are made anew where they are needed."""
        return {**self.__dict__, "_compiled": None, "_compiler": None}

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("training",) or "_modules" not in self.__dict__ or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]  # if it has one

    def __getitem__(self, key: Any) -> Any:
        return self._modules["_orig_mod"][key]  # type: ignore[index]  # if it has items

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


def innermost_fn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was wrapped, by however many layers."""
    while hasattr(fn, "_torchdynamo_orig_callable"):
        fn = fn._torchdynamo_orig_callable
    return fn
