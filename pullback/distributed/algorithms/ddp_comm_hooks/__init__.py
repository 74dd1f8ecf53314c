"""Hooks for `DistributedDataParallel.register_comm_hook`."""

from pullback.core.listing import only_public as _only_public

__all__: list[str] = []
__dir__ = _only_public(globals(), "default_hooks powerSGD_hook")
