"""`freeze` and its relatives: modules whose parameters are fixed."""

from __future__ import annotations

from typing import Any

from pullback.jit._script import ScriptModule

__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]


def freeze(
    mod: Any,
    preserved_attrs: list[str] | None = None,
    optimize_numerics: bool = True,
    preserve_parameters: bool = False,
) -> Any:
    """A copy of a scripted module in evaluation mode, whose parameters need no gradients.

    Unlike in torch, parameters stay visible: the module runs as Python.

    >>> import pullback as torch
    >>> frozen = torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 1)).eval())
    >>> frozen(torch.ones(1, 2)).requires_grad
    False
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("freeze() takes what jit.script or jit.trace gave, not a plain module.")
    if mod.training:
        raise RuntimeError("freeze() takes modules in evaluation mode; call .eval() first.")
    import copy

    frozen = copy.deepcopy(mod)
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    return frozen


def run_frozen_optimizations(mod: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing: there is nothing compiled to be optimised."""


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """A frozen copy; modules that are training are taken as they are, as torch does.

    >>> import pullback as torch
    >>> scripted = torch.jit.script(torch.nn.Dropout().eval())
    >>> torch.jit.optimize_for_inference(scripted)(torch.ones(2))
    tensor([1., 1.])
    """
    return freeze(mod.eval()) if isinstance(mod, ScriptModule) else mod
