"""Spectral normalisation by a hook; see parametrizations.spectral_norm for the newer way."""

from __future__ import annotations

from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.tensor import Tensor
from pullback.nn.parameter import Parameter, is_lazy

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


def as_matrix(weight: Any, dim: int) -> Any:
    """The weight with `dim` first and all others together."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def outputs_dim(module: Any) -> int:
    """The dimension of a layer's weight that its outputs belong to."""
    from pullback.nn.modules.conv import _ConvTransposeNd

    return 1 if isinstance(module, _ConvTransposeNd) else 0


def of_length_one(vector: Any, eps: float) -> Any:
    """The vector, divided by its length."""
    from pullback.nn.functional import normalize

    return normalize(vector, dim=0, eps=eps)


class SpectralNorm:
    """The hook that divides a weight by its largest singular value, before each call.

    The singular vectors are buffers, which a power iteration improves at each call in training.

    Args:
        name: Name of the parameter.
        n_power_iterations: Power iterations at each call in training.
    """

    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}."
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Any:
        """The weight with the dimension of the outputs first and all others together."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight as it is now."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(of_length_one(matrix.t().mv(u), self.eps))
                    u.copy_(of_length_one(matrix.mv(v), self.eps))
                # Two calls before one backward: what the first one saved must not be written.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Any) -> None:
        """Put the weight back as it is now."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for end in ("_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        """Compute the weight, before a call of its module."""
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    @staticmethod
    def apply(
        module: Any, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put the original and the singular vectors in the place of a weight."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"spectral_norm: {name!r} has been normalised already.")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm: {type(module).__name__} has no {name!r}.")
        if is_lazy(weight):
            raise ValueError("spectral_norm: a lazy module has to be called once before.")
        with no_grad():
            rows, columns = made.reshape_weight_to_matrix(weight).shape
            u = of_length_one(weight.new_empty(rows).normal_(0, 1), eps)
            v = of_length_one(weight.new_empty(columns).normal_(0, 1), eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute: the parameter is the original.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
        return made


class SpectralNormLoadStateDictPreHook:
    """States of the first kind had no `_v`, and the normalised weight: that is made up here."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Bring an old state into the form of today."""
        fn = self.fn
        known = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        if known is not None and known >= 1:
            return
        key = prefix + fn.name
        if known is None and key not in state_dict and key + "_v" in state_dict:
            return  # of today, and its metadata was lost
        absent = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if absent:
            missing_keys += absent if strict else []
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix, u = fn.reshape_weight_to_matrix(original), state_dict[key + "_u"]
            # The v that belonged to this u, before the power iteration that made u of it; and of
            # such a length that u' W v is sigma, as it was.
            v = matrix.pinverse().mv(u)
            state_dict[key + "_v"] = v * (sigma / u.dot(matrix.mv(v)))


class SpectralNormStateDictHook:
    """Says in the state's metadata of which version it is."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        """Enter the version."""
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"spectral_norm: the metadata has {key!r} already.")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value, before each call.

    >>> import pullback as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    along = outputs_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, along, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary one again.

    >>> import pullback as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 2))
    >>> sorted(torch.nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            break
    else:
        raise ValueError(
            f"remove_spectral_norm: {name!r} of {type(module).__name__} is not normalised."
        )
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number, hook in table.items():
            if isinstance(hook, _STATE_HOOKS) and hook.fn.name == name:
                del table[number]
                break
    return module


_STATE_HOOKS = (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)
