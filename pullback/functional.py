# ruff: noqa: F822 (names that are taken over below)
"""`torch.functional`: where torch keeps those of its functions that are Python."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

import pullback
from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "lu",
    "meshgrid",
    "norm",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]

globals().update({name: getattr(pullback, name) for name in __all__})


def __getattr__(name: str) -> _Any:
    if name == "F":  # torch's module imports nn.functional by this name, and programs take it there
        return _import_module("pullback.nn.functional")
    raise _absent(__name__, name)


__dir__ = _only_public(globals())
