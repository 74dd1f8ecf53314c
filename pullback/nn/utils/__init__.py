"""Around parameters and modules: clipping, vectors, norms as parametrizations, pruning, packing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from pullback.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from pullback.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from pullback.nn.utils.weight_norm import remove_weight_norm, weight_norm
from pullback.operators.guarding import guard_all as _guard_all
from pullback.operators.guarding import guarded as _guarded

# Function -> the file that it is loaded from when first asked for: those need layers.
_FILE_OF = {
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "skip_init": "init",
}
_FILES = (
    *("fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "rnn"),
    *("clip_grad", "convert_parameters", "stateless"),
)

__all__ = [
    *sorted(_FILE_OF),
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

_guard_all(globals(), __all__)


def __getattr__(name: str) -> Any:
    if name in _FILE_OF:
        return _guarded(getattr(import_module(f"pullback.nn.utils.{_FILE_OF[name]}"), name))
    if name in _FILES:
        return import_module(f"pullback.nn.utils.{name}")
    raise absent(__name__, name)


__dir__ = _only_public(
    globals(),
    "clip_grad convert_parameters fusion init memory_format parametrizations parametrize prune "
    "rnn stateless ",
)
