"""Where torch keeps its function transforms; ours are in `pullback.func`."""

from __future__ import annotations

from . import apis, eager_transforms, make_functional, vmap

__all__ = ["apis", "eager_transforms", "make_functional", "vmap"]
