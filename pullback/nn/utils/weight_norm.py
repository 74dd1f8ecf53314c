"""Weight normalisation by a hook: the old way, see parametrizations.weight_norm for the new one."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn.base.old_names import warn_of_old
from pullback.nn.parameter import Parameter, is_lazy
from pullback.operators.linalg.distance import norm_except_dim

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def normalised(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`v`, with the norm `g`."""
    norm: Tensor = norm_except_dim(v, 2, dim)
    return v * (g / norm)


class WeightNorm:
    """The hook that computes a weight from its direction and its length, before each call.

    Args:
        name: Name of the parameter.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight as it is now."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return normalised(v, g, self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Put direction and length in the place of a weight."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"weight_norm: {name!r} has been normalised already.")
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError("weight_norm: a lazy module has to be called once before.")
        del module._parameters[name]
        length = norm_except_dim(weight, 2, made.dim).detach()
        module.register_parameter(name + "_g", Parameter(length))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Any) -> None:
        """Put the weight back as it is now."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for end in ("_g", "_v"):
            del module._parameters[self.name + end]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        """Compute the weight, before a call of its module."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int = 0) -> Any:
    """Train the direction and the length of a weight apart; lengths along `dim`, None: one.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> sorted(torch.nn.utils.weight_norm(torch.nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    warn_of_old("nn.utils.weight_norm", "nn.utils.parametrizations.weight_norm")
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary one again.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    >>> sorted(torch.nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"remove_weight_norm: {name!r} of {type(module).__name__} is not normalised.")
