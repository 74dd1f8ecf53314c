"""What functorch tried out: most of it is in `torch.func` now."""

from __future__ import annotations

from pullback._functorch.apis import chunk_vmap  # type: ignore[import-not-found]
from pullback.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_

__all__ = [
    "chunk_vmap",
    "functionalize",
    "hessian",
    "jacfwd",
    "jvp",
    "replace_all_batch_norm_modules_",
]
