# ruff: noqa: F822 (names that are taken over below)
"""`torch.functional`: where torch keeps those of its functions that are Python."""

from __future__ import annotations

import pullback
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

__dir__ = _only_public(globals())
